// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Files that programs look at before they trust a device. Of the device nodes
// /dev/infiniband/softhcaN stat() finds a character device, access() allows it. The vital product
// data of the PCI function, /sys/class/infiniband/softhcaN/device/vpd, opens where the profile has
// any. Every other path goes on to libc.
#include "emu/softhca/config.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace {

// The number of the device whose name is between these two parts of a path; -1: of none.
int device_of(const char* path, std::string_view before = "/dev/infiniband/",
              std::string_view behind = "")
{
    // Other paths come before the configuration is known, which may be read from files.
    if (path == nullptr || std::strncmp(path, before.data(), before.size()) != 0) {
        return -1;
    }
    const std::string_view rest = path + before.size();
    const softhca::Config& config = softhca::config();
    for (unsigned i = 0; i < config.devices; ++i) {
        if (rest.starts_with(config.names[i]) && rest.substr(config.names[i].size()) == behind) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

// A name, and a read-only area with one vendor's field.
std::string vital_product_data(const std::string& field)
{
    constexpr std::string_view name = "softhca";
    const auto resource = [](char tag, std::string_view bytes) {
        return std::string{tag, static_cast<char>(bytes.size()), '\0'}.append(bytes);
    };
    const std::string fields = std::string("V0") + static_cast<char>(field.size()) + field;
    return resource('\x82', name) + resource('\x90', fields) + '\x78';
}

// A descriptor of the file; -1: the path is none of these.
int open_vpd(const char* path)
{
    const int device = device_of(path, "/sys/class/infiniband/", "/device/vpd");
    if (device < 0 || softhca::profile_of(static_cast<unsigned>(device)).vpd.empty()) {
        return -1;
    }
    const std::string data =
        vital_product_data(softhca::profile_of(static_cast<unsigned>(device)).vpd);
    const int fd = memfd_create("softhca-vpd", MFD_CLOEXEC);
    if (fd >= 0 && pwrite(fd, data.data(), data.size(), 0) != static_cast<ssize_t>(data.size())) {
        close(fd);
        return -1;
    }
    return fd;
}

template <class Stat>
int fill(int device, Stat* status)
{
    std::memset(status, 0, sizeof *status);
    status->st_mode = S_IFCHR | 0666;
    status->st_rdev = makedev(231, 192 + static_cast<unsigned>(device));
    status->st_nlink = 1;
    return 0;
}

template <class Function>
Function next(const char* name)
{
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// A C library before 2.33 has no function of the name: programs call __xstat().
template <class Stat>
int stat_of_kernel(const char* path, Stat* status)
{
    static_assert(sizeof *status == sizeof(struct stat)); // the kernel's own where long is 64 bits
    return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

int stat(const char* path, struct stat* status)
{
    static const auto real = next<int (*)(const char*, struct stat*)>("stat");
    const int device = device_of(path);
    return device >= 0       ? fill(device, status)
           : real != nullptr ? real(path, status)
                             : stat_of_kernel(path, status);
}

int stat64(const char* path, struct stat64* status)
{
    static const auto real = next<int (*)(const char*, struct stat64*)>("stat64");
    const int device = device_of(path);
    return device >= 0       ? fill(device, status)
           : real != nullptr ? real(path, status)
                             : stat_of_kernel(path, status);
}

// What stat() was in programs built with a C library before 2.33.
int __xstat(int version, const char* path, struct stat* status)
{
    static const auto real = next<int (*)(int, const char*, struct stat*)>("__xstat");
    const int device = device_of(path);
    return device >= 0 ? fill(device, status) : real(version, path, status);
}

int access(const char* path, int mode)
{
    static const auto real = next<int (*)(const char*, int)>("access");
    return device_of(path) >= 0 && (mode & X_OK) == 0 ? 0 : real(path, mode);
}

// A mode is passed on also where the program gave none: libc looks at it only if it creates a file.
int open_file(const char* path, int flags, mode_t mode) __asm__("open");
int open_file(const char* path, int flags, mode_t mode)
{
    static const auto real = next<int (*)(const char*, int, mode_t)>("open");
    const int fd = open_vpd(path);
    return fd >= 0 ? fd : real(path, flags, mode);
}

int open_file64(const char* path, int flags, mode_t mode) __asm__("open64");
int open_file64(const char* path, int flags, mode_t mode)
{
    return open_file(path, flags | O_LARGEFILE, mode);
}

} // extern "C"
#pragma GCC visibility pop
