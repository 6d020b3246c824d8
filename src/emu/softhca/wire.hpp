// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The modelled wire: when a message that starts now has arrived. A port sends one message at a
// time, and receives one at a time, both with its bandwidth; what all queue pairs of all processes
// send through it waits for its turn. The payload is moved at once: only completions wait for their
// time. Without a model, a message has arrived when its payload is in place, and no clock is read.
#pragma once

#include "emu/softhca/clock.hpp"
#include "emu/softhca/fabric.hpp"

#include <algorithm>

namespace softhca {

// What a message takes, and a port is behind with, at most. A time further away was not put there
// by a model.
constexpr std::uint64_t kLongest = 100'000'000'000; // ns

// The model of a port of this process as the environment has it.
PortModel port_model(unsigned device);

class Wire {
  public:
    // Of what the requester's queue pair sends.
    Wire(Process& self, const Arena& requester, QpShared& qp)
        : fabric_(self.fabric()), port_(qp.device), model_(requester.ports[port_]), qp_(qp)
    {
    }

    // The first of a list is posted: what it takes to get to begin() is time on the wire, too.
    void posted() { posted_ = model_.is_on ? now_ns() : 0; }
    // A work request starts, which arrives so much later than the model has it. Fenced: not before
    // the READs and atomics ahead of it are complete.
    void begin(bool fenced, std::uint32_t delay_us)
    {
        ready_ = start_ = 0;
        if (model_.is_on || delay_us != 0) {
            start_ = posted_ != 0 ? posted_ : now_ns();
            posted_ = 0;
            delay_ = std::uint64_t{delay_us} * 1000;
            if (fenced && qp_.read_ready > start_) {
                start_ = qp_.read_ready;
            }
        }
    }
    // It goes to a queue pair, or nowhere: a lost datagram.
    void send(const Arena& to, const QpShared& peer, std::uint64_t bytes)
    {
        if (start_ != 0) {
            ready_ = carry(model_, port_, to.ports[port_of(peer)], port_of(peer), start_, bytes) +
                     delay_;
        }
    }
    void send_nowhere(std::uint64_t bytes)
    {
        if (start_ != 0) {
            ready_ = depart(model_, port_, start_, bytes) + duration(model_, bytes) + delay_;
        }
    }
    // It asks a queue pair for bytes.
    void fetch(const Arena& from, const QpShared& peer, std::uint64_t bytes)
    {
        if (start_ != 0) {
            const PortModel& other = from.ports[port_of(peer)];
            const std::uint64_t asked = depart(model_, port_, start_, 0);
            ready_ =
                carry(other, port_of(peer), model_, port_, asked, bytes) + model_.latency + delay_;
            qp_.read_ready = ready_;
        }
    }

    // Whether the current work request has a time, or one before it, which it must not overtake.
    bool is_timed() const { return start_ != 0 || qp_.send_ready != 0; }
    // When the latest work request has arrived; 0: at once.
    std::uint64_t ready() const { return ready_; }

  private:
    static unsigned port_of(const QpShared& qp) { return qp.device; }
    std::uint64_t carry(const PortModel& from, unsigned from_port, const PortModel& to,
                        unsigned to_port, std::uint64_t start, std::uint64_t bytes);
    std::uint64_t depart(const PortModel& from, unsigned port, std::uint64_t start,
                         std::uint64_t bytes);
    static std::uint64_t duration(const PortModel& port, std::uint64_t bytes)
    {
        return std::min(bytes * port.femtoseconds_per_byte / 1'000'000, kLongest);
    }

    Fabric& fabric_;
    const unsigned port_;
    const PortModel& model_;
    QpShared& qp_;
    std::uint64_t posted_ = 0;
    std::uint64_t start_ = 0; // 0: nothing is timed
    std::uint64_t delay_ = 0;
    std::uint64_t ready_ = 0;
};

} // namespace softhca
