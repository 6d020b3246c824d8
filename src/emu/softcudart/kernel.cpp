// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What programs compiled by nvcc call at their start and for each <<<>>>. The emulated devices run
// no code: kernels and device variables are known by name, so that a launch can say what did not
// run. No header declares most of these.
#include "emu/softcudart/api.hpp"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace softcudart {

namespace {

// Values of the runtime alone.
constexpr int kMissingConfiguration = 52;
constexpr int kInvalidDeviceFunction = 98;

struct Dim3 {
    unsigned x, y, z;
};

/// What <<<>>> holds, on its way to the launch.
struct Configuration {
    Dim3 grid, block;
    size_t shared_memory;
    CUstream stream;
};
thread_local std::vector<Configuration> configurations;

/// What device code there is in the program, by the host's symbol for it.
struct Symbol {
    void** fat_binary;
    std::string name;
};
struct Symbols {
    std::mutex mutex;
    std::map<const void*, Symbol> all;
    std::set<std::string> told;
};

Symbols& symbols()
{
    static auto& instance = *new Symbols;
    return instance;
}

/// As the source has it: functions have mangled names, variables mostly not.
std::string readable(const char* name)
{
    if (std::strncmp(name, "_Z", 2) != 0) {
        return name;
    }
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> demangled(
        abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
    return status == 0 ? demangled.get() : name;
}

void add(void** fat_binary, const void* symbol, const char* name)
{
    Symbols& s = symbols();
    std::lock_guard guard(s.mutex);
    s.all[symbol] = {fat_binary, readable(name)};
}

/// Throws that a kernel or variable is not supported, after a line on standard error, once for
/// each.
[[noreturn]] void refuse(const char* what, const void* symbol, int unknown)
{
    Symbols& s = symbols();
    std::lock_guard guard(s.mutex);
    auto found = s.all.find(symbol);
    require(found != s.all.end(), unknown);
    const std::string text = std::string(what) + " " + found->second.name;
    if (s.told.insert(text).second) {
        std::fprintf(stderr, "softcudart: %s: the emulated GPUs run no device code\n",
                     text.c_str());
    }
    throw Error{CUDA_ERROR_NOT_SUPPORTED, true};
}

[[noreturn]] void refuse_launch(const void* kernel)
{
    refuse("not launched: kernel", kernel, kInvalidDeviceFunction);
}

[[noreturn]] void refuse_variable(const void* variable)
{
    constexpr int kInvalidSymbol = 13;
    refuse("not there: device variable", variable, kInvalidSymbol);
}

} // namespace

} // namespace softcudart

using namespace softcudart;

// ---- registration

SOFTCUDART_EXPORT void** __cudaRegisterFatBinary(void* binary)
{
    return new void*(binary);
}

SOFTCUDART_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

SOFTCUDART_EXPORT void __cudaUnregisterFatBinary(void** binary)
{
    Symbols& s = symbols();
    std::lock_guard guard(s.mutex);
    std::erase_if(s.all, [&](const auto& entry) { return entry.second.fat_binary == binary; });
    delete binary;
}

SOFTCUDART_EXPORT char __cudaInitModule(void**)
{
    return 1;
}

SOFTCUDART_EXPORT void __cudaRegisterFunction(void** binary, const char* host, char*,
                                              const char* name, int, void*, void*, Dim3*, Dim3*,
                                              int*)
{
    add(binary, host, name);
}

SOFTCUDART_EXPORT void __cudaRegisterVar(void** binary, char* host, char*, const char* name, int,
                                         size_t, int, int)
{
    add(binary, host, name);
}

// The host reaches such a variable by a pointer that stays null: said before the program dies of
// it.
SOFTCUDART_EXPORT void __cudaRegisterManagedVar(void** binary, void** host, char*, const char* name,
                                                int, size_t, int, int)
{
    add(binary, host, name);
    static_cast<void>(
        api(__func__, Needs::nothing, [&] { refuse("not there: managed variable", host, 0); }));
}

SOFTCUDART_EXPORT void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
SOFTCUDART_EXPORT void __cudaRegisterTexture(void**, const void*, const void**, const char*, int,
                                             int, int)
{
}
SOFTCUDART_EXPORT void __cudaRegisterSurface(void**, const void*, const void**, const char*, int,
                                             int)
{
}
SOFTCUDART_EXPORT void __cudaRegisterUnifiedTable(void*) {}

