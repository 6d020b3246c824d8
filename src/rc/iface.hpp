// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An RC interface: one port of an HCA as seen by one worker. One completion queue serves sends and
// receives of all its queue pairs, so that one call polls everything.
#pragma once

#include "abi/iface.hpp"
#include "mem/memory_collector.hpp"
#include "mem/rdma_writes.hpp"
#include "rc/completion_room.hpp"
#include "rc/handshake.hpp"
#include "rc/port_events.hpp"
#include "rc/post_chain.hpp"
#include "rc/provider.hpp"
#include "rc/reachability.hpp"
#include "rc/read_modify_write.hpp"
#include "rc/receives.hpp"
#include "rc/relaxed_writes.hpp"
#include "rc/send_buffers.hpp"
#include "rc/send_queue.hpp"
#include "rc/settings.hpp"
#include "stats/statistics.hpp"
#include "verbs/device.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace gdr::rc {

struct Endpoint;
class MemoryDomain;

// The connected endpoints with pending requests, in the order of their turns. Linked through
// Endpoint.
class PendingEndpoints {
  public:
    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    Endpoint* front() const { return head_; }
    void push_back(Endpoint* ep);
    void remove(Endpoint* ep); // if it is in the list

  private:
    Endpoint* head_ = nullptr;
    Endpoint* tail_ = nullptr;
    size_t size_ = 0;
};

// The window grants of an accepted queue pair, which the interface's thread sends to the peer.
struct WindowCredit {
    ibv_qp* qp;
    ConnectionName name;
    unsigned due = 0;
    unsigned in_flight = 0;
    bool failed = false;
};

// Work request ids. A receive's id is an address (receives.hpp). A send's id has kSendBit and names
// the endpoint, by its slot and the slot's generation; its highest bits are the sequence number,
// which wraps around. The id of an accepted queue pair's send also has kAcceptedBit: the queue pair
// number replaces the generation, and the slot is the one that belongs to no endpoint.
inline constexpr uint64_t kSendBit = 1;
inline constexpr uint64_t kAcceptedBit = 2;
inline constexpr unsigned kIdShift = 2;
inline constexpr unsigned kSlotBits = 20;
inline constexpr unsigned kGenerationBits = 26;
inline constexpr unsigned kGenerationShift = kIdShift + kSlotBits;
inline constexpr unsigned kNumberShift = 48;
inline constexpr uint64_t kNextNumber = uint64_t{1} << kNumberShift;
static_assert(alignof(ibv_recv_wr) > (kSendBit | kAcceptedBit));
static_assert(kGenerationShift + kGenerationBits <= kNumberShift);

inline uint32_t slot_of(uint64_t wr_id)
{
    return wr_id >> kIdShift & ((1u << kSlotBits) - 1);
}
// The id before an endpoint's first work request.
inline uint64_t wr_id_of(uint64_t id)
{
    return id << kIdShift | kSendBit;
}
inline SequenceNumber number_of(uint64_t wr_id)
{
    return static_cast<SequenceNumber>(wr_id >> kNumberShift);
}

inline constexpr unsigned kMaxSge = 5;      // more would lengthen the entries of a send queue
inline constexpr size_t kMaxHeader = 256;   // of a zero-copy active message
inline constexpr unsigned kGrantRoom = 128; // of the completion queue, for window grants alone

// The work requests of short and buffered operations, apart from what differs between them. The
// provider library has read them, and what they point to, when a post returns.
struct PreparedRequests {
    uint64_t header = 0; // of a short active message
    // Its header and payload; the payload may be empty.
    ibv_sge parts[2]{{reinterpret_cast<uintptr_t>(&header), sizeof(header), 0}, {}};
    ibv_send_wr short_message{};
    ibv_sge written{};
    ibv_send_wr short_write{};

    ibv_sge buffer{}; // one of SendBuffers, whose lkey is set
    ibv_send_wr message{};
    ibv_send_wr write{};
    ibv_send_wr read{};

    PreparedRequests()
    {
        prepare(short_message, IBV_WR_SEND_WITH_IMM, parts, 2);
        prepare(short_write, IBV_WR_RDMA_WRITE, &written);
        prepare(message, IBV_WR_SEND_WITH_IMM, &buffer);
        prepare(write, IBV_WR_RDMA_WRITE, &buffer);
        prepare(read, IBV_WR_RDMA_READ, &buffer);
    }
    PreparedRequests(const PreparedRequests&) = delete;
    PreparedRequests& operator=(const PreparedRequests&) = delete;

    void set_buffer(const std::byte* data, size_t length)
    {
        buffer.addr = reinterpret_cast<uintptr_t>(data);
        buffer.length = static_cast<uint32_t>(length);
    }

