// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Namespaces.
#include "apart.hpp"

#include <cstdlib>

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "failure.hpp"

namespace ucptest {
namespace {

void leave_mounts()
{
    require(unshare(CLONE_NEWNS) == 0, "unshare(CLONE_NEWNS)");
    require(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "private mounts");
}

void enter_host()
{
    leave_mounts();
    char path[] = "/tmp/ucptest-boot-XXXXXX";
    const int file = mkstemp(path);
    constexpr char kId[] = "another-host\n";
    require(file >= 0 && write(file, kId, sizeof(kId) - 1) > 0, "a boot_id");
    close(file);
    const int mounted = mount(path, "/proc/sys/kernel/random/boot_id", nullptr, MS_BIND, nullptr);
    unlink(path);
    require(mounted == 0, "mounting boot_id");
}

} // namespace

void keep_apart(int rank)
{
    if (std::getenv("UCPTEST_APART") != nullptr && rank % 2 != 0) {
        enter_host();
    }
}

} // namespace ucptest
