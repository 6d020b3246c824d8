// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// If all buffers of a call are in host memory, the call costs a look at each of them.
#include "mpi/staging/staged_call.hpp"

#include "mpi/gpu/host_memory.hpp"
#include "mpi/interface/statuses.hpp"
#include "mpi/staging/epochs.hpp"
#include "mpi/staging/operation.hpp"
#include "mpi/staging/requests.hpp"

#include <utility>

namespace gdr::mpi {

namespace {

// A type relative to MPI_BOTTOM may also lead to GPU memory.
bool may_be_on_gpu(KnownDeviceMemory& memory, const Arguments& arguments, const Side& side)
{
    if (!side.exists() || arguments.in_place(side)) {
        return false;
    }
    const void* buffer = arguments.pointer(side.buffer);
    if (buffer == nullptr) {
        return side.counts || arguments.count(side, 0) != 0;
    }
    return side.bytes() ? memory.find(buffer) != nullptr : may_lead_to_gpu(memory, buffer);
}

// Whether the request belongs to a receive, so that MPI keeps the message's status in it.
bool receives_message(const Invocation& invocation)
{
    const int8_t peer = invocation.call().receive.peer;
    return peer >= 0 && invocation.integer(peer) != invocation.library().abi->proc_null;
}

int make_staged(const Invocation& invocation, Operation& operation)
{
    const Library& library = invocation.library();
    const Call& call = invocation.call();
    const bool complete = call.form == Form::blocking && call.kind != Kind::epoch;
    std::optional<Statuses> status;
    if (complete && operation.counted()) {
        status.emplace(library, call, invocation.words(), 1);
    }
    const int result = invocation.make();
    if (result != 0) {
        return result;
    }
    if (complete) {
        operation.put_back(status ? status->received(0) : 0);
        return result;
    }
    RequestedOperation begun = call.kind == Kind::epoch
                                   ? RequestedOperation(add_to_epoch(
                                         library, call, invocation.words(), std::move(operation)))
                                   : RequestedOperation(std::move(operation));
    if (call.form != Form::blocking) {
        add_request(library, library.abi->handle_at(invocation.pointer(call.request), 0),
                    std::move(begun), call.form == Form::persistent, receives_message(invocation));
    }
    return result;
}

} // namespace

std::optional<int> stage_call(const Invocation& invocation)
{
    const Call& call = invocation.call();
    KnownDeviceMemory memory(*invocation.driver());
    if (!may_be_on_gpu(memory, invocation, call.send) &&
        !may_be_on_gpu(memory, invocation, call.receive) &&
        !may_be_on_gpu(memory, invocation, call.compare)) {
        return std::nullopt;
    }
    if (const int error = check_types(invocation); error != 0) {
        return error;
    }
    Operation operation(memory, invocation);
    if (!operation.replaces()) {
        return std::nullopt;
    }
    return make_staged(invocation, operation);
}

} // namespace gdr::mpi
