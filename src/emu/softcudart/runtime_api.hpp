// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The declarations of what all versions of CUDA declare alike, made to be exported.
#pragma once

#include "emu/softcudart/api.hpp"

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop
