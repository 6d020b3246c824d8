// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The search for libucp. If there are several, the one that is linked with this libuct belongs to
// it.
#include "abi/libucp.hpp"

#include <filesystem>
#include <stdexcept>
#include <vector>

#include <dlfcn.h>
#include <link.h>

namespace gdr::abi {
namespace {

constexpr const char* kVersion = "ucp_get_version";

std::vector<std::string> loaded_libraries()
{
    std::vector<std::string> paths;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* list) {
            if (*info->dlpi_name) {
                static_cast<std::vector<std::string>*>(list)->push_back(info->dlpi_name);
            }
            return 0;
        },
        &paths);
    return paths;
}

// Whatever their suffix.
std::vector<std::string> installed_beside(const std::filesystem::path& uct)
{
    std::vector<std::string> paths;
    std::string name = uct.filename();
    if (name.starts_with("libuct")) {
        paths.push_back(uct.parent_path() / name.replace(0, 6, "libucp"));
    }
    std::error_code unreadable;
    for (const auto& entry : std::filesystem::directory_iterator(uct.parent_path(), unreadable)) {
        const std::string other = entry.path().filename();
        if (other.starts_with("libucp") && other.find(".so") != std::string::npos) {
            paths.push_back(entry.path());
        }
    }
    return paths;
}

} // namespace

std::string library_of(const void* address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) {
        throw std::runtime_error("dladdr() does not know the library of UCX");
    }
    return info.dli_fname;
}

// Whether the library itself reports a version, and belongs to the UCX of this libuct.
bool Libucp::accept(const char* path, int flags, void* libuct)
{
    constexpr const char* kOfLibuct = "uct_component_register";
    handle_ = dlopen(path, RTLD_LAZY | RTLD_LOCAL | flags);
    if (!handle_) {
        return false;
    }
    get_version = reinterpret_cast<decltype(get_version)>(dlsym(handle_, kVersion));
    if (get_version && dlsym(handle_, kOfLibuct) == dlsym(libuct, kOfLibuct)) {
        return true;
    }
    dlclose(handle_);
    handle_ = nullptr;
    return false;
}

Libucp::Libucp(void* libuct, const std::string& uct_path)
{
    // First the one that all lookups find, so that no other library is touched.
    if (const void* global = dlsym(RTLD_DEFAULT, kVersion);
        global && accept(library_of(global).c_str(), RTLD_NOLOAD, libuct)) {
        return;
    }
    for (const std::string& path : loaded_libraries()) {
        if (accept(path.c_str(), RTLD_NOLOAD, libuct)) {
            return;
        }
    }
    for (const std::string& path : installed_beside(uct_path)) {
        if (accept(path.c_str(), 0, libuct)) {
            return;
        }
    }
    throw std::runtime_error("no libucp beside " + uct_path +
                             " that could tell its version; install UCX completely");
}

Libucp::~Libucp()
{
    dlclose(handle_);
}

} // namespace gdr::abi
