// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The functions of ugdr.h for prepared transfers.
#include "sync/guarded.hpp"
#include "sync/transfer.hpp"
#include "sync/triggers/flush.hpp"

#include <sched.h>

using namespace gdr;
using namespace gdr::sync;

namespace {

constexpr uint64_t kKnownFields =
    UGDR_TRANSFER_PARAM_FIELD_PEER | UGDR_TRANSFER_PARAM_FIELD_BUFFER |
    UGDR_TRANSFER_PARAM_FIELD_PARTITIONS | UGDR_TRANSFER_PARAM_FIELD_TAG |
    UGDR_TRANSFER_PARAM_FIELD_ARRIVALS;

// What the body returns, or why it was refused.
template <typename Body>
ucs_status_t guarded_status(ugdr_transfer_h transfer, Body&& body)
{
    if (transfer == nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    ucs_status_t status = UCS_OK;
    const ucs_status_t refused = guarded(transfer->context->ucx(), [&] { status = body(); });
    return refused != UCS_OK ? refused : status;
}

void require_side(bool is, const char* function, const char* side)
{
    if (!is) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      std::string(function) + ": the transfer does not " + side);
    }
}

void require_partitions(const ugdr_transfer& transfer, const char* function, unsigned first,
                        unsigned count)
{
    if (!is_within(transfer.prepared->plan.partitions, first, count) || count == 0) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      std::string(function) + ": there are no partitions " + std::to_string(first) +
                          " to " + std::to_string(uint64_t{first} + count) + " of " +
                          std::to_string(transfer.prepared->plan.partitions));
    }
}

void require_condition(const ugdr_transfer& transfer, ugdr_condition_h condition)
{
    require(condition, "condition");
    if (condition->context != transfer.context) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "the condition is another context's");
    }
    if (!transfer.prepared->matched()) {
        throw Refusal(UCS_ERR_NOT_CONNECTED,
                      "the transfer is not matched (ugdr_transfer_test_match())");
    }
}

// Work of a GPU that begins from now on sees what has arrived.
ucs_status_t made_visible(const ugdr_transfer& transfer, ucs_status_t status)
{
    if (status == UCS_OK && transfer.receiver() != nullptr) {
        const Arrivals& arrivals = transfer.receiver()->arrivals();
        if (arrivals.on_gpu() && !arrivals.abilities().sees_writes) {
            flush_writes(transfer.context->ucx(), arrivals.context());
        }
    }
    return status;
}

// Calls it until it does not return UCS_INPROGRESS.
template <typename Test>
ucs_status_t wait_for(Engine& engine, Test&& test)
{
    constexpr unsigned kSpins = 10000;
    ucs_status_t status = UCS_INPROGRESS;
    for (unsigned spins = 0; (status = test()) == UCS_INPROGRESS; ++spins) {
        if (engine.settings().by_caller) {
            engine.progress();
        } else if (spins > kSpins) {
            sched_yield();
        }
    }
    return status;
}

} // namespace

