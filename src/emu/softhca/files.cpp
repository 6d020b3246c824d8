// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The device nodes /dev/infiniband/softhcaN, which programs look at before they trust a device:
// stat() finds a character device there, access() allows it. Every other path goes on to libc.
#include "emu/softhca/config.hpp"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace {

constexpr std::string_view kPrefix = "/dev/infiniband/softhca";

// The number of the device a path is the node of; -1: of none.
int device_of(const char* path)
{
    if (path == nullptr || std::strncmp(path, kPrefix.data(), kPrefix.size()) != 0) {
        return -1;
    }
    const char* digit = path + kPrefix.size();
    const unsigned number = static_cast<unsigned>(*digit - '0');
    return digit[0] != '\0' && digit[1] == '\0' && number < softhca::config().devices
               ? static_cast<int>(number)
               : -1;
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

} // extern "C"
#pragma GCC visibility pop
