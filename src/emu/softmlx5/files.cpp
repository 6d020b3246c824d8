// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The functions of libc by which libibverbs, libmlx5 and UCX look for devices, open them and talk
// to the kernel. What is not about the emulated devices goes on to libc.
#include "emu/softhca/fork.hpp"
#include "emu/softmlx5/command_file.hpp"
#include "emu/softmlx5/sysfs.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softmlx5 {
namespace {

template <class Function>
Function next(const char* name)
{
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// A path as it is for libc.
class Path {
  public:
    explicit Path(const char* path) : given_(path), own_(in_sysfs(path)) {}
    const char* get() const { return own_.empty() ? given_ : own_.c_str(); }

  private:
    const char* given_;
    std::string own_;
};

bool is_libibverbs(const void* code)
{
    Dl_info info;
    return dladdr(code, &info) != 0 && std::strstr(info.dli_fname, "libibverbs.so") != nullptr;
}

template <class Stat>
int describe(unsigned device, Stat* status)
{
    std::memset(status, 0, sizeof *status);
    status->st_mode = S_IFCHR | 0666;
    status->st_rdev = device_number(device);
    status->st_nlink = 1;
    return 0;
}

template <class Stat, class Real>
int stat_path(const char* path, Stat* status, Real real)
{
    const int device = device_of_file(path);
    return device >= 0 ? describe(static_cast<unsigned>(device), status)
                       : real(Path(path).get(), status);
}

template <class Stat, class Real>
int stat_fd(int fd, Stat* status, Real real)
{
    const auto device = device_of(fd);
    return device ? describe(*device, status) : real(fd, status);
}

// A C library before 2.33 has no stat() and its like: programs call __xstat().
template <class Stat, int flags>
int stat_of_kernel(const char* path, Stat* status)
{
    static_assert(sizeof *status == sizeof(struct stat)); // the kernel's own where long is 64 bits
    return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, flags));
}
template <class Stat>
int fstat_of_kernel(int fd, Stat* status)
{
    return static_cast<int>(syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH));
}

template <class Function>
Function next_or(const char* name, Function otherwise)
{
    const Function found = next<Function>(name);
    return found != nullptr ? found : otherwise;
}

template <class Real>
int open_path(const char* path, Real real)
{
    const int device = device_of_file(path);
    return device >= 0 ? open_command_file(static_cast<unsigned>(device)) : real(Path(path).get());
}

} // namespace
} // namespace softmlx5

using namespace softmlx5;

