// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// cuGetProcAddress: the entry point that a program built for a CUDA version expects under a name;
// and cuGetExportTable, by which NVIDIA's runtime libraries get at what has no name.
#include "emu/softcuda/api.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
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
    {"cuCtxCreate_v3", 11040},
    {"cuCtxCreate_v4", 12050},
    {"cuCtxGetDevice_v2", 13000},
    {"cuCtxSynchronize_v2", 13000},
    {"cuEventElapsedTime_v2", 12080},
    {"cuGetProcAddress_v2", 12000},
    {"cuGraphAddDependencies_v2", 12030},
    {"cuGraphAddNode_v2", 12030},
    {"cuGraphExecUpdate_v2", 12000},
    {"cuGraphGetEdges_v2", 12030},
    {"cuGraphNodeGetDependencies_v2", 12030},
    {"cuGraphNodeGetDependentNodes_v2", 12030},
    {"cuGraphRemoveDependencies_v2", 12030},
    {"cuStreamBeginCapture_v2", 10010},
    {"cuStreamGetCaptureInfo_v2", 11030},
    {"cuStreamGetCaptureInfo_v3", 12030},
    {"cuStreamGetCtx_v2", 12050},
    {"cuStreamUpdateCaptureDependencies_v2", 12030},
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

void* own_symbol(const std::string& symbol)
{
    static void* const library = own_library();
    return dlsym(library, symbol.c_str());
}

void* find_entry_point(const char* name, int version, bool per_thread)
{
    for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
        std::string symbol = std::string(name) + suffix;
        if (!suits(symbol, version)) {
            continue;
        }
        // With a stream of its own, or for functions that have none; most know of neither.
        for (const char* stream : {"_ptsz", "_ptds", ""}) {
            if (void* found = per_thread || *stream == 0 ? own_symbol(symbol + stream) : nullptr) {
                return found;
            }
        }
    }
    return nullptr;
}

/// nullptr if there is none.
void* resolve(const char* name, void** function, int version, cuuint64_t flags)
{
    constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    require(name != nullptr && function != nullptr && std::strncmp(name, "cu", 2) == 0);
    require((flags & ~(kPerThread | CU_GET_PROC_ADDRESS_LEGACY_STREAM)) == 0);
    // Since CUDA 12 the name stands for what was another function.
    if (version >= 12000 && std::strcmp(name, "cuGraphInstantiate") == 0) {
        name = "cuGraphInstantiateWithFlags";
    }
    return *function = find_entry_point(name, version, (flags & kPerThread) != 0);
}

/// The file that the code at an address comes from.
const char* file_of(const void* address)
{
    Dl_info info{};
    return dladdr(address, &info) != 0 ? info.dli_fname : "this program";
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

SOFTCUDA_EXPORT CUresult cuGetExportTable(const void**, const CUuuid*)
{
    const char* caller = file_of(__builtin_return_address(0));
    return api(__func__, Needs::nothing, [&] {
        static std::atomic<bool> told{false};
        if (!told.exchange(true)) {
            const char* slash = std::strrchr(caller, '/');
            const bool shared =
                std::strncmp(slash != nullptr ? slash + 1 : caller, "libcudart.so", 12) == 0;
            std::fprintf(
                stderr,
                "softcuda: NVIDIA's CUDA runtime in %s needs NVIDIA's driver "
                "(cuGetExportTable), so its calls fail with error 801: %s\n",
                caller,
                shared ? "the program opens this file by its path, or its run path (DT_RPATH) "
                         "leads there before the emulated runtime is found; by name alone "
                         "(libcudart.so) it gets that one under \"ucx-gdr run\""
                       : "link with the shared runtime (nvcc -cudart shared), of which \"ucx-gdr "
                         "run\" brings its own");
        }
        throw Error{CUDA_ERROR_NOT_SUPPORTED};
    });
}