  private:
    static void prepare(ibv_send_wr& wr, ibv_wr_opcode opcode, ibv_sge* pieces, int count = 1)
    {
        wr.opcode = opcode;
        wr.sg_list = pieces;
        wr.num_sge = count;
    }
};

struct Iface : abi::Iface {
    // The largest short put of an interface that checks the memory type: one byte less than the
    // size from which UCP's protocols v1 put from registered memory.
    static constexpr size_t kMaxPutOfAnyMemory = 16383;
    // The largest payload of a short operation, without an active message's header. It goes through
    // a buffer if it does not fit into a work request: UCP then makes no request. Longer ones are
    // faster without a copy.
    static constexpr size_t kMaxShort = 4096;

    // Throws std::exception with the reason.
    Iface(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
          const Settings& settings);
    ~Iface();

    // ---- data path state
    std::atomic<bool> attention{
        false};           // the handshake, backlog or an endpoint has something rare to do
    int tx_available = 0; // free entries of the completion queue; grants may take kGrantRoom more
    int tx_scarce = 0;    // up to this value every work request is signalled
    int tx_share = 0;     // the largest budget of an endpoint
    unsigned moderation;
    // Data shorter than inline_end goes inside its work request, and so does an active message's
    // payload shorter than payload_end. 0: the HCA has no inline data, not even empty ones.
    unsigned inline_end = 0;
    unsigned payload_end = 0;
    const bool any_memory;      // short puts and buffered gets check the memory type
    const bool clears_behind;   // clears what UCP reads behind a ready-to-send
    const bool untyped_shorts;  // UCP may pass short operations without checking the memory type
    const bool keep_host_pages; // host memory may be remembered
    uint32_t window;            // a power of two
    uint32_t segment_size;
    ibv_cq* cq = nullptr;
    verbs::PollCq poll_cq = nullptr;     // of cq
    verbs::PostSend post_send = nullptr; // to endpoints' queue pairs: at once, or in a chain
    ibv_send_wr* refused = nullptr;      // the work request that post_send refused
    PreparedRequests prepared;
    std::optional<Provider> provider; // destroyed after what is made with it
    std::optional<SendBuffers> buffers;
    Receives receives;
    std::optional<WordsUnderWay> words; // of emulated atomics
    struct {
        uint64_t bytes[2]; // by mem::MemoryKind: device if either side's memory is
        uint64_t operations[2];
    } traffic{};

    // ---- the rest
    verbs::PostSend post_at_once = nullptr;
    std::optional<PostChain> chain;
    std::unique_ptr<ReadsBeforeWrites> reads_before_writes; // if the HCA needs them
    MemoryDomain& domain;
    const verbs::Device& device;
    const bool shares_receives; // the HCA has shared receive queues
    const Settings settings;
    const verbs::Port port;
    verbs::Path path{};
    unsigned paths = 1; // of which UCP may make lanes
    DeviceAddress device_address{};
    std::optional<Reachability> reachability;
    size_t headroom;
    unsigned max_inline = 0; // as granted to a queue pair; 0: none
    unsigned tx_queue_length;
    unsigned max_iov;
    size_t max_zcopy;
    int wakeup_fd = -1; // eventfd: the handshake has events
    int event_fd = -1;  // epoll over the completion channel and wakeup_fd
    verbs::CompletionChannel channel;
    std::optional<CompletionRoom> completions; // the owner of cq
    std::unique_ptr<ReceiveQueues> receive_queues;
    int tx_room = 0;                   // entries taken for endpoints' work requests
    int tx_most = 0;                   // largest possible tx_room
    std::vector<ibv_wc> backlog;       // polled, not yet handled
    std::vector<ibv_wc> spare_backlog; // empty, kept for its storage
    struct Slot {
        Endpoint* endpoint = nullptr;
        uint64_t name = 0; // its wr_ids without the number; while free: the next, no kSendBit
    };
    std::vector<Slot> slots = std::vector<Slot>(1); // the first belongs to no endpoint
    std::vector<uint32_t> free_slots;
    std::unordered_map<uint32_t, Endpoint*> endpoint_by_qpn;
    std::unordered_map<uint32_t, WindowCredit> window_credits; // by queue pair number
    std::vector<WindowCredit*> waiting_credits;                // for room in the completion queue
    PendingEndpoints pending_endpoints;
    std::vector<uint64_t> failed_endpoints; // ids, to be reported
    std::vector<uint64_t>
        closing_endpoints; // ids whose last work requests are still to be signalled
    mem::MemoryCollector memory_collector;
    unsigned outage = 0;   // the outage that was handled last
    bool given_up = false; // the HCA or one of our queues is broken
    std::chrono::steady_clock::time_point next_look;
    std::unique_ptr<Handshake> handshake; // destroyed before what it uses
    mem::RdmaWrites::Watch rdma_writes{attention};
    std::optional<PortWatch> port_watch; // uses the handshake

