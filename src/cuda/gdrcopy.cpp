// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opens libgdrapi.so.2, and pins and maps memory through it.
#include "cuda/gdrcopy.hpp"

#include <system_error>

#include <dlfcn.h>
#include <unistd.h>

namespace gdr::cuda {

namespace {

constexpr const char* kLibrary = "libgdrapi.so.2";
constexpr int kMajor = 2;

std::string failure(const char* call, int error)
{
    return std::string(call) + ": " + std::generic_category().message(error);
}

} // namespace

CpuMapping::~CpuMapping()
{
    if (library_ != nullptr) {
        library_->unmap(*this);
    }
}

void CpuMapping::write(uintptr_t address, const void* from, size_t length) const
{
    library_->functions_.gdr_copy_to_mapping({handle_}, at(address), from, length);
}

void CpuMapping::read(void* to, uintptr_t address, size_t length) const
{
    library_->functions_.gdr_copy_from_mapping({handle_}, to, at(address), length);
}

std::string Gdrcopy::open()
{
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return dlerror(); // names the file
    }
    const char* missing = nullptr;
    const auto look_up = [&]<class Function>(const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (function == nullptr && missing == nullptr) {
            missing = name;
        }
        return function != nullptr;
    };
    look_up("gdr_open", functions_.gdr_open);
    look_up("gdr_pin_buffer", functions_.gdr_pin_buffer);
    look_up("gdr_unpin_buffer", functions_.gdr_unpin_buffer);
    look_up("gdr_map", functions_.gdr_map);
    look_up("gdr_unmap", functions_.gdr_unmap);
    look_up("gdr_copy_to_mapping", functions_.gdr_copy_to_mapping);
    look_up("gdr_copy_from_mapping", functions_.gdr_copy_from_mapping);
    look_up("gdr_runtime_get_version", functions_.gdr_runtime_get_version);
    // gdr_get_info fills in the first fields of the same structure and supports only the kernel
    // module.
    const char* const still_missing = missing;
    if (look_up("gdr_get_info_v2", functions_.gdr_get_info) ||
        look_up("gdr_get_info", functions_.gdr_get_info)) {
        missing = still_missing;
    }
    if (missing != nullptr) {
        return std::string(kLibrary) + " has no " + missing + ": it is too old, or none of gdrcopy";
    }
    int major = 0;
    int minor = 0;
    functions_.gdr_runtime_get_version(&major, &minor);
    version_ = std::to_string(major) + "." + std::to_string(minor);
    if (major != kMajor) {
        return std::string(kLibrary) + " is of version " + version_ + ", not 2";
    }
    gdr_ = functions_.gdr_open();
    if (gdr_ == nullptr) {
        return std::string(kLibrary) + " " + version_ +
               " reaches no device memory (gdr_open): it needs its kernel module (is gdrdrv "
               "loaded, and /dev/gdrdrv accessible?), or, from 2.6 on, a CUDA driver of 13.3 or "
               "later";
    }
    return {};
}

// Never destroyed, because mappings may be released until the process ends.
Gdrcopy* Gdrcopy::instance(std::string* why_not)
{
    static Gdrcopy& library = *new Gdrcopy;
    static const std::string& obstacle = *new std::string(library.open());
    *why_not = obstacle;
    return obstacle.empty() ? &library : nullptr;
}

// The kernel module maps whole GPU pages, whoever owns the memory in them. The CUDA driver maps
// only pages that belong to one allocation, so smaller pages are tried next.
CpuMapping Gdrcopy::map(uintptr_t start, size_t length, std::string* cause)
{
    constexpr uintptr_t kGpuPage = 64 << 10;
    const std::lock_guard guard(mutex_);
    CpuMapping mapping;
    for (const uintptr_t page : {kGpuPage, static_cast<uintptr_t>(sysconf(_SC_PAGESIZE))}) {
        const uintptr_t first = start & ~(page - 1);
        const uintptr_t end = (start + length + page - 1) & ~(page - 1);
        *cause = map_pages(first, end - first, &mapping);
        if (cause->empty()) {
            break;
        }
    }
    return mapping;
}

std::string Gdrcopy::map_pages(uintptr_t start, size_t length, CpuMapping* mapping)
{
    Handle handle;
    if (int error = functions_.gdr_pin_buffer(gdr_, start, length, 0, 0, &handle); error != 0) {
        return failure("gdr_pin_buffer", error);
    }
    Info info = {};
    if (int error = functions_.gdr_get_info(gdr_, handle, &info); error != 0) {
        functions_.gdr_unpin_buffer(gdr_, handle);
        return failure("gdr_get_info", error);
    }
    void* mapped = nullptr;
    const size_t size = start + length - info.va; // the mapping begins at a page boundary
    if (int error = functions_.gdr_map(gdr_, handle, &mapped, size); error != 0) {
        functions_.gdr_unpin_buffer(gdr_, handle);
        return failure("gdr_map", error);
    }
    mapping->library_ = this;
    mapping->handle_ = handle.h;
    mapping->mapped_ = static_cast<char*>(mapped);
    mapping->start_ = info.va;
    mapping->length_ = size;
    ++mappings_;
    return {};
}

// If this fails, the memory stays pinned.
void Gdrcopy::unmap(const CpuMapping& mapping)
{
    const std::lock_guard guard(mutex_);
    functions_.gdr_unmap(gdr_, {mapping.handle_}, mapping.mapped_, mapping.length_);
    functions_.gdr_unpin_buffer(gdr_, {mapping.handle_});
    --mappings_;
}

} // namespace gdr::cuda
