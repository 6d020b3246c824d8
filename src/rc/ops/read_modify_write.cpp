// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/ops/read_modify_write.hpp"

#include "abi/completion.hpp"
#include "rc/endpoint.hpp"
#include "rc/remote_key.hpp"

#include <cstring>

namespace gdr::rc {
namespace {

// The position of the operand in the word.
uint64_t mask(const Atomic& atomic)
{
    return atomic.size == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX;
}
unsigned shift(const Atomic& atomic)
{
    return static_cast<unsigned>(atomic.remote_addr % sizeof(uint64_t)) * 8;
}
uint64_t operand_in(const Atomic& atomic, uint64_t word)
{
    return (word >> shift(atomic)) & mask(atomic);
}

uint64_t apply(const Atomic& atomic, uint64_t word)
{
    uint64_t old = operand_in(atomic, word);
    uint64_t changed = old;
    switch (atomic.operation) {
    case UCT_ATOMIC_OP_ADD:
        changed = old + atomic.operand;
        break;
    case UCT_ATOMIC_OP_AND:
        changed = old & atomic.operand;
        break;
    case UCT_ATOMIC_OP_OR:
        changed = old | atomic.operand;
        break;
    case UCT_ATOMIC_OP_XOR:
        changed = old ^ atomic.operand;
        break;
    case UCT_ATOMIC_OP_SWAP:
        changed = atomic.operand;
        break;
    case UCT_ATOMIC_OP_CSWAP:
        changed = old == atomic.compare ? atomic.operand : old;
        break;
    default:
        break;
    }
    return (word & ~(mask(atomic) << shift(atomic))) | (changed & mask(atomic)) << shift(atomic);
}

// Applies the operations from first to before end, one after another.
uint64_t apply(const ReadModifyWrite* first, const ReadModifyWrite* end, uint64_t word)
{
    for (const ReadModifyWrite* rmw = first; rmw != end; rmw = rmw->later) {
        word = apply(rmw->atomic, word);
    }
    return word;
}

void go_on(Endpoint& ep, const SendOp& op, ucs_status_t status);

ucs_status_t post(Endpoint& ep, ReadModifyWrite& first, ibv_send_wr& wr)
{
    ibv_sge sge{reinterpret_cast<uintptr_t>(&first.head.found), sizeof(first.head.found),
                ep.iface().buffers->lkey()};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ucs_status_t status = ep.post_signalled(wr);
    if (status == UCS_OK) {
        ep.remember(
            ep.ops.next() = {.handler = go_on, .buffer = reinterpret_cast<std::byte*>(&first)});
    }
    return status;
}

// Both serve all operations that are waiting on the word.
ucs_status_t post_read(Endpoint& ep, ReadModifyWrite& first)
{
    first.head.covered = first.head.last;
    first.head.swap_posted = false;
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma.remote_addr = first.word.address;
    wr.wr.rdma.rkey = verbs_rkey(first.word.rkey);
    return post(ep, first, wr);
}

ucs_status_t post_swap(Endpoint& ep, ReadModifyWrite& first)
{
    first.head.covered = first.head.last;
    first.head.swap_posted = true;
    first.head.expected = first.head.found;
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.remote_addr = first.word.address;
    wr.wr.atomic.rkey = verbs_rkey(first.word.rkey);
    wr.wr.atomic.compare_add = first.head.expected;
    wr.wr.atomic.swap = apply(&first, nullptr, first.head.expected);
    return post(ep, first, wr);
}

// Completes the operations from first to before end; the first of them saw this word.
void complete(Endpoint& ep, ReadModifyWrite* first, const ReadModifyWrite* end, uint64_t word,
              ucs_status_t status)
{
    for (ReadModifyWrite* rmw = first; rmw != end;) {
        const ReadModifyWrite done = *rmw;
        ep.iface().buffers->put(reinterpret_cast<std::byte*>(rmw));
        if (status == UCS_OK) {
            uint64_t old = operand_in(done.atomic, word);
            if (done.atomic.result != nullptr) {
                std::memcpy(done.atomic.result, &old, done.atomic.size);
            }
            word = apply(done.atomic, word);
        }
        ep.finish_read_modify_write(done);
        abi::complete(done.atomic.completion, status);
        rmw = done.later;
    }
}

void go_on(Endpoint& ep, const SendOp& op, ucs_status_t status)
{
    auto* first = reinterpret_cast<ReadModifyWrite*>(op.buffer);
    const auto head = first->head;
    ReadModifyWrite* left = first; // the first operation that is not done yet
    if (status == UCS_OK) {
        // The result of a work request must not serve operations that came after it was posted: a
        // peer may have told their callers about later changes.
        ReadModifyWrite* uncovered = head.covered->later;
        bool swapped = head.swap_posted && head.found == head.expected;
        bool unchanged = apply(first, uncovered, head.found) == head.found; // such as a mismatch
        if (swapped || unchanged) {
            left = uncovered;
        }
        status = ep.failure;
    }
    ReadModifyWrite*& link = ep.iface().words->find(first->word);
    link = head.other;
    if (status == UCS_OK && left != nullptr) {
        left->head = head;
        // After a success do not swap again at once although the value is known: this endpoint
        // would stay ahead of other initiators for ever.
        status = left == first ? post_swap(ep, *left) : post_read(ep, *left);
        if (status == UCS_OK) {
            link = left;
        }
    }
    // Last, because callbacks may post for the same word and destroy the endpoint.
    complete(ep, first, left, head.found, UCS_OK);
    if (status != UCS_OK) {
        complete(ep, left, nullptr, 0, status);
    }
}

} // namespace

ucs_status_t read_modify_write(Endpoint& ep, const Atomic& atomic)
{
    Iface& iface = ep.iface();
    std::byte* buffer = iface.buffers->take();
    auto* rmw = new (buffer)
        ReadModifyWrite{.atomic = atomic, .flushes = ep.flushes, .word = RemoteWord(ep, atomic)};
    ReadModifyWrite*& first = iface.words->find(rmw->word);
    if (first != nullptr) {
        first->head.last->later = rmw;
        first->head.last = rmw;
        // Otherwise one endpoint could take all buffers, and keep them until a dead peer is
        // noticed.
        rmw->waited = true;
        ep.settle();
        ++ep.waiting_read_modify_writes;
    } else {
        rmw->head.last = rmw;
        if (ucs_status_t status = post_read(ep, *rmw); status != UCS_OK) {
            iface.buffers->put(buffer);
            return status;
        }
        first = rmw;
    }
    ++ep.read_modify_writes;
    ep.awaited_read_modify_writes += atomic.awaited();
    iface.traffic.count(memory_kind(atomic.rkey), atomic.size);
    return UCS_INPROGRESS;
}

} // namespace gdr::rc
