// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Atomics. Verbs offers fetch-and-add and compare-and-swap of 64 bits; the other operations, and
// those of 32 bits, are made of a READ and compare-and-swaps of the aligned 64 bits around the
// operand, repeated while somebody else changes them meanwhile. UCP only uses a transport that has
// all of them, and its own emulation would touch device memory with the CPU.
#include "rc/gather.hpp"
#include "rc/refusal.hpp"
#include "rc/remote_key.hpp"

namespace gdr::rc {
namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

// One emulated operation. Lives in a send buffer; the HCA writes word.
struct ReadModifyWrite {
    uint64_t word;     // as read, or as found by the last compare-and-swap
    uint64_t expected; // of the compare-and-swap under way
    uint64_t remote_word;
    uct_rkey_t rkey;
    uint64_t operand;
    uint64_t compare; // of a compare-and-swap
    uct_atomic_op_t operation;
    unsigned shift; // of the operand in the word, bits
    uint64_t mask;  // of the operand, at bit 0
    bool swap_posted;
    void* result;     // NULL: not wanted
    unsigned flushes; // of the endpoint, before
};

uint64_t operand_in(const ReadModifyWrite& rmw, uint64_t word)
{
    return (word >> rmw.shift) & rmw.mask;
}

uint64_t apply(const ReadModifyWrite& rmw, uint64_t word)
{
    uint64_t old = operand_in(rmw, word);
    uint64_t changed = old;
    switch (rmw.operation) {
    case UCT_ATOMIC_OP_ADD:
        changed = old + rmw.operand;
        break;
    case UCT_ATOMIC_OP_AND:
        changed = old & rmw.operand;
        break;
    case UCT_ATOMIC_OP_OR:
        changed = old | rmw.operand;
        break;
    case UCT_ATOMIC_OP_XOR:
        changed = old ^ rmw.operand;
        break;
    case UCT_ATOMIC_OP_SWAP:
        changed = rmw.operand;
        break;
    case UCT_ATOMIC_OP_CSWAP:
        changed = old == rmw.compare ? rmw.operand : old;
        break;
    default:
        break;
    }
    return (word & ~(rmw.mask << rmw.shift)) | (changed & rmw.mask) << rmw.shift;
}

void store_result(void* result, uint64_t value, uint64_t mask)
{
    if (result != nullptr) {
        std::memcpy(result, &value, mask == UINT32_MAX ? sizeof(uint32_t) : sizeof(uint64_t));
    }
}

ibv_send_wr atomic_request(ibv_wr_opcode opcode, ibv_sge* sge, uint64_t remote_addr,
                           uct_rkey_t rkey, uint64_t compare_add, uint64_t swap)
{
    ibv_send_wr wr;
    wr.sg_list = sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.wr.atomic.remote_addr = remote_addr;
    wr.wr.atomic.rkey = verbs_rkey(rkey);
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    return wr;
}

// ---- native
void finish_native(Endpoint& ep, const SendOp& op, ucs_status_t status)
{
    if (status == UCS_OK && op.result != nullptr) {
        std::memcpy(op.result, op.buffer, sizeof(uint64_t));
    }
    ep.iface().buffers->put(op.buffer);
    abi::complete(op.completion, status);
}

ucs_status_t native(uct_ep_h tl_ep, ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap,
                    uint64_t remote_addr, uct_rkey_t rkey, void* result, uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    if (!ep.can_post() || !iface.buffers->any() || exceeded(limit_misalignment(remote_addr, kWord)))
        [[unlikely]] {
        return refused(ep, "an atomic operation", {limit_misalignment(remote_addr, kWord)});
    }
    std::byte* buffer = iface.buffers->take();
    ibv_sge sge{reinterpret_cast<uintptr_t>(buffer), kWord, iface.buffers->lkey()};
    ibv_send_wr wr = atomic_request(opcode, &sge, remote_addr, rkey, compare_add, swap);
    iface.count(memory_kind(rkey), kWord);
    return post_tracked(
        ep, wr,
        SendOp{.handler = finish_native, .completion = comp, .buffer = buffer, .result = result});
}

// ---- emulated
void continue_emulated(Endpoint& ep, const SendOp& op, ucs_status_t status);

ucs_status_t post_step(Endpoint& ep, std::byte* buffer, uct_completion_t* comp)
{
    auto& rmw = *reinterpret_cast<ReadModifyWrite*>(buffer);
    ibv_sge sge{reinterpret_cast<uintptr_t>(&rmw.word), kWord, ep.iface().buffers->lkey()};
    ibv_send_wr wr;
    if (rmw.swap_posted) {
        wr = atomic_request(IBV_WR_ATOMIC_CMP_AND_SWP, &sge, rmw.remote_word, rmw.rkey,
                            rmw.expected, apply(rmw, rmw.expected));
    } else {
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_READ;
        wr.wr.rdma.remote_addr = rmw.remote_word;
        wr.wr.rdma.rkey = verbs_rkey(rmw.rkey);
    }
    ucs_status_t status = ep.post(wr, IBV_SEND_SIGNALED);
    if (status == UCS_OK) {
        ep.remember(SendOp{.handler = continue_emulated,
                           .completion = comp,
                           .buffer = buffer,
                           .result = rmw.result});
    }
    return status;
}

void continue_emulated(Endpoint& ep, const SendOp& op, ucs_status_t status)
{
    auto& rmw = *reinterpret_cast<ReadModifyWrite*>(op.buffer);
    unsigned flushes = rmw.flushes;
    if (status == UCS_OK) {
        bool unchanged =
            apply(rmw, rmw.word) == rmw.word; // a compare-and-swap that does not match, say
        bool swapped = rmw.swap_posted && rmw.word == rmw.expected;
        if (!unchanged && !swapped) {
            rmw.expected = rmw.word;
            rmw.swap_posted = true;
            status = ep.failure == UCS_OK ? post_step(ep, op.buffer, op.completion) : ep.failure;
            if (status == UCS_OK) {
                return;
            }
        } else {
            store_result(rmw.result, operand_in(rmw, rmw.word), rmw.mask);
        }
    }
    ep.iface().buffers->put(op.buffer);
    ep.finish_read_modify_write(flushes);
    abi::complete(op.completion, status);
}

ucs_status_t emulated(uct_ep_h tl_ep, uct_atomic_op_t operation, uint64_t operand, uint64_t compare,
                      unsigned size, uint64_t remote_addr, uct_rkey_t rkey, void* result,
                      uct_completion_t* comp)
{
    Endpoint& ep = endpoint(tl_ep);
    Iface& iface = ep.iface();
    if (!ep.can_post() || !iface.buffers->any() || exceeded(limit_misalignment(remote_addr, size)))
        [[unlikely]] {
        return refused(ep, "an atomic operation", {limit_misalignment(remote_addr, size)});
    }
    std::byte* buffer = iface.buffers->take();
    uint64_t mask = size == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX;
    new (buffer) ReadModifyWrite{
        .word = 0,
        .expected = 0,
        .remote_word = remote_addr & ~(kWord - 1),
        .rkey = rkey,
        .operand = operand,
        .compare = compare,
        .operation = operation,
        .shift = static_cast<unsigned>(remote_addr % kWord) * 8,
        .mask = mask,
        .swap_posted = false,
        .result = result,
        .flushes = ep.flushes,
    };
    ucs_status_t status = post_step(ep, buffer, comp);
    if (status != UCS_OK) {
        iface.buffers->put(buffer);
        return status;
    }
    ++ep.read_modify_writes;
    iface.count(memory_kind(rkey), size);
    return UCS_INPROGRESS;
}

// What may be fetched, or posted: the operations in the order of their numbers.
constexpr unsigned kLastFetched = UCT_ATOMIC_OP_SWAP;
constexpr unsigned kLastPosted = UCT_ATOMIC_OP_XOR;

// A posted atomic is complete for UCT once it is on its way.
ucs_status_t posted(ucs_status_t status)
{
    return status == UCS_INPROGRESS ? UCS_OK : status;
}

} // namespace

