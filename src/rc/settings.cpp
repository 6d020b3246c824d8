// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Names, defaults and help texts of UCX_GDR_RC_*.
#include "rc/settings.hpp"

#include <cstddef>

namespace gdr::rc {

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
             "Registered buffers of SEG_SIZE bytes per interface, from which buffered (bcopy) sends, reads\n"
             "and atomic results are served.",
             offsetof(Settings, tx_buffers), OptionType::unsigned_int},
            {"RX_QUEUE_LEN", "4096",
             "Receive buffers of SEG_SIZE bytes per interface, shared by all its endpoints. Halved until\n"
             "they can be registered when the limit of locked memory (ulimit -l) is too small.",
             offsetof(Settings, rx_queue_length), OptionType::unsigned_int},
            {"SEG_SIZE", "8256",
             "Size of one send or receive buffer in bytes: the largest message sent through a buffer.\n"
             "At least 8192: UCP sends worker addresses this way.",
             offsetof(Settings, segment_size), OptionType::memory_size},
            {"MAX_INLINE", "128",
             "Bytes that a send or write may carry inside its work request. The HCA may allow less.",
             offsetof(Settings, max_inline), OptionType::memory_size},
            {"TX_MODERATION", "64",
             "Work requests of an endpoint per signalled completion; at most a quarter of TX_QUEUE_LEN.",
             offsetof(Settings, moderation), OptionType::unsigned_int},
            {"WINDOW", "512",
             "Active messages that an endpoint may send before the receiver has confirmed that it read\n"
             "them, so that a slow receiver is not flooded. Rounded up to a power of two.",
             offsetof(Settings, window), OptionType::unsigned_int},
            {"TIMEOUT", "60ms",
             "How long the HCA waits for an acknowledgement before it sends again. Rounded up to\n"
             "4.096 us times a power of two.",
             offsetof(Settings, timeout), OptionType::duration},
            {"RETRY_COUNT", "7",
             "How often the HCA sends again before the endpoint fails (0-7). A dead peer is noticed after\n"
             "about TIMEOUT x (RETRY_COUNT + 1).",
             offsetof(Settings, retry_count), OptionType::unsigned_int},
            {"RNR_TIMEOUT", "1ms",
             "How long a sender is told to wait when no receive buffer is posted (0.01-491 ms).",
             offsetof(Settings, rnr_timeout), OptionType::duration},
            {"RNR_RETRY_COUNT", "7",
             "How often the HCA sends again when the peer has no receive buffer posted (0-7, 7: for ever).",
             offsetof(Settings, rnr_retry_count), OptionType::unsigned_int},
            {"CONNECT_TIMEOUT", "8s",
             "How long to try to connect an endpoint before it fails.",
             offsetof(Settings, connect_timeout), OptionType::duration},
            {"GID_INDEX", "auto",
             "Index in the port's GID table. auto: on InfiniBand 0; on RoCE version 2 before 1, an IPv4\n"
             "address before a global IPv6 one before a link-local one.",
             offsetof(Settings, gid_index), OptionType::auto_ulong},
            {"TRAFFIC_CLASS", "0", "Traffic class of RoCE packets: DSCP times 4 (0-255).",
             offsetof(Settings, traffic_class), OptionType::unsigned_int},
            {"SL", "0", "InfiniBand service level, or RoCE priority (0-15).",
             offsetof(Settings, service_level), OptionType::unsigned_int},
            {"PKEY", "auto",
             "InfiniBand partition key without its membership bit (0-0x7fff). auto: the first of the port's\n"
             "table.",
             offsetof(Settings, pkey), OptionType::auto_ulong},
            {"PATH_MTU", "auto",
             "Path MTU in bytes: 256, 512, 1024, 2048 or 4096. auto: the smaller of both ports' MTUs.",
             offsetof(Settings, path_mtu), OptionType::auto_ulong},
        },
        sizeof(Settings),
    };
    return table;
}

} // namespace gdr::rc
