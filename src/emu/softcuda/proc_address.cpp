// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// cuGetProcAddress: the entry point that a program built for a CUDA version expects under a name.
#include "emu/softcuda/api.hpp"

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace softcuda {

namespace {

/// Entry points that came when an older one of another signature, which also exists, was in use.
/// All others serve every CUDA version.
struct Since {
    const char* symbol;
    int version;
};
constexpr Since kSince[] = {
    {"cuCtxCreate_v3", 11040},        {"cuCtxCreate_v4", 12050},
    {"cuCtxGetDevice_v2", 13000},     {"cuCtxSynchronize_v2", 13000},
    {"cuEventElapsedTime_v2", 12080}, {"cuGetProcAddress_v2", 12000},
    {"cuStreamGetCtx_v2", 12050},
};

bool suits(const std::string& symbol, int version)
{
    for (const Since& since : kSince) {
        if (symbol == since.symbol) {
            return version >= since.version;
        }
    }
    return true;
}

void* own_library()
{
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&own_library), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void* find_entry_point(const char* name, int version)
{
    static void* const library = own_library();
    for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
        std::string symbol = std::string(name) + suffix;
        if (void* found = dlsym(library, symbol.c_str()); found && suits(symbol, version)) {
            return found;
        }
    }
    return nullptr;
}

/// nullptr if there is none.
void* resolve(const char* name, void** function, int version, cuuint64_t flags)
{
    require(name != nullptr && function != nullptr && std::strncmp(name, "cu", 2) == 0);
    // Entry points for which the default stream is the thread's own are not there.
    require((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) == 0, CUDA_ERROR_NOT_SUPPORTED);
    return *function = find_entry_point(name, version);
}

} // namespace

} // namespace softcuda

using namespace softcuda;

#undef cuGetProcAddress
SOFTCUDA_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version,
                                          cuuint64_t flags)
{
    return api(__func__, Needs::nothing, [&] {
        require(resolve(name, function, version, flags) != nullptr, CUDA_ERROR_NOT_FOUND);
    });
}

// CUdriverProcAddressQueryResult came with CUDA 12.0.
#if CUDA_VERSION >= 12000
using QueryResult = CUdriverProcAddressQueryResult;
#else
using QueryResult = int;
#endif

SOFTCUDA_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int version,
                                             cuuint64_t flags, QueryResult* status)
{
    return api(__func__, Needs::nothing, [&] {
        // Success also where there is none: it is the function and the status that tell.
        bool found = resolve(name, function, version, flags) != nullptr;
        if (status != nullptr) {
            constexpr int kFound = 0, kNotFound = 1;
            *status = static_cast<QueryResult>(found ? kFound : kNotFound);
        }
    });
}