ucs_status_t ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap, uint64_t remote_addr,
                               uct_rkey_t rkey, uint64_t* result, uct_completion_t* comp)
{
    return native(ep, IBV_WR_ATOMIC_CMP_AND_SWP, compare, swap, remote_addr, rkey, result, comp);
}

ucs_status_t ep_atomic_cswap32(uct_ep_h ep, uint32_t compare, uint32_t swap, uint64_t remote_addr,
                               uct_rkey_t rkey, uint32_t* result, uct_completion_t* comp)
{
    return emulated(ep, UCT_ATOMIC_OP_CSWAP, swap, compare, sizeof(swap), remote_addr, rkey, result,
                    comp);
}

ucs_status_t ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t* result,
                               uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    if (opcode == UCT_ATOMIC_OP_ADD) {
        return native(ep, IBV_WR_ATOMIC_FETCH_AND_ADD, value, 0, remote_addr, rkey, result, comp);
    }
    if (opcode > kLastFetched) {
        return UCS_ERR_UNSUPPORTED;
    }
    return emulated(ep, static_cast<uct_atomic_op_t>(opcode), value, 0, sizeof(value), remote_addr,
                    rkey, result, comp);
}

ucs_status_t ep_atomic32_fetch(uct_ep_h ep, unsigned opcode, uint32_t value, uint32_t* result,
                               uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp)
{
    if (opcode > kLastFetched) {
        return UCS_ERR_UNSUPPORTED;
    }
    return emulated(ep, static_cast<uct_atomic_op_t>(opcode), value, 0, sizeof(value), remote_addr,
                    rkey, result, comp);
}

ucs_status_t ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t remote_addr,
                              uct_rkey_t rkey)
{
    if (opcode > kLastPosted) {
        return UCS_ERR_UNSUPPORTED;
    }
    return posted(ep_atomic64_fetch(ep, opcode, value, nullptr, remote_addr, rkey, nullptr));
}

ucs_status_t ep_atomic32_post(uct_ep_h ep, unsigned opcode, uint32_t value, uint64_t remote_addr,
                              uct_rkey_t rkey)
{
    if (opcode > kLastPosted) {
        return UCS_ERR_UNSUPPORTED;
    }
    return posted(ep_atomic32_fetch(ep, opcode, value, nullptr, remote_addr, rkey, nullptr));
}

} // namespace gdr::rc
