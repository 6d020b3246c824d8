// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// In the place of the compiled kernels, in a build without clang.
#include "kernels/module.hpp"

const char* const gdr::kernels::pack_ptx = nullptr;
const char* const gdr::kernels::reduce_ptx = nullptr;
