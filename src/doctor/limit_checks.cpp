// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of limits.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

namespace gdr::doctor {
namespace {

// What an interface locks with the default settings and all its receive buffers.
constexpr uint64_t kLockedByInterface = 36ull << 20;
constexpr uint64_t kFewDescriptors = 4096;
constexpr uint64_t kContainersShm = 64ull << 20; // what docker gives

} // namespace

Result locked_memory(const Machine& machine)
{
    const Facts& facts = machine.root.facts();
    if (!facts.locked_memory || facts.locks_without_limit) {
        return pass("locked memory has no limit").seen_in("RLIMIT_MEMLOCK", "unlimited");
    }
    const std::string limit = bytes(*facts.locked_memory);
    std::string fix = "echo '* - memlock unlimited' > /etc/security/limits.d/rdma.conf";
    std::string detail = "then log in anew";
    if (machine.in_container) {
        fix = "docker run --ulimit memlock=-1 ...";
        detail = "";
    } else if (facts.environment.contains("SLURM_JOB_ID")) {
        fix = "echo PropagateResourceLimitsExcept=MEMLOCK >> /etc/slurm/slurm.conf";
        detail = "and LimitMEMLOCK=infinity in slurmd's unit";
    }
    if (*facts.locked_memory >= kLockedByInterface) {
        return fail("locked memory is limited to " + limit + ": larger registrations fail", fix)
            .with_detail(detail)
            .by_root()
            .as(Consequence::loss)
            .seen_in("RLIMIT_MEMLOCK", limit);
    }
    return fail(limit + " may be locked, an interface needs up to " + bytes(kLockedByInterface),
                fix)
        .with_detail(detail)
        .by_root()
        .seen_in("RLIMIT_MEMLOCK", limit);
}

Result descriptors(const Machine& machine)
{
    const auto limit = machine.root.facts().descriptors;
    if (!limit || *limit >= kFewDescriptors) {
        return pass("enough files may be open");
    }
    return fail(std::to_string(*limit) + " files may be open: many peers and GPU buffers need more",
                "ulimit -n " + std::to_string(kFewDescriptors))
        .seen_in("RLIMIT_NOFILE", std::to_string(*limit));
}

Result shared_memory(const Machine& machine)
{
    const auto size = machine.root.facts().shared_memory;
    if (size && *size > kContainersShm) {
        return pass("/dev/shm has " + bytes(*size));
    }
    const std::string fix =
        machine.in_container ? "docker run --ipc=host ..." : "mount -o remount,size=50% /dev/shm";
    if (!size) {
        return fail("there is no /dev/shm: UCX and MPI do not share memory within the host", fix)
            .by_root();
    }
    return fail("/dev/shm has " + bytes(*size) + ": UCX and MPI need more for many ranks", fix)
        .by_root()
        .seen_in("/dev/shm", bytes(*size));
}

} // namespace gdr::doctor
