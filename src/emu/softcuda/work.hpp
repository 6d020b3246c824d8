// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The operations that streams and graphs' nodes are made of, by what the driver API says of them.
// All throw what the API answers where that is wrong.
#pragma once

#include "emu/softcuda/stream.hpp"

struct softcuda_launch;

namespace softcuda {

struct LoadedKernel;

/// Throws CUDA_ERROR_INVALID_HANDLE.
void require_event(CUevent event);

Operation event_record(CUevent event);
Operation event_wait(CUevent event);
Operation host_function(CUhostFn function, void* argument);

/// A launch, in the context that the kernel was loaded into; its parameters are copied.
Operation launch_of(const LoadedKernel& kernel, const softcuda_launch& how, void* const* values,
                    void* const* extra);

/// A copy or a memset by the device of that number.
Operation copy_3d(const CUDA_MEMCPY3D& copy, int ordinal);
Operation memset_2d(const CUDA_MEMSET_NODE_PARAMS& memset, int ordinal);

/// A batch of stream memory operations, by the device of that number.
Operations memory_operations(const CUstreamBatchMemOpParams* batch, unsigned count, unsigned flags,
                             int ordinal);

} // namespace softcuda