#pragma GCC visibility push(default)
extern "C" {

// A mode is passed on also where the program gave none: libc looks at it only if it creates a file.
#define OPEN(name)                                                                                 \
    int softmlx5_##name(const char* path, int flags, mode_t mode) __asm__(#name);                  \
    int softmlx5_##name(const char* path, int flags, mode_t mode)                                  \
    {                                                                                              \
        static const auto real = next<int (*)(const char*, int, mode_t)>(#name);                   \
        return open_path(path, [=](const char* to) { return real(to, flags, mode); });             \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int softmlx5_##name(int directory, const char* path, int flags, mode_t mode) __asm__(#name);   \
    int softmlx5_##name(int directory, const char* path, int flags, mode_t mode)                   \
    {                                                                                              \
        static const auto real = next<int (*)(int, const char*, int, mode_t)>(#name);              \
        return open_path(path, [=](const char* to) { return real(directory, to, flags, mode); });  \
    }
OPENAT(openat)
OPENAT(openat64)

// What open() is in programs built with _FORTIFY_SOURCE.
#define OPEN_2(name)                                                                               \
    int name(const char* path, int flags)                                                          \
    {                                                                                              \
        static const auto real = next<int (*)(const char*, int)>(#name);                           \
        return open_path(path, [=](const char* to) { return real(to, flags); });                   \
    }
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define STAT(name, type, flags)                                                                    \
    int name(const char* path, type* status) noexcept                                              \
    {                                                                                              \
        static const auto real =                                                                   \
            next_or<int (*)(const char*, type*)>(#name, stat_of_kernel<type, flags>);              \
        return stat_path(path, status, real);                                                      \
    }
STAT(stat, struct stat, 0)
STAT(stat64, struct stat64, 0)
STAT(lstat, struct stat, AT_SYMLINK_NOFOLLOW)
STAT(lstat64, struct stat64, AT_SYMLINK_NOFOLLOW)

#define FSTAT(name, type)                                                                          \
    int name(int fd, type* status) noexcept                                                        \
    {                                                                                              \
        static const auto real = next_or<int (*)(int, type*)>(#name, fstat_of_kernel<type>);       \
        return stat_fd(fd, status, real);                                                          \
    }
FSTAT(fstat, struct stat)
FSTAT(fstat64, struct stat64)

// What they were in programs built with a C library before 2.33.
#define XSTAT(name)                                                                                \
    int name(int version, const char* path, struct stat* status) noexcept                          \
    {                                                                                              \
        static const auto real = next<int (*)(int, const char*, struct stat*)>(#name);             \
        return stat_path(path, status, [=](const char* to, struct stat* result) {                  \
            return real(version, to, result);                                                      \
        });                                                                                        \
    }
XSTAT(__xstat)
XSTAT(__lxstat)

int __fxstat(int version, int fd, struct stat* status) noexcept
{
    static const auto real = next<int (*)(int, int, struct stat*)>("__fxstat");
    return stat_fd(fd, status,
                   [=](int given, struct stat* result) { return real(version, given, result); });
}

int access(const char* path, int mode) noexcept
{
    static const auto real = next<int (*)(const char*, int)>("access");
    return device_of_file(path) >= 0 && (mode & X_OK) == 0 ? 0 : real(Path(path).get(), mode);
}

FILE* fopen(const char* path, const char* mode)
{
    static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
    return real(Path(path).get(), mode);
}

FILE* fopen64(const char* path, const char* mode)
{
    static const auto real = next<FILE* (*)(const char*, const char*)>("fopen64");
    return real(Path(path).get(), mode);
}

DIR* opendir(const char* path)
{
    static const auto real = next<DIR* (*)(const char*)>("opendir");
    return real(Path(path).get());
}

ssize_t readlink(const char* path, char* to, std::size_t size) noexcept
{
    static const auto real = next<ssize_t (*)(const char*, char*, std::size_t)>("readlink");
    return real(Path(path).get(), to, size);
}

char* realpath(const char* path, char* to) noexcept
{
    // The older version of the function takes no null pointer for the result.
    static const auto real =
        reinterpret_cast<char* (*)(const char*, char*)>(dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3"));
    return real(Path(path).get(), to);
}

char* __realpath_chk(const char* path, char* to, std::size_t size) noexcept
{
    static const auto real = next<char* (*)(const char*, char*, std::size_t)>("__realpath_chk");
    return real(Path(path).get(), to, size);
}

int close(int fd)
{
    static const auto real = next<int (*)(int)>("close");
    forget(fd);
    return real(fd);
}

int ioctl(int fd, unsigned long request, ...) noexcept
{
    static const auto real = next<int (*)(int, unsigned long, void*)>("ioctl");
    va_list arguments;
    va_start(arguments, request);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    if (request != RDMA_VERBS_IOCTL) {
        return real(fd, request, argument);
    }
    // Others are duplicates, by which programs share a device with another process.
    const int error =
        device_of(fd) ? execute(fd, *static_cast<ib_uverbs_ioctl_hdr*>(argument)) : EOPNOTSUPP;
    if (error == 0) {
        return 0;
    }
    errno = error;
    return -1;
}

// libibverbs asks the kernel by netlink whether a fork copies registered memory. Without an answer
// it keeps that memory from children, of the heap whole pages.
int madvise(void* start, std::size_t length, int advice) noexcept
{
    static const auto real = next<int (*)(void*, std::size_t, int)>("madvise");
    const bool is_about_forks = advice == MADV_DONTFORK || advice == MADV_DOFORK;
    if (is_about_forks && !softhca::forks_part_memory() &&
        is_libibverbs(__builtin_return_address(0))) {
        return 0;
    }
    return real(start, length, advice);
}

// The same where UCX has put its own hook around madvise().
int ibv_fork_init()
{
    static const auto real = next<int (*)()>("ibv_fork_init");
    return softhca::forks_part_memory() ? real() : 0;
}

ibv_fork_status ibv_is_fork_initialized()
{
    static const auto real = next<ibv_fork_status (*)()>("ibv_is_fork_initialized");
    return softhca::forks_part_memory() ? real() : IBV_FORK_UNNEEDED;
}

// The kernel's list of RDMA devices, in which the emulated ones are missing: without it libibverbs
// looks into sysfs.
int socket(int domain, int type, int protocol) noexcept
{
    static const auto real = next<int (*)(int, int, int)>("socket");
    if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    return real(domain, type, protocol);
}

} // extern "C"
#pragma GCC visibility pop
