// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Faults that happen on purpose: applying the rules, see fault_rules.hpp.
#include "emu/softhca/faults.hpp"

#include "emu/softhca/channel.hpp"
#include "emu/softhca/clock.hpp"
#include "emu/softhca/config.hpp"
#include "emu/softhca/device.hpp"
#include "emu/softhca/fault_rules.hpp"
#include "emu/softhca/liveness.hpp"

#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <thread>

namespace softhca {
namespace {

using Action = FaultRule::Action;

struct Rule : FaultRule {
    explicit Rule(const FaultRule& rule) : FaultRule(rule) {}
    std::atomic<std::uint64_t> posted{0};
};

class Faults {
  public:
    Faults() : rules(fault_rules().rules.begin(), fault_rules().rules.end()) {}

    std::deque<Rule> rules; // neither moved nor copied, for their counts
    std::atomic<std::uint32_t> created[kMaxDevices] = {};
    std::atomic<std::uint64_t> down_until[kMaxDevices] = {}; // by this process
};

Faults& faults()
{
    static Faults instance;
    return instance;
}

// Tells every process of the fabric.
void announce(Process& self, unsigned device, ibv_event_type type)
{
    for (const ProcessSlot& slot : self.fabric().processes) {
        const Token token = slot.token.load();
        Arena* arena = token != 0 && self.alive(token) ? self.arena_of(token) : nullptr;
        if (arena != nullptr) {
            raise_device_event(self, *arena, device, type);
        }
    }
}

void take_port_down(Process& self, unsigned device, std::uint32_t milliseconds)
{
    const std::uint64_t until = now_ns() + std::uint64_t{milliseconds} * 1'000'000;
    self.fabric().down_until[device].store(until);
    faults().down_until[device].store(until);
    announce(self, device, IBV_EVENT_PORT_ERR);
    ring_doorbell(self.arena());
}

void drop(Process& self, const Rule& rule, QpShared& qp)
{
    if (rule.qp != 0) {
        qp.dropped.store(true);
        return;
    }
    for (std::uint32_t index = 0; index < self.qp_indices.used(); ++index) {
        QpShared& other = self.arena().qp(index);
        if (rule.concerns(other.device, 0)) {
            other.dropped.store(true);
        }
    }
}

// A queue pair whose work is neither done nor given up.
void silence(QpShared& qp)
{
    qp.dropped.store(true);
    qp.timeout = 0;
}

void fail_device(Process& self, unsigned device)
{
    for (std::uint32_t index = 0; index < self.qp_indices.used(); ++index) {
        if (QpShared& qp = self.arena().qp(index); qp.device == device) {
            silence(qp);
        }
    }
    raise_device_event(self, self.arena(), device, IBV_EVENT_DEVICE_FATAL);
}

void fail_cq(Process& self, QpShared& qp)
{
    silence(qp);
    raise_event(self, self.arena(), qp.events, IBV_EVENT_CQ_ERR, qp.send_cq,
                self.arena().cq(qp.send_cq).generation);
}

void fail_srq(Process& self, QpShared& qp)
{
    if (qp.has_srq) {
        silence(qp);
        raise_event(self, self.arena(), qp.events, IBV_EVENT_SRQ_ERR, qp.recv_queue - kMaxQps,
                    self.arena().recv_queue(qp.recv_queue).generation);
    }
}

} // namespace

void begin_faults(Process& self)
{
    for (const Rule& rule : faults().rules) {
        for (unsigned device = 0; device < config().devices * config().ports_each; ++device) {
            if (rule.action == Action::down && rule.at == 0 && rule.concerns(device, rule.qp)) {
                take_port_down(self, device, rule.amount);
            }
        }
    }
}

std::uint32_t enlist_qp(unsigned device, QpShared& qp)
{
    Faults& all = faults();
    const std::uint32_t number = ++all.created[device];
    bool counted = false;
    qp.rnr_storm = 0;
    qp.dropped.store(false);
    for (const Rule& rule : all.rules) {
        if (!rule.concerns(device, number)) {
            continue;
        }
        counted = counted || rule.at != 0;
        if (rule.action == Action::rnr) {
            qp.rnr_storm = rule.amount;
        } else if (rule.action == Action::drop && rule.qp == 0 && rule.posted >= rule.at) {
            qp.dropped.store(true);
        }
    }
    return counted ? number : 0;
}

Injected inject(Process& self, QpShared& qp, std::uint32_t number)
{
    Injected injected;
    for (Rule& rule : faults().rules) {
        if (rule.at == 0 || !rule.concerns(qp.device, number) || ++rule.posted != rule.at) {
            continue;
        }
        switch (rule.action) {
        case Action::error:
            injected.status = static_cast<std::uint8_t>(rule.amount);
            break;
        case Action::delay:
            injected.delay_us = rule.amount;
            break;
        case Action::drop:
            drop(self, rule, qp);
            break;
        case Action::down:
            take_port_down(self, qp.device, rule.amount);
            break;
        case Action::endless:
            qp.timeout = 0;
            break;
        case Action::device_fatal:
            fail_device(self, qp.device);
            break;
        case Action::cq_err:
            fail_cq(self, qp);
            break;
        case Action::srq_err:
            fail_srq(self, qp);
            break;
        case Action::kill:
            std::raise(SIGKILL);
            break;
        case Action::cut:
            injected.cut_off = true;
            break;
        default: // not of a work request
            break;
        }
    }
    return injected;
}

std::uint64_t restore_ports(Process& self)
{
    std::uint64_t next = 0;
    for (unsigned device = 0; device < kMaxDevices; ++device) {
        std::atomic<std::uint64_t>& down_until = faults().down_until[device];
        const std::uint64_t until = down_until.load();
        if (until == 0) {
            continue;
        }
        if (now_ns() < until) {
            next = sooner(next, until);
        } else {
            down_until.store(0);
            announce(self, device, IBV_EVENT_PORT_ACTIVE);
        }
    }
    return next;
}

void modify_slowly(unsigned device)
{
    for (const Rule& rule : faults().rules) {
        if (rule.action == Action::modify && rule.concerns(device, 0)) {
            std::this_thread::sleep_for(std::chrono::microseconds(rule.amount));
        }
    }
}

int resolve(unsigned device, const ibv_ah_attr& address)
{
    for (const Rule& rule : faults().rules) {
        if (!rule.concerns(device, 0)) {
            continue;
        }
        if (rule.action == Action::unusable && address.is_global &&
            address.grh.sgid_index == rule.gid) {
            return EINVAL;
        }
        if (rule.action != Action::unresolved || rule.neighbour == device) {
            continue;
        }
        bool is_meant = !address.is_global && address.dlid == port_lid(rule.neighbour);
        for (unsigned index = 0; address.is_global && index < kGids; ++index) {
            const ibv_gid gid = port_gid(rule.neighbour, index);
            is_meant = is_meant || std::memcmp(&gid, &address.grh.dgid, sizeof gid) == 0;
        }
        if (is_meant) {
            std::this_thread::sleep_for(std::chrono::microseconds(rule.amount));
            return ETIMEDOUT;
        }
    }
    return 0;
}

bool is_down(Process& self, unsigned device)
{
    const std::uint64_t until =
        self.fabric().down_until[device % kMaxDevices].load(std::memory_order_relaxed);
    return until != 0 && now_ns() < until;
}

} // namespace softhca
