// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX's patcher of functions, with which a UCX that is built with CUDA hooks the driver. libucm
// exports it in every build, with the same signature in all series.
#pragma once

#include <string>

namespace gdr::abi {

// Returns an empty string on success: calls of function now go to hook, and *original does what
// function did. *original is set before the first such call. Otherwise returns why not. A function
// that is already patched is patched again; then *original is the earlier hook.
//
// Other threads may call the function meanwhile. From 1.16 on, UCX stops them at its beginning for
// 5 ms (50 ms in 1.22), so that threads that have just passed it are gone.
std::string patch_function(void* function, void* hook, const char* name, void** original);

// Whether the user lets functions of the CUDA driver be patched (UCX_MEM_CUDA_HOOK_MODE).
bool user_allows_patches();

} // namespace gdr::abi
