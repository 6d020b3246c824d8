// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory regions: registration of host memory, within RLIMIT_MEMLOCK if told, of device memory by
// address and of dmabufs, and their release once no peer's operation uses them.
#include "emu/softhca/config.hpp"
#include "emu/softhca/copier.hpp"
#include "emu/softhca/cuda_driver.hpp"
#include "emu/softhca/cuda_memory.hpp"
#include "emu/softhca/fork.hpp"
#include "emu/softhca/memory.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace softhca {
namespace {

// Counts bytes of host memory against RLIMIT_MEMLOCK; false when there are too many. By default the
// limit does not apply: softhca locks no memory.
bool lock_bytes(std::atomic<std::uint64_t>& locked_bytes, std::uint64_t bytes)
{
    const std::uint64_t total = locked_bytes.fetch_add(bytes) + bytes;
    rlimit limit;
    if (!config().memlock_enforced || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        total <= limit.rlim_cur) {
        return true;
    }
    locked_bytes.fetch_sub(bytes);
    return false;
}

// Whether the HCA has registrations with and without relaxed ordering, or with it only.
bool is_ordering_possible(unsigned device, unsigned access)
{
    return !profile_of(device).relaxed_only || (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
}

bool is_valid_access(unsigned access)
{
    const unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
                           IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
    const unsigned need_local_write = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    return (access & ~known) == 0 &&
           ((access & need_local_write) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

// Publishes a region; the caller has made the memory accessible at `address`, or has described it.
ibv_mr* publish(ibv_pd* pd, std::unique_ptr<Mr> mr, void* start, std::uint64_t iova,
                std::size_t length, std::uint64_t address, unsigned access, MemoryKind kind,
                const CudaMemory& cuda = {})
{
    Process& process = *context_of(pd->context).process;
    const std::uint32_t index = process.mr_indices.allocate();
    if (index == kNone) {
        process.registrations.locked_bytes.fetch_sub(mr->locked);
        errno = ENOMEM;
        return nullptr;
    }
    const std::uint32_t key = process.next_key(index);
    MrShared& region = process.arena().mrs[index];
    region.access = access;
    region.describe({iova, length, address});
    region.pd = object_of<Pd>(pd).id;
    region.window = kNoWindow;
    region.kind = kind;
    region.cuda = cuda;
    region.key.store(key, std::memory_order_release);
    mr->base = {pd->context, pd, start, length, index, key, key};
    object_of<Pd>(pd).children.fetch_add(1);
    if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0) {
        process.registrations.relaxed.fetch_add(1, std::memory_order_relaxed);
    }
    return &mr.release()->base;
}

// Device memory that only the CUDA driver can copy.
ibv_mr* register_cuda(ibv_pd* pd, std::unique_ptr<Mr> mr, void* start, std::uint64_t iova,
                      std::size_t length, std::uint64_t address, unsigned access, MemoryKind kind)
{
    Process& process = *context_of(pd->context).process;
    CudaMemory memory;
    if (cuda_driver() == nullptr ||
        !describe_cuda_memory(memory, process.token(), address, length)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    process.copier().start_answering();
    ibv_mr* result = publish(pd, std::move(mr), start, iova, length, address, access, kind, memory);
    if (result == nullptr) {
        forget_cuda_memory(memory);
    }
    return result;
}

// Registration of a device address as with nvidia-peermem.
ibv_mr* register_peer(ibv_pd* pd, std::unique_ptr<Mr> mr, void* start, std::size_t length,
                      std::uint64_t iova, unsigned access)
{
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(start);
    if (!profile_of(context_of(pd->context).device).peermem || !is_peer_capable(address, length)) {
        errno = EFAULT;
        return nullptr;
    }
    Registrations& counts = context_of(pd->context).process->registrations;
    ibv_mr* result;
    if (void* mapping = map_peer(start, length)) {
        mr->mapping = mapping;
        mr->mapping_length = length;
        result = publish(pd, std::move(mr), start, iova, length,
                         reinterpret_cast<std::uint64_t>(mapping), access, MemoryKind::peer);
        if (result == nullptr) {
            unmap(mapping, length);
        }
    } else if (errno == EFAULT) {
        result = register_cuda(pd, std::move(mr), start, iova, length, address, access,
                               MemoryKind::peer);
    } else {
        return nullptr;
    }
    if (result != nullptr) {
        counts.peer.fetch_add(1, std::memory_order_relaxed);
    }
    return result;
}

} // namespace

ibv_mr* register_memory(ibv_pd* pd, void* start, std::size_t length, std::uint64_t iova,
                        unsigned access)
{
    if (!is_ordering_possible(context_of(pd->context).device, access)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if ((access & IBV_ACCESS_ZERO_BASED) != 0) {
        iova = 0;
    }
    if (is_stale(pd->context) || !is_valid_access(access) ||
        reinterpret_cast<std::uint64_t>(start) + length < reinterpret_cast<std::uint64_t>(start) ||
        iova + length < iova) {
        errno = EINVAL;
        return nullptr;
    }
    Registrations& counts = context_of(pd->context).process->registrations;
    auto mr = std::unique_ptr<Mr>(new (std::nothrow) Mr{});
    if (mr == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    const std::uint64_t page = 4096, address = reinterpret_cast<std::uint64_t>(start);
    switch (cuda_kind(address)) {
    case CudaKind::device:
        return register_peer(pd, std::move(mr), start, length, iova, access);
    case CudaKind::managed: // its pages move
        errno = EFAULT;
        return nullptr;
    default:
        break;
    }
    const std::uint64_t pages =
        length == 0 ? 0 : (address + length - 1) / page - address / page + 1;
    if (!lock_bytes(counts.locked_bytes, pages * page)) {
        errno = ENOMEM;
        return nullptr;
    }
    mr->locked = pages * page;
    int error = forks_part_memory() ? keep_from_children(start, length) : 0;
    if (error == 0) {
        error = populate(start, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
        if (error != 0 && forks_part_memory()) {
            give_to_children(start, length);
        }
    }
    if (error != 0) {
        counts.locked_bytes.fetch_sub(mr->locked);
        errno = error;
        return nullptr;
    }
    counts.host.fetch_add(1, std::memory_order_relaxed);
    ibv_mr* result =
        publish(pd, std::move(mr), start, iova, length, address, access, MemoryKind::host);
    if (forks_part_memory()) {
        if (result != nullptr) {
            watch_forks(object_of<Mr>(result));
        } else {
            give_to_children(start, length);
        }
    }
    return result;
}

ibv_mr* register_dmabuf(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                        int fd, unsigned access)
{
    const unsigned device = context_of(pd->context).device;
    const Dmabuf taken = profile_of(device).dmabuf;
    if (taken == Dmabuf::none || !is_ordering_possible(device, access)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return nullptr; // EBADF
    }
    if (taken == Dmabuf::by_pcie && is_c2c_dmabuf(fd)) {
        constexpr int kNotSupported = 524; // the kernel's ENOTSUPP, which no header has
        errno = kNotSupported;
        return nullptr;
    }
    const std::uint64_t size = static_cast<std::uint64_t>(status.st_size);
    if (is_stale(pd->context) || !is_valid_access(access) || length == 0 || offset > size ||
        length > size - offset || iova + length < iova) {
        errno = EINVAL;
        return nullptr;
    }
    Registrations& counts = context_of(pd->context).process->registrations;
    auto mr = std::unique_ptr<Mr>(new (std::nothrow) Mr{});
    if (mr == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    ibv_mr* result;
    if (void* mapping = map_dmabuf(fd, size)) {
        mr->mapping = mapping;
        mr->mapping_length = size;
        const std::uint64_t address = reinterpret_cast<std::uint64_t>(mapping) + offset;
        result =
            publish(pd, std::move(mr), nullptr, iova, length, address, access, MemoryKind::dmabuf);
        if (result == nullptr) {
            unmap(mapping, size);
        }
    } else if (errno == ENOMEM) {
        return nullptr;
    } else {
        // The driver copies by address: the fd proves no more than that it exports the memory.
        result = register_cuda(pd, std::move(mr), nullptr, iova, length, iova, access,
                               MemoryKind::dmabuf);
    }
    if (result != nullptr) {
        counts.dmabuf.fetch_add(1, std::memory_order_relaxed);
    }
    return result;
}

int deregister(ibv_mr* mr)
{
    if (is_stale(mr->context)) {
        return 0;
    }
    Mr& object = object_of<Mr>(mr);
    Process& process = *context_of(mr->context).process;
    MrShared& region = process.arena().mrs[mr->handle];
    {
        const SharedGuard guard(process.arena().windows_lock, process.token());
        if (region.windows.load() != 0) {
            return EBUSY;
        }
        region.key.store(0, std::memory_order_release);
    }
    process.arena().deregistrations.fetch_add(1);
    process.await_peers();
    region.forget();
    forget_cuda_memory(region.cuda);
    if (region.kind == MemoryKind::host && forks_part_memory()) {
        unwatch_forks(object);
        give_to_children(mr->addr, mr->length);
    }
    if (object.mapping != nullptr) {
        unmap(object.mapping, object.mapping_length);
    }
    process.mr_indices.release(mr->handle);
    process.registrations.locked_bytes.fetch_sub(object.locked);
    object_of<Pd>(mr->pd).children.fetch_sub(1);
    process.registrations.released.fetch_add(1, std::memory_order_relaxed);
    delete &object;
    return 0;
}

} // namespace softhca
