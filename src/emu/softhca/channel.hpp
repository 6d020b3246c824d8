// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Asynchronous events: the record that is written to the pipe behind a context's async_fd.
#pragma once

#include "emu/softhca/objects.hpp"

namespace softhca {

struct AsyncNotice {
    std::uint32_t type;     // ibv_event_type
    std::uint32_t object;   // index of the CQ, QP or SRQ, or the port number
    std::uint32_t identity; // its generation or QP number, to recognise an object since destroyed
};

// Writes one to a pipe of any process.
void raise_event(Process& self, Arena& owner, PipeRef events, ibv_event_type type,
                 std::uint32_t object, std::uint32_t identity);

// Raises an event of a device as a whole or of its port (IBV_EVENT_PORT_ERR, _PORT_ACTIVE,
// _LID_CHANGE, _PKEY_CHANGE, _GID_CHANGE, _SM_CHANGE, _CLIENT_REREGISTER, _DEVICE_FATAL) in any
// process: every context that it has open on this device gets one. The caller holds no lock of the
// arena's contexts.
void raise_device_event(Process& self, Arena& owner, unsigned device, ibv_event_type type);

// The objects of this process that events name, by index in the arena; null: none.
void set_cq(std::uint32_t index, Cq* cq);
void set_qp(std::uint32_t index, Qp* qp);
void set_srq(std::uint32_t index, Srq* srq);

} // namespace softhca
