// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An RC interface: one port of an HCA as seen by one worker. One completion queue serves sends and
// receives of all its queue pairs, so that one call polls everything.
#pragma once

#include "abi/iface.hpp"
#include "mem/memory_collector.hpp"
#include "mem/rdma_writes.hpp"
#include "rc/completions.hpp"
#include "rc/connect/attention.hpp"
#include "rc/connect/handshake.hpp"
#include "rc/connect/local_port.hpp"
#include "rc/connect/reachability.hpp"
#include "rc/data_trace.hpp"
#include "rc/endpoint_tasks.hpp"
#include "rc/endpoints.hpp"
#include "rc/event_descriptor.hpp"
#include "rc/limits.hpp"
#include "rc/memory_rules.hpp"
#include "rc/outage.hpp"
#include "rc/pending_endpoints.hpp"
#include "rc/poster.hpp"
#include "rc/prepared_requests.hpp"
#include "rc/queue_pairs.hpp"
#include "rc/queues/provider.hpp"
#include "rc/queues/receives.hpp"
#include "rc/queues/send_buffers.hpp"
#include "rc/queues/settings.hpp"
#include "rc/reads_before_writes.hpp"
#include "rc/send_credits.hpp"
#include "rc/traffic.hpp"
#include "rc/window_credits.hpp"
#include "rc/words_under_way.hpp"
#include "verbs/device.hpp"

#include <memory>
#include <optional>
#include <string>

namespace gdr::rc {

class MemoryDomain;

// What UCT calls, by the rules for memory.
struct IfaceOperations {
    uct_iface_ops_t* uct;
    const abi::InternalOps* internal;
};

// Its parts, each with a concept of its own. Who works on an interface takes the parts it needs.
struct Iface : abi::Iface {
    // Throws std::exception with the reason.
    Iface(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
          const Settings& settings, const MemoryRules& memory_rules,
          const IfaceOperations& operations);
    ~Iface();

    std::string name() const { return port_name(device, port); }

    // Polls until the endpoint's work request has completed and returns the completion's status.
    // All completions are saved, so no callback is called.
    ucs_status_t wait_for(uint64_t wr_id);

    // Destroys a queue pair after saving all completions: the provider library would drop those of
    // the queue pair.
    void destroy(verbs::QueuePair qp);

    // The number of endpoints with queue pairs has changed.
    void share_out() { credits.share_out(endpoints.queue_pairs(), completions.room()); }

    ucs_status_t arm(); // before the worker sleeps

    // ---- the port
    MemoryDomain& domain;
    const verbs::Device& device;
    const Settings settings;
    const verbs::Port port;

    // ---- the data path
    Attention attention;
    const MemoryRules rules;
    Limits limits;
    SendCredits credits;
    EventDescriptor events{device.context(), attention};
    std::optional<Provider> provider;
    Completions completions{attention};
    Poster poster;
    PreparedRequests prepared;
    std::optional<SendBuffers> buffers;
    Receives receives;
    std::optional<WordsUnderWay> words; // of emulated atomics
    Traffic traffic;
    Endpoints endpoints;
    PendingEndpoints pending_endpoints;
    EndpointTasks endpoint_tasks{attention};

    // ---- the rest
    std::unique_ptr<ReadsBeforeWrites> reads_before_writes; // if the HCA needs them
    LocalPort local{};
    std::optional<Reachability> reachability;
    std::unique_ptr<ReceiveQueues> receive_queues;
    std::optional<QueuePairs> queue_pairs;
    std::optional<DataTrace> data_trace; // if it was wanted when the interface was opened
    mem::MemoryCollector memory_collector;
    std::optional<Handshake> handshake;
    std::optional<WindowCredits> window_credits;
    mem::RdmaWrites::Watch rdma_writes{attention.flag()};
    std::optional<Outage> outage; // uses the handshake

  private:
    void open(uct_worker_h worker, const uct_iface_params_t* params);
    void open_handshake();
    // Sized for as many receives as possible, down to those of one connection.
    void open_completions(unsigned first_receives, unsigned* most_receives);
    void log_receive_memory(size_t buffer) const;
};

inline Iface& rc_iface(uct_iface_h iface)
{
    return *static_cast<Iface*>(reinterpret_cast<abi::Iface*>(iface));
}

} // namespace gdr::rc
