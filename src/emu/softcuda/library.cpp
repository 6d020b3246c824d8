// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Libraries by handle. In a context a library is a module, which is loaded when it is asked for.
#include "emu/softcuda/library.hpp"
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/module.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

struct CUkern_st {
    const softcuda::KernelDeclaration& declaration;
    CUlibrary library;
};

struct CUlib_st {
    const std::vector<softcuda::KernelDeclaration> declarations{};
    // Of its image: told where a kernel or the module is asked for, not when it is loaded.
    const CUresult defect = CUDA_SUCCESS;
    std::vector<CUkern_st> kernels{};
};

namespace softcuda {

namespace {

// CUlibraryOption came with CUDA 12.
#if CUDA_VERSION >= 12000
using LibraryOption = CUlibraryOption;
#else
using LibraryOption = int;
#endif
constexpr int kHostUniversalFunctionAndDataTable = 0, kBinaryIsPreserved = 1;

struct Libraries {
    std::mutex mutex;
    std::map<CUlibrary, std::unique_ptr<CUlib_st>> loaded;
};

Libraries& libraries()
{
    static auto& instance = *new Libraries;
    return instance;
}

/// Called with the lock held.
CUlib_st& find(CUlibrary handle)
{
    auto found = libraries().loaded.find(handle);
    require(found != libraries().loaded.end(), CUDA_ERROR_INVALID_HANDLE);
    return *found->second;
}

/// Called with the lock held.
CUlib_st& find_sound(CUlibrary handle)
{
    CUlib_st& library = find(handle);
    require(library.defect == CUDA_SUCCESS, library.defect);
    return library;
}

/// Called with the lock held; nullptr if it is no library's.
CUkernel find_kernel(const void* handle)
{
    for (const auto& [library, owned] : libraries().loaded) {
        for (CUkern_st& kernel : owned->kernels) {
            if (&kernel == handle) {
                return &kernel;
            }
        }
    }
    return nullptr;
}

/// Called with the lock held.
CUkern_st& require_kernel(CUkernel handle)
{
    CUkernel found = find_kernel(handle);
    require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return *found;
}

/// Called with the lock held.
CUmodule module_in(CUcontext context, CUlibrary library)
{
    return module_of(library, library->declarations, context);
}

/// Called with the lock held.
CUfunction function_in(CUcontext context, const CUkern_st& kernel)
{
    return function_of(module_in(context, kernel.library), kernel.declaration.name);
}

void check_options(const LibraryOption* options, unsigned count, bool from_file)
{
    require(count == 0 || options != nullptr);
    for (unsigned i = 0; i < count; ++i) {
        const int option = options[i];
        require(option == kHostUniversalFunctionAndDataTable ||
                (option == kBinaryIsPreserved && !from_file));
    }
}

std::unique_ptr<CUlib_st> library_of(const void* image)
{
    try {
        return std::unique_ptr<CUlib_st>(new CUlib_st{.declarations = kernels_of(image)});
    } catch (const Error& error) {
        return std::unique_ptr<CUlib_st>(new CUlib_st{.defect = error.result});
    }
}

CUresult load(CUlibrary* handle, const void* image)
{
    require(handle != nullptr && image != nullptr);
    std::unique_ptr<CUlib_st> library = library_of(image);
    for (const KernelDeclaration& declaration : library->declarations) {
        library->kernels.push_back({declaration, library.get()});
    }
    std::lock_guard guard(libraries().mutex);
    *handle = library.get();
    libraries().loaded.emplace(library.get(), std::move(library));
    return CUDA_SUCCESS;
}

/// An image ends with a zero, as in memory.
std::string read_image(const char* name)
{
    require(name != nullptr);
    std::ifstream file(name, std::ios::binary);
    std::string image;
    std::getline(file, image, '\0');
    require(file.is_open() && !file.bad(), CUDA_ERROR_FILE_NOT_FOUND);
    return image;
}

} // namespace

LoadedKernel launched_kernel(CUfunction function, CUcontext context)
{
    std::lock_guard guard(libraries().mutex);
    if (const CUkern_st* kernel = find_kernel(function)) {
        function = function_in(live_context(context), *kernel);
    }
    return loaded_kernel(function);
}

} // namespace softcuda

using namespace softcuda;

// ---- libraries; what the options say to the compiler, of which there is none, changes nothing

SOFTCUDA_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*,
                                           void**, unsigned, LibraryOption* options, void**,
                                           unsigned count)
{
    return api(__func__, Needs::init, [&] {
        check_options(options, count, false);
        return load(library, image);
    });
}

SOFTCUDA_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* name, CUjit_option*,
                                               void**, unsigned, LibraryOption* options, void**,
                                               unsigned count)
{
    return api(__func__, Needs::init, [&] {
        check_options(options, count, true);
        return load(library, read_image(name).c_str());
    });
}

SOFTCUDA_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    return api(__func__, Needs::init, [&] {
        require_no_capture();
        std::lock_guard guard(libraries().mutex);
        find(library);
        unload_modules_of(library);
        libraries().loaded.erase(library);
    });
}

SOFTCUDA_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name)
{
    return api(__func__, Needs::init, [&] {
        require(kernel != nullptr && name != nullptr);
        std::lock_guard guard(libraries().mutex);
        auto& kernels = find_sound(library).kernels;
        auto found = std::find_if(kernels.begin(), kernels.end(), [&](const CUkern_st& one) {
            return one.declaration.name == name;
        });
        require(found != kernels.end(), CUDA_ERROR_NOT_FOUND);
        *kernel = &*found;
    });
}

SOFTCUDA_EXPORT CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library)
{
    return api(__func__, Needs::init, [&] {
        require(count != nullptr);
        std::lock_guard guard(libraries().mutex);
        *count = static_cast<unsigned>(find(library).kernels.size());
    });
}

SOFTCUDA_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned most,
                                                   CUlibrary library)
{
    return api(__func__, Needs::init, [&] {
        require(kernels != nullptr);
        std::lock_guard guard(libraries().mutex);
        auto& all = find(library).kernels;
        for (size_t i = 0; i < most && i < all.size(); ++i) {
            kernels[i] = &all[i];
        }
    });
}

SOFTCUDA_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library)
{
    return api(__func__, Needs::context, [&] {
        require(module != nullptr);
        std::lock_guard guard(libraries().mutex);
        *module = module_in(current_context(), &find_sound(library));
    });
}

// ---- kernels

SOFTCUDA_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel)
{
    return api(__func__, Needs::context, [&] {
        require(function != nullptr);
        std::lock_guard guard(libraries().mutex);
        *function = function_in(current_context(), require_kernel(kernel));
    });
}

SOFTCUDA_EXPORT CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel)
{
    return api(__func__, Needs::init, [&] {
        require(library != nullptr);
        std::lock_guard guard(libraries().mutex);
        *library = require_kernel(kernel).library;
    });
}

SOFTCUDA_EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel)
{
    return api(__func__, Needs::init, [&] {
        require(name != nullptr && kernel != nullptr);
        std::lock_guard guard(libraries().mutex);
        *name = require_kernel(kernel).declaration.name.c_str();
    });
}

SOFTCUDA_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset,
                                              size_t* size)
{
    return api(__func__, Needs::init, [&] {
        require(kernel != nullptr);
        std::lock_guard guard(libraries().mutex);
        require_kernel(kernel).declaration.locate_parameter(index, offset, size);
    });
}
