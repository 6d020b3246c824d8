// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An HCA as UCT's memory domain.
#include "rc/memory_domain.hpp"

#include "abi/completion.hpp"
#include "abi/settings.hpp"
#include "log/log.hpp"
#include "mem/locked_memory.hpp"
#include "mem/unmap_watch.hpp"
#include "rc/current_region.hpp"
#include "rc/queues/shared_receive_queue.hpp"
#include "rc/remote_key.hpp"
#include "stats/statistics.hpp"
#include "verbs/error.hpp"
#include "verbs/relaxed_ordering.hpp"

#include <cerrno>

namespace gdr::rc {
namespace {

// UCP adds this to the cost of each zero-copy operation. It covers finding the registration again
// (a CUDA attribute query, 75-95 ns on an H200, and a look-up), and the request and its completion,
// which a buffered operation does not need. For a tagged message of 1 KiB these take 1,000
// instructions in UCX 1.13 and here together.
constexpr double kZeroCopyCost = 200e-9;

// The same for protocols v1, which use it only for eager messages and weigh it against a copy at
// about 6 GB/s during which nothing is sent. A buffer in repeated use is in the caches, and a copy
// is then five times as fast: for messages of 4 KiB a copy is cheaper, at 8 KiB both are equal.
// This value puts the threshold between the two for ports of 100 Gb/s and more.
constexpr double kZeroCopyCostV1 = 650e-9;

// Locked memory of one interface: the smallest set of buffers takes 1.4 MiB; the rest is for its
// queues, which the provider library locks.
constexpr size_t kReserve = size_t{2} << 20;

ibv_pd* allocate_pd(const verbs::Device& device)
{
    ibv_pd* pd = ibv_alloc_pd(device.context());
    if (pd == nullptr) {
        throw verbs::Error("ibv_alloc_pd on " + device.name(), errno);
    }
    return pd;
}

// Read once: a process opens a memory domain for each HCA and context.
bool cpu_gains()
{
    static const bool gains = verbs::gains_by_relaxed_ordering();
    return gains;
}

// A second registration needs room again. By default it is used only for host memory without a
// limit of locked memory, and never in a GPU's BAR1 aperture. An emulated HCA, which is not a PCI
// device, does not write by PCIe.
mem::Relaxed relaxed(const MdSettings& settings, const verbs::Device& device)
{
    switch (static_cast<RelaxedOrdering>(settings.relaxed_ordering)) {
    case RelaxedOrdering::yes:
        return {.host = true, .device = true};
    case RelaxedOrdering::no:
        return {};
    default:
        return {.host = !mem::locked_memory_is_limited() && !device.sysfs().pci_bus_id().empty() &&
                        cpu_gains()};
    }
}

uct_mem_h unregistered()
{
    return const_cast<mem::Region*>(&MemoryDomain::kUnregistered);
}

mem::Region* region(uct_mem_h memh)
{
    return static_cast<mem::Region*>(memh);
}

} // namespace

const mem::Region MemoryDomain::kUnregistered;

MemoryDomain::MemoryDomain(const std::string& device_name, const MdSettings& settings)
    : device_(device_name), pd_(allocate_pd(device_)),
      cache_(device_, pd_.get(), mem::unmaps_are_seen(), true, relaxed(settings, device_))
{
    if (abi::boolean_setting("GDR_PROBE", false)) {
        cache_.learn_all();
    }
    if (const std::string& obstacle = cache_.gpu_direct().obstacle(); !obstacle.empty()) {
        gdr_log(info,
                "GPUs with %s: no GPUDirect RDMA, device memory is staged through host memory (%s)",
                device_.name().c_str(), obstacle.c_str());
    }
}

MemoryDomain::~MemoryDomain()
{
    stats::statistics().add({.registrations = cache_.registrations()});
}

bool MemoryDomain::shares_receives()
{
    std::call_once(receives_tried_, [this] {
        shares_receives_ = SharedReceiveQueue::possible(pd_.get(), device_.attributes());
    });
    return shares_receives_;
}

void MemoryDomain::reserve(const verbs::Port& port)
{
    if (!mem::locked_memory_is_limited()) {
        return;
    }
    const std::lock_guard guard(reserves_lock_);
    if (!reserves_.contains(port.number)) {
        reserves_.emplace(port.number, RegisteredMemory(pd_.get(), kReserve));
    }
}

void MemoryDomain::take_reserve(const verbs::Port& port)
{
    const std::lock_guard guard(reserves_lock_);
    reserves_.erase(port.number);
}

abi::MdAttributes MemoryDomain::attributes() const
{
    abi::MdAttributes attributes;
    attributes.flags =
        UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY | UCT_MD_FLAG_INVALIDATE;
    attributes.reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    if (cache_.gpu_direct().possible()) {
        attributes.reg_mem_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    }
    attributes.access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attributes.max_reg = device_.attributes().max_mr_size;
    attributes.rkey_packed_size = sizeof(PackedRemoteKey);
    attributes.reg_cost_base = serves_protocols_v2() ? kZeroCopyCost : kZeroCopyCostV1;
    return attributes;
}

// UCP asks to hide every failure to register memory for a transfer, and then fails the transfer
// without a cause (1.13) or aborts (1.16). So the first failure is logged as a warning. Unsupported
// memory is no failure: UCP uses another path.
log::Level MemoryDomain::failure_level(const mem::Failure& failure, bool hide)
{
    if (!hide) {
        return log::Level::error;
    }
    return failure.unsupported || warned_.exchange(true) ? log::Level::diag : log::Level::warn;
}

ucs_status_t MemoryDomain::reg(void* address, size_t length, abi::Registration asked,
                               uct_mem_h* memh)
{
    mem::Failure failure;
    mem::Region* found =
        cache_.acquire(reinterpret_cast<uintptr_t>(address), length,
                       asked.local ? mem::Access::local : mem::Access::remote, &failure);
    if (found == nullptr && failure.managed && !serves_protocols_v2()) {
        *memh = unregistered();
        return UCS_OK;
    }
    if (found == nullptr) {
        log::message(failure_level(failure, asked.hide_errors), __FILE__, __LINE__,
                     "a buffer at %p of %zu bytes cannot be registered: %s", address, length,
                     failure.cause.c_str());
        return failure.unsupported       ? UCS_ERR_UNSUPPORTED
               : failure.error == ENOMEM ? UCS_ERR_NO_MEMORY
                                         : UCS_ERR_IO_ERROR;
    }
    *memh = found;
    return UCS_OK;
}

ucs_status_t MemoryDomain::dereg(uct_mem_h memh, uct_completion_t* invalidated)
{
    if (memh == unregistered()) {
        abi::complete(invalidated, UCS_OK);
        return UCS_OK;
    }
    if (invalidated == nullptr) {
        mem::Cache::release(region(memh));
        return UCS_OK;
    }
    auto notify = [](void* completion) {
        abi::complete(static_cast<uct_completion_t*>(completion), UCS_OK);
    };
    cache_.invalidate(region(memh), {notify, invalidated});
    return UCS_OK;
}

ucs_status_t MemoryDomain::pack_rkey(uct_mem_h memh, const void* address, size_t length,
                                     void* buffer)
{
    if (memh == unregistered()) {
        return UCS_ERR_UNSUPPORTED;
    }
    mem::Region* packed = region(memh);
    if (packed->changes_unseen) {
        if (address == nullptr) {
            packed = current_region(packed, reinterpret_cast<void*>(packed->start), 1);
        } else {
            packed = current_region(packed, address, length);
        }
        if (packed == nullptr) {
            return UCS_ERR_IO_ERROR;
        }
    }
    pack(*packed, static_cast<PackedRemoteKey*>(buffer));
    return UCS_OK;
}

} // namespace gdr::rc
