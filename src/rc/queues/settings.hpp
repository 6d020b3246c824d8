// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX_GDR_RC_*: the configuration of an RC interface and of its memory domain.
#pragma once

#include "abi/options.hpp"

#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <stdexcept>

namespace gdr::rc {

// UCX fills it as iface_options() describes.
struct Settings {
    abi::IfaceConfig base;
    unsigned tx_queue_length;      // work requests per endpoint
    unsigned tx_buffers;           // buffers for bcopy, per interface
    unsigned long rx_queue_length; // receive buffers, per interface; abi::kAuto: by their queues
    size_t segment_size;           // bytes
    size_t max_inline;             // bytes
    unsigned moderation;           // work requests per signalled completion
    unsigned long window; // active messages per endpoint before the receiver's grant; abi::kAuto
    double timeout;       // seconds
    unsigned retry_count;
    double rnr_timeout; // seconds
    unsigned rnr_retry_count;
    double connect_timeout;     // seconds
    double keepalive_interval;  // seconds
    unsigned long max_accepted; // connections of peers, in all
    unsigned max_accepted_of_peer;
    unsigned long gid_index; // abi::kAuto: chosen by verbs::choose_gid()
    unsigned traffic_class;
    unsigned service_level;
    unsigned long pkey;     // 15 bits; abi::kAuto: chosen by verbs::choose_pkey()
    unsigned long path_mtu; // bytes; abi::kAuto: as large as both ports allow
    abi::Ternary thread_domain;
    abi::Ternary single_threaded_cq;
    abi::Ternary wr_functions;
    abi::Ternary mlx5_queues;
    unsigned reachability;   // RouteCheck
    unsigned long num_paths; // abi::kAuto: depends on the port
};

enum class RouteCheck : unsigned { route, all }; // UCX_GDR_RC_REACHABILITY
inline constexpr const char* kRouteCheckNames[] = {"route", "all", nullptr};

const abi::OptionTable& iface_options();

// Registrations with PCIe relaxed ordering.
enum class RelaxedOrdering : unsigned { automatic, yes, no };
inline constexpr const char* kRelaxedOrderingNames[] = {"auto", "y", "n", nullptr};

// Settings of a memory domain.
struct MdSettings {
    abi::MdConfig base;
    abi::Ternary fork_init;
    unsigned relaxed_ordering; // RelaxedOrdering
};

const abi::OptionTable& md_options();

// A setting demands what the HCA does not have.
struct UnmetSetting : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline constexpr uint32_t kSmallestWindow = 4; // in messages
inline constexpr unsigned kMostPaths = 16;     // UCP has no more lanes
inline constexpr size_t kSmallestInline = 16;  // an active message's header and some payload

// The settings in effect: impossible values are replaced by the nearest possible ones, with one
// warning each, and lengths that must be powers of two are rounded up. shared_receives: the HCA has
// shared receive queues.
Settings bounded(const Settings& settings, const ibv_device_attr& limits, bool shared_receives);

// The queue pairs' local ACK timeout: the smallest e with 4.096 us * 2^e >= settings.timeout.
uint8_t ack_timeout(const Settings& settings);

inline std::chrono::steady_clock::duration to_duration(double seconds)
{
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(seconds));
}

// Seconds until a queue pair gives up a peer that does not answer.
double retries_last(const Settings& settings);

} // namespace gdr::rc
