// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The receiving side: taking a WQE from a receive queue or SRQ of any process, landing a message
// in it and announcing it. Small messages are left in the completion entry or in a shared slot and
// reach the buffer when the owner polls; larger ones go there directly.
#pragma once

#include "emu/softhca/memory.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/wire.hpp"

namespace softhca {

struct Arrival {
    ibv_wc_opcode opcode;
    unsigned flags = 0;
    std::uint32_t immediate = 0; // or the key that the message invalidates
    std::uint32_t length = 0;
    bool solicited = false;
    std::uint32_t source_qp = 0;  // UD
    std::uint16_t source_lid = 0; // UD
    std::uint8_t service_level = 0;
};

enum class Delivered {
    done,
    not_ready,
    needs_copier,
    too_long,
    bad_buffer,
    source_fault,
    unreachable
};

struct Delivery {
    Delivered result;
    std::uint64_t device_bytes = 0; // written to device memory on the way
};

// Length of a receive WQE whose scatter list is not covered by its keys.
constexpr std::uint32_t kBadBuffer = ~0u;

// Whether an initiator may use a DC target; the caller knows that it means this number.
inline bool is_dc_target(const QpShared& qp, const QpShared& initiator)
{
    return qp.type == kDct && initiator.type == kDci && qp.dc_key == initiator.dc_key;
}

// Whether receives may have been posted for what a send queue begins with, or has waited with, that
// their process has not seen yet; `looked` is that process's, read before none was found.
bool may_be_unseen(std::uint64_t looked, const QpShared& sender);

class Receiver {
  public:
    // Copier: buffers may be memory that only the CUDA driver can copy.
    Receiver(Process& self, Arena& owner, QpShared& qp, const QpShared& sender, Wire& wire,
             bool copier = false)
        : self_(self), owner_(owner), qp_(qp), sender_(sender), copier_(copier),
          queue_(owner.recv_queue(qp.recv_queue)), wire_(wire)
    {
    }

    // Delivers a message whose source is memory of this process (pid 0) or of the sender's.
    Delivery deliver(const Arrival& arrival, const SegmentList& source, int source_pid);
    // Takes a WQE, if there is one, for a message that will not be complete.
    void begin();
    // Consumes a WQE for a message without payload of its own: a WRITE with immediate.
    Delivered announce(const Arrival& arrival);
    // Whether a WQE is posted; else the sender is noted down as waiting for one.
    bool is_ready();

  private:
    bool connected() const;
    // Under the receive queue's lock, as the next two: whether a message is to find no WQE.
    bool is_stormy();
    // Notes down that the sender waits; false.
    bool wait_for_wqe();
    bool take(RecvEntry& entry);
    bool next_is_on_cuda();
    void check_limit();
    void publish(const Arrival& arrival, std::uint32_t wqe, std::uint16_t slot,
                 ibv_wc_status status, const SegmentList* inlined);

    Process& self_;
    Arena& owner_;
    QpShared& qp_;
    const QpShared& sender_;
    const bool copier_;
    RqShared& queue_;
    Wire& wire_;
    bool limit_reached_ = false;
};

// Lands a UD datagram, its GRH in front, or drops it; false: there is no receive for it.
bool deliver_datagram(Process& self, Arena& owner, QpShared& qp, const Arrival& arrival,
                      const std::uint8_t* grh, const SegmentList& source, std::uint64_t ready);

// Whether there is a receive for the next one.
bool has_receive(Process& self, Arena& owner, const QpShared& qp);

// Brings a QP of any process into the error state: its receive queue is flushed, or it leaves its
// SRQ. Its send queue is left to the engine.
void set_error_state(Process& self, Arena& owner, QpShared& qp);

// Sets up and dissolves a receive queue of this process.
void create_recv_queue(Process& self, RecvQueue& queue, std::uint32_t max_wr, std::uint32_t max_sge,
                       std::uint32_t pd, PipeRef events);
void destroy_recv_queue(Process& self, RecvQueue& queue);
// Empties it without completions.
void reset_recv_queue(Process& self, RecvQueue& queue);

// Posts receive work requests; as ibv_post_recv. `waiting` tells whether peers wait for them.
int post_recv_list(Process& self, std::uint32_t queue, ibv_recv_wr* wr, ibv_recv_wr** bad,
                   bool& waiting);

} // namespace softhca
