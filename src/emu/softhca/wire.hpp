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
        : fabric_(self.fabric()), model_(requester.ports[qp.device]), qp_(qp)
    {
    }

    // A work request starts. Fenced: not before the READs and atomics ahead of it are complete.
    void begin(bool fenced)
    {
        ready_ = 0;
        if (model_.is_on) {
            start_ = now_ns();
            if (fenced && qp_.read_ready > start_) {
                start_ = qp_.read_ready;
            }
        }
    }
    // It goes to a queue pair, or nowhere: a lost datagram.
    void send(const Arena& to, const QpShared& peer, std::uint64_t bytes)
    {
        if (model_.is_on) {
            ready_ = carry(model_, qp_.device, to.ports[peer.device], peer.device, start_, bytes);
        }
    }
    void send_nowhere(std::uint64_t bytes)
    {
        if (model_.is_on) {
            ready_ = depart(model_, qp_.device, start_, bytes) + duration(model_, bytes);
        }
    }
    // It asks a queue pair for bytes.
    void fetch(const Arena& from, const QpShared& peer, std::uint64_t bytes)
    {
        if (model_.is_on) {
            const PortModel& other = from.ports[peer.device];
            const std::uint64_t asked = depart(model_, qp_.device, start_, 0);
            ready_ = carry(other, peer.device, model_, qp_.device, asked, bytes) + model_.latency;
            qp_.read_ready = ready_;
        }
    }

    bool is_modelled() const { return model_.is_on; }
    // When the latest work request has arrived; 0: at once.
    std::uint64_t ready() const { return ready_; }

  private:
    std::uint64_t carry(const PortModel& from, unsigned from_port, const PortModel& to,
                        unsigned to_port, std::uint64_t start, std::uint64_t bytes);
    std::uint64_t depart(const PortModel& from, unsigned port, std::uint64_t start,
                         std::uint64_t bytes);
    static std::uint64_t duration(const PortModel& port, std::uint64_t bytes)
    {
        return std::min(bytes * port.femtoseconds_per_byte / 1'000'000, kLongest);
    }

    Fabric& fabric_;
    const PortModel& model_;
    QpShared& qp_;
    std::uint64_t start_ = 0;
    std::uint64_t ready_ = 0;
};

} // namespace softhca
