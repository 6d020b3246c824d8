// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module of packing kernels.
#include "kernels/pack_kernels.hpp"
