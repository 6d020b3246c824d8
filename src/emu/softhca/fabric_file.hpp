// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What members of a fabric and those who only look at it know of its file.
#pragma once

#include "emu/softhca/config.hpp"
#include "emu/softhca/layout.hpp"

#include <cstdio>
#include <string>

#include <linux/futex.h>
#include <sys/stat.h>
#include <unistd.h>

namespace softhca {

// Of all fabrics of this user.
inline std::string fabric_prefix()
{
    return "/dev/shm/softhca-" + std::to_string(geteuid()) + "-";
}

// Of this user and of the name in the environment.
inline std::string fabric_path()
{
    char magic[24];
    std::snprintf(magic, sizeof magic, "%llx",
                  static_cast<unsigned long long>(kLayoutMagic & 0xff));
    return fabric_prefix() + config().fabric + "." + magic;
}

// Where the kernel lets others put files there (fs.protected_regular=0), one that was there before
// may be anybody's, who would see and change all that the tables hold.
inline bool is_own(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

// Whether the process of a slot that is not free lives. The first word of a robust mutex is its
// futex: the holder's thread id, cleared by the kernel when that thread dies.
inline bool holds_mutex(const ProcessSlot& slot)
{
    const int word = std::atomic_ref<int>(const_cast<int&>(slot.alive.__data.__lock)).load();
    return (word & FUTEX_TID_MASK) != 0;
}

} // namespace softhca