    // kClearsBehind: clears_behind.
    template <bool kClearsBehind>
    unsigned progress();
    ucs_status_t arm();

    // Divides the room for work requests, which grows with the number of endpoints that have queue
    // pairs. If it does not hold all their queues, their budgets, which count as posted, must not
    // make work requests scarce.
    void share_out();
    uint64_t add_endpoint(Endpoint* ep);
    // For an endpoint. inline_data: bytes, in: requested, out: granted. Throws verbs::Error.
    verbs::QueuePair create_queue_pair(uint32_t* inline_data, verbs::Posting posting) const;
    void remove_endpoint(uint64_t id);
    Endpoint* find_endpoint(uint64_t id) const; // NULL: destroyed

    void add_pending(Endpoint* ep);
    void count(unsigned kind, size_t bytes)
    {
        traffic.bytes[kind] += bytes;
        ++traffic.operations[kind];
    }

    // Polls until the endpoint's work request has completed and returns the completion's status.
    // All completions go to backlog, so no callback is called.
    ucs_status_t wait_for(const Endpoint& ep, uint16_t number);

    // Posts the collected chain, before somebody waits for it or its queue pair is closed.
    void post_chain() { chain->post(post_at_once); }

    // Work requests of the endpoint up to this one have completed, this one with status. Also
    // handles everything rare.
    static void handle_sent_slow(Endpoint& ep, uint64_t wr_id, ucs_status_t status);

    // Polls all completions into the backlog.
    void save_completions();

    // Destroys a queue pair after saving all completions: the provider library would drop those of
    // the queue pair.
    void destroy(verbs::QueuePair qp);

    // Signals the last work requests of a destroyed or failed endpoint as soon as possible.
    void finish(Endpoint& ep);

  private:
    void open_queues(const uct_iface_params_t* params);
    // Sized for as many receives as possible, down to those of one connection.
    void create_completion_queue(unsigned first_receives, unsigned* most_receives);
    void log_receive_memory(size_t buffer) const;
    uint32_t find_max_inline(uint32_t wanted, verbs::Posting posting) const;
    void close_events();
    void choose_path(const void* worker);
    void handle(const ibv_wc& wc);
    template <bool kClearsBehind>
    void handle_now(const ibv_wc& wc);
    void handle_error(const ibv_wc& wc);
    void handle_other(const ibv_wc& wc);
    void handle_sent(uint64_t wr_id);
    static void handle_sent_end(Endpoint& ep, uint64_t wr_id, ucs_status_t status);
    void handle_other_sent(uint64_t wr_id);
    template <bool kClearsBehind>
    void handle_message(const ibv_wc& wc);
    template <bool kClearsBehind>
    void handle_control_message(const ibv_wc& wc);
    template <bool kClearsBehind>
    void deliver(const ibv_wc& wc);
    void clear_behind(const ibv_wc& wc);
    void hold_receive();
    void handle_intrusion(const ibv_wc& wc);
    void handle_control(const ibv_wc& wc, uint32_t immediate);
    void handle_grant_sent(uint64_t wr_id, ibv_wc_status status);
    template <bool kClearsBehind>
    unsigned poll();
    template <bool kClearsBehind>
    unsigned progress_attention();
    unsigned handle_attention();
    unsigned take_handshake_events();
    void handle_event(HandshakeEvent& event);
    void grant(WindowCredit& credit);
    void grant_next();
    WindowCredit* find_window_credit(uint32_t qpn);
    void forget_window_credit(uint32_t qpn);
    void handle_ending(verbs::QueuePair qp);
    void dispatch_pending();
    void try_pending_again();
    unsigned report_failures();
    void finish_closing();
    static void finish_closing(Endpoint& ep);
    unsigned look_at_port();
    unsigned give_up();
};

inline Endpoint* Iface::find_endpoint(uint64_t id) const
{
    const Slot& slot = slots[slot_of(wr_id_of(id))]; // only add_endpoint() makes ids
    return slot.name == wr_id_of(id) ? slot.endpoint : nullptr;
}

inline Iface& rc_iface(uct_iface_h iface)
{
    return *static_cast<Iface*>(reinterpret_cast<abi::Iface*>(iface));
}

// The name by which UCP knows the device: "mlx5_0:1".
std::string device_name(const verbs::Device& device, const verbs::Port& port);

ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config, uct_iface_h* iface);

// For UCP's protocol selection; estimate.cpp names the sources of the numbers.
abi::PerfEstimate estimate_perf(uct_iface_h iface, const abi::PerfQuery& query);
struct PortCost {
    double overhead;  // seconds of CPU per operation
    double latency;   // seconds, one way
    double bandwidth; // bytes per second
};
PortCost port_cost(const verbs::Port& port);

} // namespace gdr::rc