// ---- launches

SOFTCUDART_EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared_memory,
                                                       CUstream stream)
{
    return api(__func__, Needs::nothing, [&] {
        configurations.push_back({grid, block, shared_memory, stream});
    });
}

SOFTCUDART_EXPORT int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared_memory,
                                                 CUstream* stream)
{
    return api(__func__, Needs::nothing, [&] {
        require(!configurations.empty(), kMissingConfiguration);
        const Configuration last = configurations.back();
        configurations.pop_back();
        *grid = last.grid;
        *block = last.block;
        *shared_memory = last.shared_memory;
        *stream = last.stream;
    });
}

SOFTCUDART_EXPORT int cudaLaunchKernel(const void* kernel, Dim3, Dim3, void**, size_t, CUstream)
{
    return api(__func__, Needs::context, [&] { refuse_launch(kernel); });
}

SOFTCUDART_EXPORT int cudaLaunchCooperativeKernel(const void* kernel, Dim3, Dim3, void**, size_t,
                                                  CUstream)
{
    return api(__func__, Needs::context, [&] { refuse_launch(kernel); });
}

SOFTCUDART_EXPORT int cudaLaunchKernelExC(const void*, const void* kernel, void**)
{
    return api(__func__, Needs::context, [&] { refuse_launch(kernel); });
}

// CUDA 13 launches by a handle: here the host's symbol.
SOFTCUDART_EXPORT int __cudaGetKernel(const void** handle, const void* kernel)
{
    return api(__func__, Needs::nothing, [&] { *handle = kernel; });
}

SOFTCUDART_EXPORT int __cudaLaunchKernel(const void* kernel, Dim3, Dim3, void**, size_t, CUstream)
{
    return api(__func__, Needs::context, [&] { refuse_launch(kernel); });
}

// ---- device variables

SOFTCUDART_EXPORT int cudaMemcpyToSymbol(const void* variable, const void*, size_t, size_t, int)
{
    return api(__func__, Needs::context, [&] { refuse_variable(variable); });
}

SOFTCUDART_EXPORT int cudaMemcpyFromSymbol(void*, const void* variable, size_t, size_t, int)
{
    return api(__func__, Needs::context, [&] { refuse_variable(variable); });
}

SOFTCUDART_EXPORT int cudaMemcpyToSymbolAsync(const void* variable, const void*, size_t, size_t,
                                              int, CUstream)
{
    return api(__func__, Needs::context, [&] { refuse_variable(variable); });
}

SOFTCUDART_EXPORT int cudaMemcpyFromSymbolAsync(void*, const void* variable, size_t, size_t, int,
                                                CUstream)
{
    return api(__func__, Needs::context, [&] { refuse_variable(variable); });
}

SOFTCUDART_EXPORT int cudaGetSymbolAddress(void**, const void* variable)
{
    return api(__func__, Needs::context, [&] { refuse_variable(variable); });
}

SOFTCUDART_EXPORT int cudaGetSymbolSize(size_t*, const void* variable)
{
    return api(__func__, Needs::context, [&] { refuse_variable(variable); });
}

// ---- the same with per-thread default streams

SOFTCUDART_ALSO(cudaLaunchKernel_ptsz, cudaLaunchKernel)
SOFTCUDART_ALSO(cudaLaunchCooperativeKernel_ptsz, cudaLaunchCooperativeKernel)
SOFTCUDART_ALSO(cudaLaunchKernelExC_ptsz, cudaLaunchKernelExC)
SOFTCUDART_ALSO(__cudaLaunchKernel_ptsz, __cudaLaunchKernel)
SOFTCUDART_ALSO(cudaMemcpyToSymbol_ptds, cudaMemcpyToSymbol)
SOFTCUDART_ALSO(cudaMemcpyFromSymbol_ptds, cudaMemcpyFromSymbol)
SOFTCUDART_ALSO(cudaMemcpyToSymbolAsync_ptsz, cudaMemcpyToSymbolAsync)
SOFTCUDART_ALSO(cudaMemcpyFromSymbolAsync_ptsz, cudaMemcpyFromSymbolAsync)
