// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module of reduction kernels.
#include "kernels/reduce_kernels.hpp"
