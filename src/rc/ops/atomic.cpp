// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Atomics. Verbs offers fetch-and-add and compare-and-swap of 64 bits; the other operations, and
// those of 32 bits, are emulated (read_modify_write.hpp). UCP uses a transport only if it has all
// of them, and UCP's own emulation would touch device memory with the CPU.
#include "rc/ops/gather.hpp"
#include "rc/ops/operations.hpp"
#include "rc/ops/read_modify_write.hpp"
#include "rc/ops/refusal.hpp"
#include "rc/remote_key.hpp"

namespace gdr::rc {
namespace {

void finish_native(Endpoint& ep, const SendOp& op, ucs_status_t status)
{
    if (status == UCS_OK && op.result != nullptr) {
        std::memcpy(op.result, op.buffer, sizeof(uint64_t));
    }
    ep.iface().buffers->put(op.buffer);
    abi::complete(op.completion, status);
}

ucs_status_t native(Endpoint& ep, const Atomic& atomic)
{
    Iface& iface = ep.iface();
    std::byte* buffer = iface.buffers->take();
    ibv_sge sge{reinterpret_cast<uintptr_t>(buffer), atomic.size, iface.buffers->lkey()};
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.atomic.remote_addr = atomic.remote_addr;
    wr.wr.atomic.rkey = verbs_rkey(atomic.rkey);
    if (atomic.operation == UCT_ATOMIC_OP_ADD) {
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.compare_add = atomic.operand;
    } else {
        wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        wr.wr.atomic.compare_add = atomic.compare;
        wr.wr.atomic.swap = atomic.operand;
    }
    iface.traffic.count(memory_kind(atomic.rkey), atomic.size);
    return post_tracked(ep.iface(), ep, wr,
                        signalled_for(atomic.completion) | signalled_for(*iface.buffers),
                        SendOp{.handler = finish_native,
                               .completion = atomic.completion,
                               .buffer = buffer,
                               .result = atomic.result});
}

bool is_native(const Atomic& atomic)
{
    return atomic.size == sizeof(uint64_t) &&
           (atomic.operation == UCT_ATOMIC_OP_ADD || atomic.operation == UCT_ATOMIC_OP_CSWAP);
}

// A native atomic would overtake emulated ones under way on its word and make them fail.
bool word_is_under_way(Endpoint& ep, const Atomic& atomic)
{
    return ep.read_modify_writes > 0 && ep.iface().words->find(RemoteWord(ep, atomic)) != nullptr;
}

ucs_status_t start(uct_ep_h tl_ep, const Atomic& atomic)
{
    Endpoint& ep = endpoint(tl_ep);
    Limit alignment = limit_misalignment(atomic.remote_addr, atomic.size);
    if (!ep.ready() || !ep.iface().buffers->any() || exceeded(alignment)) [[unlikely]] {
        return refused(ep, "an atomic operation", {alignment});
    }
    return is_native(atomic) && !word_is_under_way(ep, atomic) ? native(ep, atomic)
                                                               : read_modify_write(ep, atomic);
}

// The operations that can be fetched or posted, in the order of their numbers.
constexpr unsigned kLastFetched = UCT_ATOMIC_OP_SWAP;
constexpr unsigned kLastPosted = UCT_ATOMIC_OP_XOR;

template <typename T>
ucs_status_t compare_and_swap(uct_ep_h ep, T compare, T swap, uint64_t remote_addr, uct_rkey_t rkey,
                              T* result, uct_completion_t* comp)
{
    return start(ep, {.operation = UCT_ATOMIC_OP_CSWAP,
                      .operand = swap,
                      .compare = compare,
                      .size = sizeof(T),
                      .remote_addr = remote_addr,
                      .rkey = rkey,
                      .result = result,
                      .completion = comp});
}

template <typename T>
ucs_status_t fetch(uct_ep_h ep, unsigned opcode, T value, T* result, uint64_t remote_addr,
                   uct_rkey_t rkey, uct_completion_t* comp)
{
    if (opcode > kLastFetched) {
        return UCS_ERR_UNSUPPORTED;
    }
    return start(ep, {.operation = static_cast<uct_atomic_op_t>(opcode),
                      .operand = value,
                      .compare = 0,
                      .size = sizeof(T),
                      .remote_addr = remote_addr,
                      .rkey = rkey,
                      .result = result,
                      .completion = comp});
}

// Complete for UCT as soon as it is posted.
template <typename T>
ucs_status_t post(uct_ep_h ep, unsigned opcode, T value, uint64_t remote_addr, uct_rkey_t rkey)
{
    if (opcode > kLastPosted) {
        return UCS_ERR_UNSUPPORTED;
    }
    ucs_status_t status = fetch<T>(ep, opcode, value, nullptr, remote_addr, rkey, nullptr);
    return status == UCS_INPROGRESS ? UCS_OK : status;
}

} // namespace

ucs_status_t ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap, uint64_t remote_addr,
                               uct_rkey_t rkey, uint64_t* result, uct_completion_t* comp)
{
    return compare_and_swap(ep, compare, swap, remote_addr, rkey, result, comp);
}

ucs_status_t ep_atomic_cswap32(uct_ep_h ep, uint32_t compare, uint32_t swap, uint64_t remote_addr,
                               uct_rkey_t rkey, uint32_t* result, uct_completion_t* comp)
{
    return compare_and_swap(ep, compare, swap, remote_addr, rkey, result, comp);
}

ucs_status_t ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t* result,
                               uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    return fetch(ep, opcode, value, result, remote_addr, rkey, comp);
}

ucs_status_t ep_atomic32_fetch(uct_ep_h ep, unsigned opcode, uint32_t value, uint32_t* result,
                               uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    return fetch(ep, opcode, value, result, remote_addr, rkey, comp);
}

ucs_status_t ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t remote_addr,
                              uct_rkey_t rkey)
{
    return post(ep, opcode, value, remote_addr, rkey);
}

ucs_status_t ep_atomic32_post(uct_ep_h ep, unsigned opcode, uint32_t value, uint64_t remote_addr,
                              uct_rkey_t rkey)
{
    return post(ep, opcode, value, remote_addr, rkey);
}

} // namespace gdr::rc
