// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Makes operations of UCP of transfers, group by group.
#include "sync/network/ucp_lane.hpp"

#include "log/log.hpp"

#include <new>

namespace gdr::sync {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

bool has_signal(Transfer::Kind kind)
{
    return kind == Transfer::Kind::put_signal_set || kind == Transfer::Kind::put_signal_add;
}

// UCP writes what an atomic fetches by the CPU. It also adds by the CPU where no HCA does: on GPU
// memory that ends the peer. With protocols v2 and endpoints that tell of a peer's death it never
// has an HCA add, and waits for ever.
bool needs_cpu(const Transfer& transfer)
{
    switch (transfer.kind) {
    case Transfer::Kind::put_signal_add:
        return !transfer.signal->host;
    case Transfer::Kind::add:
        return !transfer.remote->host;
    case Transfer::Kind::fetch_add:
        return !transfer.remote->host || !transfer.local->host;
    default:
        return false;
    }
}

void* local_of(const Transfer& transfer)
{
    return reinterpret_cast<void*>(transfer.local->address + transfer.offset);
}

} // namespace

bool UcpLane::post(const Transfer& transfer)
{
    if (last_ - first_ == kMost) {
        return false;
    }
    posted(last_++) = {transfer, false, transfer.value, needs_cpu(transfer)};
    return true;
}

void UcpLane::submit()
{
    if (idle() && first_ == next_ && status_.load(std::memory_order_relaxed) == UCS_OK) {
        start_group();
    }
}

unsigned UcpLane::poll(Retired& retired)
{
    if (!idle()) {
        return 0;
    }
    auto status = static_cast<ucs_status_t>(status_.load(std::memory_order_relaxed));
    if (status == UCS_ERR_CANCELED) {
        // Nobody cancels but UCP, what is on its way to a peer that it finds gone.
        gdr_log(error,
                "a connection to a peer by UCP ended: its process ended, or does not answer");
        status_ = status = UCS_ERR_CONNECTION_RESET;
    }
    if (status != UCS_OK) {
        int none = UCS_OK;
        failure_.compare_exchange_strong(none, status);
        next_ = last_;
    }
    const auto told = static_cast<unsigned>(next_ - first_);
    for (; first_ != next_; ++first_) {
        const Posted& oldest = posted(first_);
        retired.retired(oldest.transfer.ticket,
                        status == UCS_OK && oldest.refused ? UCS_ERR_UNSUPPORTED : status);
    }
    start_group();
    return told;
}

// Nothing is under way. Puts and gets join a group; what is seen as a flag begins one.
void UcpLane::start_group()
{
    bool any = false;
    while (next_ != last_) {
        Posted& next = posted(next_);
        const Transfer::Kind kind = next.transfer.kind;
        if (has_signal(kind) && !next.data_sent) {
            next.data_sent = true;
            if (next.transfer.length > 0) {
                start_data(next);
                any = true;
            }
        }
        if (kind == Transfer::Kind::put || kind == Transfer::Kind::get) {
            start_data(next);
        } else if (next.refused) {
            // nothing; it is over with its group
        } else if (any) {
            break;
        } else {
            start_rest(next);
        }
        ++next_;
        any = true;
    }
    if (any) {
        start(EpFlush{ep_});
    }
}

void UcpLane::start_data(Posted& posted)
{
    const Transfer& transfer = posted.transfer;
    const uint64_t remote = transfer.remote->address + transfer.remote_offset;
    if (transfer.kind == Transfer::Kind::get) {
        start(Get{ep_, local_of(transfer), transfer.length, remote, transfer.remote->ucp});
    } else {
        start(Put{ep_, local_of(transfer), transfer.length, remote, transfer.remote->ucp});
    }
}

// A signal whose data have gone, a value, or an atomic.
void UcpLane::start_rest(Posted& posted)
{
    const Transfer& transfer = posted.transfer;
    switch (transfer.kind) {
    case Transfer::Kind::put_signal_set:
        start_word(posted, *transfer.signal, transfer.signal_offset, kWord);
        break;
    case Transfer::Kind::put_signal_add:
        start_add(posted, *transfer.signal, transfer.signal_offset, nullptr);
        break;
    case Transfer::Kind::put_value:
        start_word(posted, *transfer.remote, transfer.remote_offset, transfer.length);
        break;
    case Transfer::Kind::fetch_add:
        start_add(posted, *transfer.remote, transfer.remote_offset, local_of(transfer));
        break;
    default:
        start_add(posted, *transfer.remote, transfer.remote_offset, nullptr);
        break;
    }
}

void UcpLane::start_word(Posted& posted, const RemoteMemory& memory, uint64_t offset, size_t length)
{
    start(Put{ep_, &posted.word, length, memory.address + offset, memory.ucp});
}

void UcpLane::start_add(Posted& posted, const RemoteMemory& memory, uint64_t offset, void* result)
{
    start(Atomic{ep_, UCP_ATOMIC_OP_ADD, &posted.word, 1, memory.address + offset, memory.ucp},
          result);
}

// result: of an atomic that fetches.
void UcpLane::start(const Arguments& arguments, void* result)
{
    Operation* operation = nullptr;
    try {
        operation = Operation::take(arguments);
    } catch (const std::bad_alloc&) {
        status_ = UCS_ERR_NO_MEMORY;
        return;
    }
    ucp_request_param_t& param = operation->param;
    if (operation->as<Atomic>() != nullptr) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ucp_dt_make_contig(kWord);
    }
    if (result != nullptr) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = result;
    }
    operation->user_callback.send = ended;
    operation->user_data = this;
    operations_.fetch_add(1, std::memory_order_relaxed);
    engine_.prepare(*operation);
    engine_.submit_new(&operation->start_command);
    operation->let_go();
}

// In the engine's thread.
void UcpLane::ended(void*, ucs_status_t status, void* lane)
{
    auto& self = *static_cast<UcpLane*>(lane);
    int none = UCS_OK;
    if (status != UCS_OK) {
        self.status_.compare_exchange_strong(none, status);
    }
    self.operations_.fetch_sub(1, std::memory_order_release);
}

} // namespace gdr::sync
