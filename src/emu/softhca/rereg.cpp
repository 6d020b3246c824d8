// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Changing a memory region in place: its keys stay.
#include "emu/softhca/memory.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"

#include <utility>

namespace softhca {
namespace {

int failed(int error, int result)
{
    errno = error;
    return result;
}

void change_pd(Mr& mr, MrShared& region, ibv_pd* pd)
{
    object_of<Pd>(mr.base.pd).children.fetch_sub(1);
    object_of<Pd>(pd).children.fetch_add(1);
    mr.base.pd = pd;
    region.pd = object_of<Pd>(pd).id;
}

// Lets the region have the memory of another, which gets the former.
void swap_memory(Mr& mr, MrShared& region, Mr& other, MrShared& other_region)
{
    std::swap(mr.base.addr, other.base.addr);
    std::swap(mr.base.length, other.base.length);
    std::swap(mr.locked, other.locked);
    std::swap(mr.mapping, other.mapping);
    std::swap(mr.mapping_length, other.mapping_length);
    std::swap(region.extent, other_region.extent);
    std::swap(region.checksum, other_region.checksum);
    std::swap(region.access, other_region.access);
    std::swap(region.kind, other_region.kind);
    std::swap(region.cuda, other_region.cuda);
}

} // namespace

int rereg_mr(ibv_mr* base, int flags, ibv_pd* pd, void* address, std::size_t length, int access)
{
    const bool new_memory = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    const bool new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
    const bool new_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
    if (is_stale(base->context) || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 || flags == 0 ||
        (new_memory && (length == 0 || address == nullptr)) || (new_pd && pd == nullptr)) {
        return failed(EINVAL, IBV_REREG_MR_ERR_INPUT);
    }
    Process& self = *context_of(base->context).process;
    Mr& mr = object_of<Mr>(base);
    MrShared& region = self.arena().mrs[base->handle];
    // A region of the same memory checks the access, of other memory takes it.
    const bool again = new_memory || (new_access && region.kind != MemoryKind::dmabuf);
    ibv_mr* other = nullptr;
    if (again) {
        const auto wanted = new_access ? static_cast<unsigned>(access) : region.access;
        void* const start = new_memory ? address : base->addr;
        const std::uint64_t iova =
            new_memory ? reinterpret_cast<std::uint64_t>(address) : region.extent.iova;
        other = register_memory(base->pd, start, new_memory ? length : base->length, iova, wanted);
        if (other == nullptr) {
            return failed(errno, IBV_REREG_MR_ERR_CMD);
        }
    }
    const std::uint32_t key = base->lkey;
    {
        const SharedGuard guard(self.arena().windows_lock, self.token());
        if (region.windows.load() == 0) {
            region.key.store(0);
        }
    }
    const bool is_bound = region.key.load() != 0;
    if (!is_bound) {
        self.arena().deregistrations.fetch_add(1);
        self.await_peers();
        if (again) {
            swap_memory(mr, region, object_of<Mr>(other), self.arena().mrs[other->handle]);
        } else if (new_access) {
            region.access = static_cast<std::uint32_t>(access);
        }
        if (new_pd) {
            change_pd(mr, region, pd);
        }
        region.key.store(key, std::memory_order_release);
    }
    if (other != nullptr) {
        deregister(other);
    }
    return is_bound ? failed(EBUSY, IBV_REREG_MR_ERR_INPUT) : 0;
}

} // namespace softhca
