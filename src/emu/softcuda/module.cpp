// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Modules by handle. A module whose context has ended is as good as unloaded.
#include "emu/softcuda/module.hpp"
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

struct CUmod_st {
    CUcontext context;
    uint64_t context_id;
    CUlibrary library; // nullptr for a module that the program has loaded itself
    std::vector<CUfunc_st> functions{};

    bool alive() const { return context->alive && context->id == context_id; }
};

namespace softcuda {

namespace {

struct Modules {
    std::mutex mutex;
    std::map<CUmodule, std::unique_ptr<CUmod_st>> loaded;
};

Modules& modules()
{
    static auto& instance = *new Modules;
    return instance;
}

/// Called with the lock held.
CUmod_st& find(CUmodule handle)
{
    auto found = modules().loaded.find(handle);
    require(found != modules().loaded.end() && found->second->alive(), CUDA_ERROR_INVALID_HANDLE);
    return *found->second;
}

/// Called with the lock held.
CUmodule add_module(CUcontext context, CUlibrary library,
                    const std::vector<KernelDeclaration>& kernels)
{
    std::unique_ptr<CUmod_st> module(new CUmod_st{context, context->id, library});
    for (const KernelDeclaration& kernel : kernels) {
        module->functions.push_back({kernel, module.get()});
    }
    std::erase_if(modules().loaded, [](const auto& entry) { return !entry.second->alive(); });
    CUmodule handle = module.get();
    modules().loaded.emplace(handle, std::move(module));
    return handle;
}

CUresult load(CUmodule* handle, const void* image)
{
    require(handle != nullptr);
    require_no_capture();
    const std::vector<KernelDeclaration> kernels = kernels_of(image);
    std::lock_guard guard(modules().mutex);
    *handle = add_module(current_context(), nullptr, kernels);
    return CUDA_SUCCESS;
}

} // namespace

std::vector<KernelDeclaration> kernels_of(const void* image)
{
    require(image != nullptr);
    std::vector<KernelDeclaration> kernels = parse_ptx(static_cast<const char*>(image));
    require(kernels.empty() || std::any_of(kernels.begin(), kernels.end(), can_run),
            CUDA_ERROR_NOT_SUPPORTED);
    return kernels;
}

LoadedKernel loaded_kernel(CUfunction function)
{
    std::lock_guard guard(modules().mutex);
    for (const auto& [handle, module] : modules().loaded) {
        auto found = std::find_if(module->functions.begin(), module->functions.end(),
                                  [&](const CUfunc_st& one) { return &one == function; });
        if (found != module->functions.end() && module->alive()) {
            return {found->declaration, module->context};
        }
    }
    throw Error{CUDA_ERROR_INVALID_HANDLE};
}

CUmodule module_of(CUlibrary library, const std::vector<KernelDeclaration>& kernels,
                   CUcontext context)
{
    std::lock_guard guard(modules().mutex);
    for (const auto& [handle, module] : modules().loaded) {
        if (module->library == library && module->context == context && module->alive()) {
            return handle;
        }
    }
    return add_module(context, library, kernels);
}

void unload_modules_of(CUlibrary library)
{
    std::lock_guard guard(modules().mutex);
    std::erase_if(modules().loaded,
                  [&](const auto& entry) { return entry.second->library == library; });
}

CUfunction function_of(CUmodule module, const std::string& name)
{
    std::lock_guard guard(modules().mutex);
    auto& functions = find(module).functions;
    auto found = std::find_if(functions.begin(), functions.end(),
                              [&](const CUfunc_st& one) { return one.declaration.name == name; });
    require(found != functions.end(), CUDA_ERROR_NOT_FOUND);
    return &*found;
}

} // namespace softcuda

using namespace softcuda;

CUresult cuModuleLoadData(CUmodule* module, const void* image)
{
    return api(__func__, Needs::context, [&] { return load(module, image); });
}

// The options are for the compiler, of which there is none: what it would write is left empty.
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**)
{
    return api(__func__, Needs::context, [&] { return load(module, image); });
}

CUresult cuModuleUnload(CUmodule module)
{
    return api(__func__, Needs::context, [&] {
        require_no_capture();
        std::lock_guard guard(modules().mutex);
        require(find(module).library == nullptr, CUDA_ERROR_NOT_PERMITTED);
        modules().loaded.erase(module);
    });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name)
{
    return api(__func__, Needs::context, [&] {
        require(function != nullptr && name != nullptr);
        *function = function_of(module, name);
    });
}

// For programs that look at it alone: nothing is loaded late here.
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode)
{
    return api(__func__, Needs::init, [&] {
        require(mode != nullptr);
        const char* text = std::getenv("CUDA_MODULE_LOADING");
        *mode = text != nullptr && std::string_view(text) == "EAGER" ? CU_MODULE_EAGER_LOADING
                                                                     : CU_MODULE_LAZY_LOADING;
    });
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction function)
{
    return api(__func__, Needs::init, [&] {
        require(module != nullptr);
        loaded_kernel(function);
        *module = function->module;
    });
}

SOFTCUDA_EXPORT CUresult cuFuncGetName(const char** name, CUfunction function)
{
    return api(__func__, Needs::init, [&] {
        require(name != nullptr && function != nullptr);
        loaded_kernel(function);
        *name = function->declaration.name.c_str();
    });
}

SOFTCUDA_EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset,
                                            size_t* size)
{
    return api(__func__, Needs::init, [&] {
        require(function != nullptr);
        loaded_kernel(function).declaration.locate_parameter(index, offset, size);
    });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function)
{
    return api(__func__, Needs::init, [&] {
        require(value != nullptr);
        const LoadedKernel kernel = loaded_kernel(function);
        // What a compiler would have to tell is 0.
        require(attribute >= CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK &&
                attribute <= CU_FUNC_ATTRIBUTE_BINARY_VERSION);
        *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
                     ? kernel.declaration.max_threads
                     : 0;
    });
}