UGDR_EXPORT ucs_status_t ugdr_transfer_create(ugdr_context_h context, ugdr_transfer_side_t side,
                                              const ugdr_transfer_params_t* params,
                                              ugdr_transfer_h* transfer_p)
{
    return guarded(context, [&] {
        require(params, "params");
        require(transfer_p, "transfer_p");
        require_known_fields(params->field_mask, kKnownFields, "ugdr_transfer_params_t");
        const auto has = [&](uint64_t field) { return (params->field_mask & field) != 0; };
        if (side != UGDR_TRANSFER_SEND && side != UGDR_TRANSFER_RECV) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "unknown value of ugdr_transfer_side_t");
        }
        if (!has(UGDR_TRANSFER_PARAM_FIELD_PEER) || !has(UGDR_TRANSFER_PARAM_FIELD_BUFFER)) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "ugdr_transfer_create: a peer and a buffer are needed");
        }
        require(params->peer, "peer");
        const unsigned arrivals = has(UGDR_TRANSFER_PARAM_FIELD_ARRIVALS) ? params->arrivals : 1;
        if (arrivals == 0) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "arrivals: 1 or more");
        }
        Plan plan{};
        plan.tag = has(UGDR_TRANSFER_PARAM_FIELD_TAG) ? params->tag : 0;
        plan.length = params->length;
        plan.partitions = has(UGDR_TRANSFER_PARAM_FIELD_PARTITIONS) ? params->partitions : 1;
        plan.side = side;
        *transfer_p = context->add(context->transfers().create(*params->peer, params->buffer, plan),
                                   arrivals);
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_test_match(ugdr_transfer_h transfer)
{
    return guarded_status(
        transfer, [&] { return transfer->context->transfers().test_match(*transfer->prepared); });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_destroy(ugdr_transfer_h transfer)
{
    return guarded_status(transfer, [&] {
        transfer->context->remove(*transfer);
        return UCS_OK;
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_engine(ugdr_transfer_h transfer, ugdr_engine_t* engine_p)
{
    return guarded_status(transfer, [&] {
        require(engine_p, "engine_p");
        *engine_p = transfer->prepared->courier().peer().ep() != nullptr ? UGDR_ENGINE_UCP
                                                                         : UGDR_ENGINE_DIRECT;
        return UCS_OK;
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_start(ugdr_transfer_h transfer)
{
    return guarded_status(transfer, [&] { return transfer->prepared->start(); });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_start_on(ugdr_transfer_h transfer,
                                                ugdr_condition_h condition)
{
    return guarded_status(transfer, [&] {
        require_condition(*transfer, condition);
        transfer->start_on(*condition);
        return UCS_OK;
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_prepare(ugdr_transfer_h transfer)
{
    return guarded_status(transfer, [&] {
        const Sender* sender = transfer->sender();
        require_side(sender != nullptr, "ugdr_transfer_prepare", "send");
        const uint64_t iteration = sender->asked();
        return wait_for(transfer->context->engine(), [&] {
            return sender->receiver_has_started(iteration) ? UCS_OK
                   : sender->status() != UCS_OK            ? sender->status()
                                                           : UCS_INPROGRESS;
        });
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_ready(ugdr_transfer_h transfer, unsigned partition)
{
    return guarded_status(transfer, [&] {
        require_side(transfer->sender() != nullptr, "ugdr_transfer_ready", "send");
        require_partitions(*transfer, "ugdr_transfer_ready", partition, 1);
        return transfer->sender()->ready(partition);
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_ready_on(ugdr_transfer_h transfer, unsigned first,
                                                unsigned count, ugdr_condition_h condition)
{
    return guarded_status(transfer, [&] {
        require_side(transfer->sender() != nullptr, "ugdr_transfer_ready_on", "send");
        require_partitions(*transfer, "ugdr_transfer_ready_on", first, count);
        require_condition(*transfer, condition);
        transfer->ready_on(first, count, *condition);
        return UCS_OK;
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_arrived(ugdr_transfer_h transfer, unsigned partition,
                                               int* arrived_p)
{
    return guarded_status(transfer, [&] {
        require(arrived_p, "arrived_p");
        require_side(transfer->receiver() != nullptr, "ugdr_transfer_arrived", "receive");
        require_partitions(*transfer, "ugdr_transfer_arrived", partition, 1);
        const Receiver& receiver = *transfer->receiver();
        const ucs_status_t status =
            made_visible(*transfer, receiver.test(partition, receiver.asked()));
        *arrived_p = status == UCS_OK;
        return status == UCS_INPROGRESS ? UCS_OK : status;
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_test(ugdr_transfer_h transfer)
{
    return guarded_status(transfer, [&] {
        return made_visible(*transfer, transfer->prepared->test(transfer->prepared->asked()));
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_wait(ugdr_transfer_h transfer)
{
    return guarded_status(transfer, [&] {
        const Prepared& prepared = *transfer->prepared;
        const uint64_t iteration = prepared.asked();
        return made_visible(*transfer, wait_for(transfer->context->engine(),
                                                [&] { return prepared.test(iteration); }));
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_wait_on(ugdr_transfer_h transfer, ugdr_cu_stream_t stream)
{
    return guarded_status(transfer, [&] {
        transfer->wait_on(stream);
        return UCS_OK;
    });
}

UGDR_EXPORT ucs_status_t ugdr_transfer_device(ugdr_transfer_h transfer,
                                              ugdr_dev_transfer_t* device_p)
{
    return guarded_status(transfer, [&] {
        require(device_p, "device_p");
        *device_p = transfer->device();
        return UCS_OK;
    });
}
