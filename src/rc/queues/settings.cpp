// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Names, defaults and help texts of UCX_GDR_RC_*.
#include "rc/queues/settings.hpp"

#include "log/log.hpp"
#include "rc/queues/own_receive_queues.hpp"
#include "rc/queues/shared_receive_queue.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <sstream>

namespace gdr::rc {
namespace {

constexpr unsigned kSmallestTxQueue = 8;
constexpr unsigned kLargestTxQueue = 1 << 14; // sequence numbers have 16 bits
constexpr unsigned kSmallestTxBuffers = 8;
constexpr unsigned kLargestTxBuffers = 1 << 16;
constexpr unsigned long kLargestWindow = 1 << 14;
constexpr unsigned long kWindow = 512, kOwnWindow = 64; // without a shared receive queue
constexpr unsigned long kRxQueue = 4096, kOwnRxQueue = 32768;
constexpr size_t kSmallestSegment = 8192; // UCP's worker address; half of the largest short put
constexpr size_t kLargestSegment = 1 << 20;
constexpr size_t kLargestInline = 1024;
constexpr double kAckTimeoutUnit = 4.096e-6; // seconds
constexpr double kLargestTimeout = 8796;     // seconds, InfiniBand's longest
constexpr double kLargestRnrTimeout = 0.491;
constexpr double kSmallestConnectTimeout = 1e-3;
constexpr double kLargestConnectTimeout = 86400;
constexpr double kSmallestKeepalive = 1e-3;
constexpr double kLargestKeepalive = 86400;

template <typename T>
void bound(const char* name, T& value, T low, T high)
{
    T given = value;
    low = std::min(low, high); // a device may allow less than the low bound
    value = value >= low ? std::min(value, high) : low; // NaN becomes low too
    if (!(given == value)) {
        std::ostringstream line;
        line << "UCX_GDR_RC_" << name << ": " << given << " is not possible, " << value
             << " is used";
        gdr_log(warn, "%s", line.str().c_str());
    }
}

unsigned at_most(int limit, unsigned value)
{
    return std::min(static_cast<unsigned>(limit), value);
}

// The same for a value that may be auto.
void bound(const char* name, unsigned long& value, unsigned long automatic, unsigned long low,
           unsigned long high)
{
    if (value == abi::kAuto) {
        value = std::max(std::min(automatic, high), low);
    }
    bound(name, value, low, high);
}

// The receives of an interface with a shared receive queue.
void bound_shared(Settings& settings, const ibv_device_attr& limits)
{
    bound("WINDOW", settings.window, kWindow, kSmallestWindow, kLargestWindow);
    bound("RX_QUEUE_LEN", settings.rx_queue_length, kRxQueue, SharedReceiveQueue::kShortest,
          at_most(limits.max_srq_wr, static_cast<unsigned>(limits.max_cqe) / 2));
}

// The receives of an interface whose queue pairs have their own.
void bound_own(Settings& settings, const ibv_device_attr& limits)
{
    constexpr auto fewest = OwnReceiveQueues::work_requests(Side::passive, 0);
    const auto longest = static_cast<unsigned>(limits.max_qp_wr);
    bound("WINDOW", settings.window, kOwnWindow, kSmallestWindow,
          std::min<unsigned long>(kLargestWindow,
                                  std::bit_floor(longest > fewest ? longest - fewest : 1)));
    const auto window = std::bit_ceil(static_cast<unsigned>(settings.window));
    bound("RX_QUEUE_LEN", settings.rx_queue_length, kOwnRxQueue,
          OwnReceiveQueues::fewest_work_requests(window),
          static_cast<unsigned>(limits.max_cqe) / 2);
}

} // namespace

Settings bounded(const Settings& given, const ibv_device_attr& limits, bool shared_receives)
{
    Settings settings = given;
    bound("TX_QUEUE_LEN", settings.tx_queue_length, kSmallestTxQueue,
          std::bit_floor(at_most(limits.max_qp_wr - 1, kLargestTxQueue)));
    settings.tx_queue_length = std::bit_ceil(settings.tx_queue_length);
    bound("TX_BUFFERS", settings.tx_buffers, kSmallestTxBuffers, kLargestTxBuffers);
    bound("SEG_SIZE", settings.segment_size, kSmallestSegment, kLargestSegment);
    shared_receives ? bound_shared(settings, limits) : bound_own(settings, limits);
    settings.window = std::bit_ceil(settings.window);
    settings.max_inline = std::clamp(settings.max_inline, kSmallestInline, kLargestInline);
    bound("TX_MODERATION", settings.moderation, 1u, kLargestTxQueue / 4);
    bound("TIMEOUT", settings.timeout, 0.0, kLargestTimeout);
    bound("RETRY_COUNT", settings.retry_count, 0u, 7u);
    bound("RNR_TIMEOUT", settings.rnr_timeout, 0.0, kLargestRnrTimeout);
    bound("RNR_RETRY_COUNT", settings.rnr_retry_count, 0u, 7u);
    bound("CONNECT_TIMEOUT", settings.connect_timeout, kSmallestConnectTimeout,
          kLargestConnectTimeout);
    bound("KEEPALIVE_INTERVAL", settings.keepalive_interval, kSmallestKeepalive, kLargestKeepalive);
    if (settings.max_accepted == abi::kAuto) {
        settings.max_accepted = static_cast<unsigned long>(limits.max_qp) / 2;
    }
    bound("TRAFFIC_CLASS", settings.traffic_class, 0u, 255u);
    bound("SL", settings.service_level, 0u, 15u);
    if (settings.num_paths != abi::kAuto) {
        bound("NUM_PATHS", settings.num_paths, 1ul, static_cast<unsigned long>(kMostPaths));
    }
    return settings;
}

uint8_t ack_timeout(const Settings& settings)
{
    double exponent =
        std::ceil(std::log2(std::max(settings.timeout, kAckTimeoutUnit) / kAckTimeoutUnit));
    return static_cast<uint8_t>(std::clamp(exponent, 1.0, 31.0));
}

double retries_last(const Settings& settings)
{
    return std::ldexp(kAckTimeoutUnit, ack_timeout(settings)) * (settings.retry_count + 1);
}

const abi::OptionTable& iface_options()
{
    using abi::OptionType;
    static const abi::OptionTable table{
        "gdr RC transport",
        "GDR_RC_",
        {
            {"TX_QUEUE_LEN", "256",
             "Work requests that may be outstanding on one endpoint. Rounded up to a power of two.",
             offsetof(Settings, tx_queue_length), OptionType::unsigned_int},
            {"TX_BUFFERS", "512",
             "Registered buffers of SEG_SIZE bytes per interface, for buffered (bcopy) sends, "
             "reads and results\n"
             "of atomic operations. Where the limit of locked memory (ulimit -l) is too small they "
             "are halved, down\n"
             "to 32, until they can be registered.",
             offsetof(Settings, tx_buffers), OptionType::unsigned_int},
            {"RX_QUEUE_LEN", "auto",
             "Receive buffers of SEG_SIZE bytes per interface, at most. auto: 4096, which all its "
             "endpoints share.\n"
             "An interface begins with WINDOW of them, and doubles them as peers connect or "
             "messages are kept, as far\n"
             "as the limit of locked memory (ulimit -l) allows. With HCAs without shared receive "
             "queues auto is\n"
             "32768, of which each connection of a peer takes WINDOW + 16. More connections wait "
             "until some go.",
             offsetof(Settings, rx_queue_length), OptionType::auto_ulong},
            {"SEG_SIZE", "8256",
             "Size of one send or receive buffer in bytes: the largest message sent through a "
             "buffer.\n"
             "At least 8192: UCP sends worker addresses this way.",
             offsetof(Settings, segment_size), OptionType::memory_size},
            {"MAX_INLINE", "128",
             "Bytes that a send or write may carry inside its work request (16-1024). The HCA may "
             "allow less.",
             offsetof(Settings, max_inline), OptionType::memory_size},
            {"TX_MODERATION", "64",
             "Work requests of an endpoint per signalled completion; at most a quarter of "
             "TX_QUEUE_LEN.",
             offsetof(Settings, moderation), OptionType::unsigned_int},
            {"WINDOW", "auto",
             "Active messages that an endpoint may send before the receiver has confirmed that it "
             "read\n"
             "them, so that they do not flood a slow receiver. Rounded up to a power of two. auto: "
             "512; 64 with\n"
             "HCAs without shared receive queues. To such an HCA an endpoint sends no more than "
             "its peer's WINDOW.",
             offsetof(Settings, window), OptionType::auto_ulong},
            {"TIMEOUT", "1s",
             "How long the HCA waits for an acknowledgement before it sends again. Rounded up to\n"
             "4.096 us times a power of two.",
             offsetof(Settings, timeout), OptionType::duration},
            {"RETRY_COUNT", "6",
             "How often the HCA sends again before the endpoint fails (0-7). It fails after about\n"
             "TIMEOUT x (RETRY_COUNT + 1), 7.5 s by default. An outage of the network may\n"
             "last that long, and a dead peer is noticed that late. For Soft-RoCE, packets out of\n"
             "order count too, and 7 means for ever.",
             offsetof(Settings, retry_count), OptionType::unsigned_int},
            {"RNR_TIMEOUT", "1ms",
             "How long a sender is told to wait when no receive buffer is posted (0.01-491 ms).",
             offsetof(Settings, rnr_timeout), OptionType::duration},
            {"RNR_RETRY_COUNT", "7",
             "How often the HCA sends again when the peer has no receive buffer posted (0-7, 7: "
             "for ever).",
             offsetof(Settings, rnr_retry_count), OptionType::unsigned_int},
            {"CONNECT_TIMEOUT", "8s", "How long to try to connect an endpoint before it fails.",
             offsetof(Settings, connect_timeout), OptionType::duration},
            {"KEEPALIVE_INTERVAL", "10s",
             "How often an interface asks a peer whether a connection that the peer made is still "
             "there. After\n"
             "three questions without an answer the connection is given back. No program has to "
             "poll for it.",
             offsetof(Settings, keepalive_interval), OptionType::duration},
            {"MAX_ACCEPTED", "auto",
             "Connections that peers may make to one interface; further ones wait until some go. "
             "auto: half\n"
             "the queue pairs of the HCA.",
             offsetof(Settings, max_accepted), OptionType::auto_ulong},
            {"MAX_ACCEPTED_OF_PEER", "4096",
             "Connections that one interface of a peer may make to one interface.",
             offsetof(Settings, max_accepted_of_peer), OptionType::unsigned_int},
            {"GID_INDEX", "auto",
             "Index in the port's GID table. auto: 0 on InfiniBand. On RoCE version 2 goes before "
             "1, then IPv4\n"
             "before global IPv6 before link-local addresses.",
             offsetof(Settings, gid_index), OptionType::auto_ulong},
            {"TRAFFIC_CLASS", "0", "Traffic class of RoCE packets: DSCP times 4 (0-255).",
             offsetof(Settings, traffic_class), OptionType::unsigned_int},
            {"SL", "0", "InfiniBand service level, or RoCE priority (0-15).",
             offsetof(Settings, service_level), OptionType::unsigned_int},
            {"PKEY", "auto",
             "InfiniBand partition key without its membership bit (0-0x7fff). auto: the first of "
             "which the\n"
             "port is a full member, else the first.",
             offsetof(Settings, pkey), OptionType::auto_ulong},
            {"PATH_MTU", "auto",
             "Path MTU in bytes: 256, 512, 1024, 2048 or 4096. auto: the smaller of both ports' "
             "MTUs.",
             offsetof(Settings, path_mtu), OptionType::auto_ulong},
            {"THREAD_DOMAIN", "try",
             "Make the queues that one thread at a time uses in a thread domain, where the HCA's "
             "library\n"
             "takes no locks for them. try: where it offers that.",
             offsetof(Settings, thread_domain), OptionType::ternary},
            {"SINGLE_THREADED_CQ", "no",
             "Make the completion queue for a single thread, and poll it without a lock, by "
             "functions that\n"
             "read one field each. try: where the HCA's library offers that.",
             offsetof(Settings, single_threaded_cq), OptionType::ternary},
            {"WR_FUNCTIONS", "no",
             "Post work requests by the ibv_wr_* functions, to send queues that have room for the "
             "operations\n"
             "in use alone. try: where the HCA's library offers them.",
             offsetof(Settings, wr_functions), OptionType::ternary},
            {"MLX5_QUEUES", "try",
             "Write and read the entries of a ConnectX's queues without libmlx5's help, which "
             "takes "
             "half the\n"
             "instructions. The completion queue has its full length from the start, and "
             "WR_FUNCTIONS and\n"
             "SINGLE_THREADED_CQ say nothing then. try: where the HCA's library is libmlx5 and has "
             "shared receive\n"
             "queues.",
             offsetof(Settings, mlx5_queues), OptionType::ternary},
            {"REACHABILITY", "route",
             "Which RoCE peers count as reachable. route: those to which the kernel has a route by "
             "the port's\n"
             "network interface. all: those whose addresses are of the same kind.",
             offsetof(Settings, reachability), OptionType::choice, kRouteCheckNames},
            {"NUM_PATHS", "auto",
             "Paths of a port, each with a queue pair of its own: UCP spreads large transfers over "
             "them, up to\n"
             "UCX_MAX_RNDV_RAILS. auto: the links of a bond, 2 for ports of 400 Gb/s and more, "
             "else 1. Networks\n"
             "that choose a way for each connection (ECMP) may want more (1-16).",
             offsetof(Settings, num_paths), OptionType::auto_ulong},
        },
        sizeof(Settings),
    };
    return table;
}

const abi::OptionTable& md_options()
{
    static const abi::OptionTable table{
        "gdr RC memory domain",
        "GDR_RC_",
        {
            {"FORK_INIT", "try",
             "Call ibv_fork_init() where the kernel is older than Linux 5.12. Without it a fork "
             "may spoil data\n"
             "that is sent and received afterwards. With it children lack the memory that is "
             "registered. y: without\n"
             "success gdr does not use the HCA. n: never.",
             offsetof(MdSettings, fork_init), abi::OptionType::ternary},
            {"RELAXED_ORDERING", "auto",
             "What this side reads from peers, as in a rendezvous, the HCA writes with relaxed "
             "ordering of PCIe.\n"
             "Memory that peers read from or write to is registered twice then. auto: host memory, "
             "where the CPU is\n"
             "known to gain and locked memory is not limited; y: GPU memory, too.",
             offsetof(MdSettings, relaxed_ordering), abi::OptionType::choice,
             kRelaxedOrderingNames},
        },
        sizeof(MdSettings),
    };
    return table;
}

} // namespace gdr::rc
