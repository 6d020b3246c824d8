// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Makes GPUs see what HCAs have written, where they do not by themselves.
#pragma once

#include "cuda/driver.hpp"
#include "sync/ucx/ucx.hpp"

namespace gdr::sync {

// In this context's GPU. Returns false, with a line in the log, if that was not possible.
bool flush_writes(const Ucx& ucx, CUcontext context);

} // namespace gdr::sync
