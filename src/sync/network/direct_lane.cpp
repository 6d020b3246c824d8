// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Makes work requests of transfers, and retires these by completions.
#include "sync/network/direct_lane.hpp"

#include "log/log.hpp"
#include "rc/completion_status.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <cerrno>

namespace gdr::sync {
namespace {

constexpr uint32_t kWord = sizeof(uint64_t);

bool is_aligned(const RemoteMemory& memory, uint64_t offset)
{
    return (memory.address + offset) % kWord == 0;
}

} // namespace

DirectLane::DirectLane(direct::QueuePair queue_pair, const direct::QueuePairAddress& peer,
                       std::atomic<int>& failure)
    : queue_pair_(std::move(queue_pair)), remote_hca_(peer.hca),
      atomics_(queue_pair_.has_atomics() && peer.port.atomics != 0), failure_(failure),
      words_(queue_pair_.depth()), posted_(queue_pair_.depth())
{
    words_region_.reset(
        ibv_reg_mr(queue_pair_.pd(), words_.data(), words_.size() * kWord, IBV_ACCESS_LOCAL_WRITE));
    if (!words_region_) {
        throw verbs::Error("ibv_reg_mr on " + queue_pair_.name(), errno);
    }
    for (unsigned i = 0; i < kBatch; ++i) {
        requests_[i].sg_list = &pieces_[i];
        requests_[i].next = &requests_[(i + 1) % kBatch];
    }
    queue_pair_.connect(peer);
}

// ---- posting

unsigned DirectLane::work_requests_of(const Transfer& transfer) const
{
    const uint64_t largest = queue_pair_.largest_message();
    const unsigned data = transfer.length <= largest
                              ? 1
                              : static_cast<unsigned>((transfer.length + largest - 1) / largest);
    switch (transfer.kind) {
    case Transfer::Kind::put:
    case Transfer::Kind::get:
        return data;
    case Transfer::Kind::put_signal_set:
    case Transfer::Kind::put_signal_add:
        return data + 1;
    default:
        return 1;
    }
}

ucs_status_t DirectLane::check(const Transfer& transfer) const
{
    const auto atomic = [&](const RemoteMemory& memory, uint64_t offset) {
        return !atomics_                     ? UCS_ERR_UNSUPPORTED
               : !is_aligned(memory, offset) ? UCS_ERR_INVALID_PARAM
                                             : UCS_OK;
    };
    switch (transfer.kind) {
    case Transfer::Kind::put_signal_add:
        return atomic(*transfer.signal, transfer.signal_offset);
    case Transfer::Kind::add:
    case Transfer::Kind::fetch_add:
        return atomic(*transfer.remote, transfer.remote_offset);
    default:
        return UCS_OK;
    }
}

bool DirectLane::post(const Transfer& transfer)
{
    const unsigned needed = work_requests_of(transfer);
    if (last_ - first_ == posted_.size() || built_ - complete_ + needed > queue_pair_.depth()) {
        return false;
    }
    const ucs_status_t status = status_ != UCS_OK ? status_ : check(transfer);
    if (status == UCS_OK) {
        if (batched_ + needed > kBatch) {
            submit();
        }
        build(transfer);
    }
    posted(last_++) = {transfer.ticket, built_, status};
    return true;
}

ibv_send_wr& DirectLane::add(ibv_wr_opcode opcode, uint64_t remote, uint32_t key)
{
    ibv_send_wr& request = requests_[batched_++];
    request.wr_id = ++built_;
    request.opcode = opcode;
    request.send_flags = 0;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = key;
    return request;
}

void DirectLane::add_data(ibv_wr_opcode opcode, const Transfer& transfer)
{
    const uint64_t local = transfer.local->address + transfer.offset;
    const uint64_t remote = transfer.remote->address + transfer.remote_offset;
    uint32_t done = 0;
    do {
        const uint32_t part = std::min(transfer.length - done, queue_pair_.largest_message());
        ibv_send_wr& request = add(opcode, remote + done, key_of(*transfer.remote));
        request.num_sge = part > 0 ? 1 : 0;
        *request.sg_list = {local + done, part, transfer.local->keys[queue_pair_.hca()]};
        done += part;
    } while (done < transfer.length);
}

void DirectLane::add_word(const RemoteMemory& memory, uint64_t offset, uint64_t value,
                          uint32_t length)
{
    ibv_send_wr& request = add(IBV_WR_RDMA_WRITE, memory.address + offset, key_of(memory));
    uint64_t* const word = word_of(request.wr_id);
    *word = value;
    request.send_flags = queue_pair_.inline_flag();
    *request.sg_list = {reinterpret_cast<uint64_t>(word), length, words_region_->lkey};
}

void DirectLane::add_atomic(const RemoteMemory& memory, uint64_t offset, uint64_t value,
                            uint64_t result, uint32_t result_key)
{
    ibv_send_wr& request = add(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0);
    request.wr.atomic.remote_addr = memory.address + offset;
    request.wr.atomic.rkey = key_of(memory);
    request.wr.atomic.compare_add = value;
    *request.sg_list = {result, kWord, result_key};
}

void DirectLane::build(const Transfer& transfer)
{
    const auto add_without_result = [&](const RemoteMemory& memory, uint64_t offset) {
        add_atomic(memory, offset, transfer.value, reinterpret_cast<uint64_t>(word_of(built_ + 1)),
                   words_region_->lkey);
    };
    switch (transfer.kind) {
    case Transfer::Kind::put:
        add_data(IBV_WR_RDMA_WRITE, transfer);
        break;
    case Transfer::Kind::put_signal_set:
        add_data(IBV_WR_RDMA_WRITE, transfer);
        add_word(*transfer.signal, transfer.signal_offset, transfer.value, kWord);
        break;
    case Transfer::Kind::put_signal_add:
        add_data(IBV_WR_RDMA_WRITE, transfer);
        add_without_result(*transfer.signal, transfer.signal_offset);
        break;
    case Transfer::Kind::put_value:
        add_word(*transfer.remote, transfer.remote_offset, transfer.value, transfer.length);
        break;
    case Transfer::Kind::get:
        add_data(IBV_WR_RDMA_READ, transfer);
        break;
    case Transfer::Kind::add:
        add_without_result(*transfer.remote, transfer.remote_offset);
        break;
    case Transfer::Kind::fetch_add:
        add_atomic(*transfer.remote, transfer.remote_offset, transfer.value,
                   transfer.local->address + transfer.offset,
                   transfer.local->keys[queue_pair_.hca()]);
        break;
    }
}

void DirectLane::submit()
{
    if (batched_ == 0) {
        return;
    }
    ibv_send_wr& last = requests_[batched_ - 1];
    ibv_send_wr* const next = last.next;
    last.next = nullptr;
    last.send_flags |= IBV_SEND_SIGNALED;
    const int error = queue_pair_.post(requests_.data());
    last.next = next;
    batched_ = 0;
    if (error != 0) {
        fail(UCS_ERR_IO_ERROR, "ibv_post_send: " + verbs::errno_text(error));
    }
}

// ---- completion

unsigned DirectLane::poll(Retired& retired)
{
    constexpr int kMost = 16;
    ibv_wc completions[kMost];
    const int count = built_ - batched_ > complete_ ? queue_pair_.poll(completions, kMost) : 0;
    for (int i = 0; i < count && status_ == UCS_OK; ++i) {
        const ibv_wc& completion = completions[i];
        if (completion.status == IBV_WC_SUCCESS) [[likely]] {
            complete_ = completion.wr_id;
        } else {
            // The peer's operations on the same queue pair may have ended it.
            fail(completion.status == IBV_WC_WR_FLUSH_ERR ? UCS_ERR_CONNECTION_RESET
                                                          : rc::to_status(completion.status),
                 verbs::completion_cause(completion.status));
        }
    }
    if (count < 0) {
        fail(UCS_ERR_IO_ERROR, "ibv_poll_cq: the completion queue is broken");
    }
    unsigned told = 0;
    for (; first_ != last_; ++first_, ++told) {
        const Posted& oldest = posted(first_);
        if (oldest.end > complete_) {
            break;
        }
        retired.retired(oldest.ticket, oldest.status);
    }
    return told;
}

// Everything that is not complete ends with this status.
void DirectLane::fail(ucs_status_t status, const std::string& cause)
{
    gdr_log(error, "a connection to a peer by %s ended: %s", queue_pair_.name().c_str(),
            cause.c_str());
    queue_pair_.end();
    status_ = status;
    int none = UCS_OK;
    failure_.compare_exchange_strong(none, status);
    for (uint64_t i = first_; i != last_; ++i) {
        if (posted(i).end > complete_) {
            posted(i).status = status;
        }
    }
    complete_ = built_;
    batched_ = 0;
}

} // namespace gdr::sync
