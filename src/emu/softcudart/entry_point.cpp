// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The driver's entry points, by name. cudaGetDriverEntryPoint has had one argument more since
// CUDA 12.
#include "emu/softcudart/api.hpp"

using namespace softcudart;

namespace {

/// 0 with the entry point, 1 without. `flags` are the driver's.
int find(const char* name, void** function, int version, cuuint64_t flags)
{
    require(name != nullptr && function != nullptr);
    *function = nullptr;
#undef cuGetProcAddress
#if CUDA_VERSION >= 12000
    CUdriverProcAddressQueryResult status{};
    check(cuGetProcAddress_v2(name, function, version, flags, &status));
    return status;
#else
    const CUresult result = cuGetProcAddress(name, function, version, flags);
    require(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_FOUND, result);
    return result == CUDA_ERROR_NOT_FOUND;
#endif
}

void find_for_this_version(const char* name, void** function, cuuint64_t flags, int* status)
{
    const int result = find(name, function, kVersion, flags);
    if (kVersion < 12000) {
        require(result == 0, CUDA_ERROR_NOT_FOUND); // there is no argument for it
    } else if (status != nullptr) {
        *status = result;
    }
}

void find_by_version(const char* name, void** function, unsigned version, cuuint64_t flags,
                     int* status)
{
    const int result = find(name, function, static_cast<int>(version), flags);
    if (status != nullptr) {
        *status = result;
    }
}

constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

/// For programs with per-thread default streams these are the default.
cuuint64_t own(cuuint64_t flags)
{
    return flags == CU_GET_PROC_ADDRESS_DEFAULT ? kPerThread : flags;
}

} // namespace

SOFTCUDART_EXPORT int cudaGetDriverEntryPoint(const char* name, void** function,
                                              unsigned long long flags, int* status)
{
    return api(__func__, Needs::driver,
               [&] { find_for_this_version(name, function, flags, status); });
}

SOFTCUDART_EXPORT int cudaGetDriverEntryPoint_ptsz(const char* name, void** function,
                                                   unsigned long long flags, int* status)
{
    return api(__func__, Needs::driver,
               [&] { find_for_this_version(name, function, own(flags), status); });
}

SOFTCUDART_EXPORT int cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                       unsigned version, unsigned long long flags,
                                                       int* status)
{
    return api(__func__, Needs::driver,
               [&] { find_by_version(name, function, version, flags, status); });
}

SOFTCUDART_EXPORT int cudaGetDriverEntryPointByVersion_ptsz(const char* name, void** function,
                                                            unsigned version,
                                                            unsigned long long flags, int* status)
{
    return api(__func__, Needs::driver,
               [&] { find_by_version(name, function, version, own(flags), status); });
}
