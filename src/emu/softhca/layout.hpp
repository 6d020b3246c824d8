// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What lies in shared memory. The fabric is one small file that every process of a user maps: the
// table of processes and the table of queue pair numbers. Each process has an arena of its own, an
// anonymous file which the others map on first contact: its queue pairs, queues, completion queues
// and memory regions. Tables in it never change their type, so that whoever still holds an index
// of a destroyed object finds another object of that type or none, and the checks of generation
// and connection made under the object's lock tell. All zero is a valid empty state of everything.
//
// A process that dies, or runs wild, may leave anything there. So whatever is read from it stays
// harmless: offsets and indices lead into the arena, counts end loops, the addresses of a process's
// memory are checked, and what only concerns that process it has in its own.
#pragma once

#include "emu/softhca/lock.hpp"
#include "emu/softhca/verbs_abi.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <pthread.h>

namespace softhca {

constexpr unsigned kMaxDevices = 32;
constexpr unsigned kMaxByVariable = 8; // of them, that variables ask for; a dump may have more
constexpr unsigned kMaxPortsEach = 2;
constexpr unsigned kMaxProcesses = 256;
constexpr unsigned kMaxQpNumbers = 1u << 16; // of a fabric; the QP number's low 16 bits
constexpr unsigned kMaxQps = 8192;           // of one process
constexpr unsigned kMaxSrqs = 4096;
constexpr unsigned kMaxRecvQueues = kMaxQps + kMaxSrqs; // a QP's own has the QP's index
constexpr unsigned kMaxCqs = 8192;
constexpr unsigned kMaxMrs = 1u << 17;
constexpr unsigned kMaxContexts = 1024; // open at the same time in one process
constexpr unsigned kMaxSge = 30;
constexpr std::uint32_t kMaxInline = 1024;
constexpr std::uint32_t kMaxQueueDepth = 32768;
constexpr std::uint32_t kMaxCqe = 1u << 20;
constexpr std::uint32_t kMaxMessage = 1u << 30;
constexpr std::uint32_t kMtu = 4096;
constexpr std::uint16_t kNoLid = 0xffff; // of a port that nothing is to reach
constexpr std::uint32_t kGrhSize = 40;
// Messages up to this size pass through a shared slot, larger ones take a system call. UCX's
// transports send through buffers of this size: a full one is to cost no jump that no HCA has.
constexpr std::uint32_t kSlotSize = 8256;
constexpr std::uint32_t kMaxSlots = 256; // of one receive queue
constexpr std::uint32_t kNone = ~0u;
constexpr std::size_t kArenaSize = std::size_t{16} << 30; // address space; memory as it is used
// Follows, so that the largest object may begin at any offset.
constexpr std::size_t kArenaSlack = std::size_t{2} << 20;
constexpr std::uint64_t kLayoutMagic = 0x73'6f'66'74'68'63'61'40; // changes with the layout

struct Arena;

// A bool in memory that others can write: any value of its byte is one of the two.
class Flag {
  public:
    Flag() = default;
    Flag(bool value) : byte_(value ? 1 : 0) {}
    operator bool() const { return byte_ != 0; }

  private:
    std::uint8_t byte_;
};

// The number of a device likewise: always one that there may be.
class DeviceNumber {
  public:
    DeviceNumber() = default;
    DeviceNumber(unsigned number) : byte_(static_cast<std::uint8_t>(number)) {}
    operator unsigned() const { return byte_ % kMaxDevices; }

  private:
    std::uint8_t byte_;
};

// The status of a completion likewise.
class Status {
  public:
    Status() = default;
    Status(unsigned status) : byte_(static_cast<std::uint8_t>(status)) {}
    operator ibv_wc_status() const
    {
        return static_cast<ibv_wc_status>(std::min<unsigned>(byte_, IBV_WC_GENERAL_ERR));
    }

  private:
    std::uint8_t byte_;
};

// A stack of free indices. Anyone may push, without a lock; the holder of the owning object's lock
// pops from a chain that it refills by taking the whole stack, so there is no ABA problem.
struct FreeStack {
    std::atomic<std::uint32_t> pushed; // index + 1, 0: empty
    std::uint32_t chain;               // index + 1, under the lock

    // The links are an array in an arena, at an offset.
    inline void push(Arena& arena, std::uint64_t links, std::uint32_t index);
    inline std::uint32_t pop(Arena& arena, std::uint64_t links);
    void clear()
    {
        pushed.store(0, std::memory_order_relaxed);
        chain = 0;
    }
};

// Of an object in a table that exists: odd, and not that of an earlier one.
constexpr std::uint32_t next_generation(std::uint32_t former)
{
    return (former + 1) | 1;
}

enum class MemoryKind : std::uint8_t { host, peer, dmabuf };

// How processes other than its owner reach device memory that only the CUDA driver can copy.
enum class CudaSharing : std::uint8_t {
    none,   // not at all: the owner copies for them
    ipc,    // cuIpcOpenMemHandle: memory of cuMemAlloc
    handle, // the owner's fd, imported and mapped: memory of cuMemCreate that allows it
};

// Such memory; `owner` is 0 for all other.
struct CudaMemory {
    Token owner;
    std::int32_t device;        // as the owner numbers them
    std::uint8_t uuid[16];      // of the device
    std::uint64_t first, last;  // bytes, where the owner has them
    std::uint64_t buffer_id;    // the driver's; 0: of several allocations
    std::uint64_t base, length; // of what is shared
    std::int32_t fd;
    CudaSharing sharing;
    std::uint8_t ipc_handle[64];
};

// A key of memory is its region's index and a tag. The tag's low byte is free for ibv_inc_rkey,
// with which programs make the keys of memory windows.
constexpr unsigned kKeyTagBits = 15;
static_assert(std::uint64_t{kMaxMrs} << kKeyTagBits == std::uint64_t{1} << 32);
constexpr std::uint32_t key_index(std::uint32_t key)
{
    return key >> kKeyTagBits;
}

// The bytes of a region.
struct Extent {
    std::uint64_t iova;
    std::uint64_t length;
    std::uint64_t address; // of iova, where the owning process can read and write it

    // Another one when one of the three is.
    std::uint64_t checksum() const
    {
        constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15;
        return (~iova * odd + length) * odd + address;
    }
};

// An entry of a list of keys: where in its region a piece begins.
struct KeyEntry {
    std::uint64_t address; // as the key has it
    std::uint32_t key;
};

// Pieces of the same length, which together are a range of memory.
struct KeyTable {
    std::uint64_t entries; // offset in the arena
    std::uint32_t count;
    std::uint8_t log_piece; // bytes of a piece
};

// A memory region, a memory window that is bound to one, or a list of keys. It is valid for a key
// while `key` holds it.
struct alignas(64) MrShared {
    std::atomic<std::uint32_t> key;
    std::uint32_t access;
    Extent extent;
    std::uint64_t checksum; // the extent's: nothing is touched that others have made of it
    std::uint32_t pd;
    // kNoWindow: a region; kListOfKeys; kAnyQp: a window of type 1; else the QP it is bound through
    std::uint32_t window;
    std::uint32_t region;               // of a window: the index of the region beneath
    std::atomic<std::uint32_t> windows; // bound to this region
    MemoryKind kind;
    CudaMemory cuda;
    KeyTable keys;

    void describe(const Extent& bytes)
    {
        extent = bytes;
        checksum = bytes.checksum();
    }
    // Should its key come back, then not as one of this memory.
    void forget() { checksum = ~extent.checksum(); }
};
constexpr std::uint32_t kNoWindow = 0, kListOfKeys = ~1u, kAnyQp = ~0u;

struct PipeRef { // the writing end of a pipe of the arena's owner; id tells apart reuses of fd
    std::int32_t fd;
    std::uint32_t id; // 0: none
};

enum class CqeKind : std::uint8_t { none, send, receive, write };

// States of a deferred RDMA WRITE (CqeKind::write) in `claim`, together with its position so that
// a claim on an entry that has since been used again cannot succeed.
enum class Claim : std::uint32_t { pending, by_responder, by_requester, done };

struct alignas(64) Cqe {
    std::atomic<std::uint32_t> sequence; // position + 1 once the entry is published
    std::uint32_t byte_length;
    std::uint64_t id; // send: wr_id; write: remote address
    std::uint32_t immediate;
    std::uint32_t source_qp;        // write: rkey
    std::atomic<std::uint32_t> wqe; // send: counter of the WR; receive: WQE; write: claim
    std::uint16_t qp;               // index in the arena
    std::uint16_t slot;             // holding the payload; kNoSlot: payload is in the entry
    CqeKind kind;
    Status status;
    std::uint8_t opcode;
    std::uint8_t flags;
    std::uint16_t source_lid;
    std::uint8_t service_level;
    Flag solicited;
    std::uint64_t ready; // not to be seen before; 0: at once
    std::uint8_t payload[80];
};
static_assert(sizeof(Cqe) == 128);
constexpr std::uint16_t kNoSlot = 0xffff; // payload in the entry
constexpr std::uint16_t kLanded = 0xfffe; // payload is where it belongs already

struct CqShared {
    // Written by producers under the lock
    alignas(64) SharedLock lock;
    std::uint32_t generation; // odd while the CQ exists
    std::uint32_t mask;
    std::uint32_t armed; // 0, 1: next solicited, 2: next
    std::uint64_t ring;  // offset in the arena
    std::uint64_t tail;
    std::uint64_t seen_head;    // the producers' copy of head, refreshed when the ring looks full
    std::uint64_t visible;      // entries so far that the application sees
    std::uint64_t seen_taken;   // the producers' copy of taken, refreshed when the queue looks full
    std::uint32_t length;       // entries that the application asked for
    std::uint32_t spare;        // of the ring, beyond these
    std::uint64_t last_visible; // position + 1 of the latest entry that the application sees
    std::uint64_t last_solicited; // of the latest solicited one
    PipeRef channel;
    PipeRef events;
    Flag overrun; // nothing is appended any more
    std::atomic<std::uint64_t>
        wake_at; // the owner's agent then rings the channel; 0: nothing to do
    // Written by the consumer
    alignas(64) std::atomic<std::uint64_t> head;
    std::atomic<std::uint64_t> taken; // entries so far that the application saw and has polled
};

struct Sge {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t lkey;
};

struct RecvWqe {
    std::uint64_t wr_id;
    std::uint32_t num_sge;
    Flag on_cuda; // some of the scatter list is memory that only the CUDA driver can copy
    Sge sge[];
};

struct RecvEntry {
    std::uint32_t wqe;
    std::uint32_t length;          // of the scatter list
    std::uint32_t deregistrations; // of the owner, when the list was found covered by its keys
};

// A receive queue: a QP's own or an SRQ. What different processes write lies in different cache
// lines here, as everywhere below.
struct RqShared {
    // Set up once, by the owner.
    alignas(64) std::uint32_t mask;
    std::uint32_t pd;
    std::uint32_t max_wr;
    std::uint32_t max_sge;
    std::uint32_t wqe_stride;
    PipeRef events;
    std::uint64_t ring; // offsets in the arena
    std::uint64_t wqes;
    std::uint64_t wqe_next;
    std::uint64_t slots;
    std::uint64_t slot_next;
    // Under the lock: by senders, and by the owner when it posts.
    alignas(64) SharedLock lock;
    std::uint32_t generation; // odd while the queue exists
    std::uint32_t head;
    std::uint32_t tail;
    std::uint32_t peers_waiting; // receiving QPs whose peer found no WQE, at least
    std::uint32_t limit;         // SRQ: event when fewer are posted; 0: disarmed
    // Pushed to when the owner polls; popped by the owner, and by senders.
    alignas(64) FreeStack free_wqes;
    alignas(64) FreeStack free_slots;
};

// Work requests that verbs have no name for. One does nothing but complete in its turn; the other
// says whom those behind it are for, in a DC initiator: remote_addr is an address handle, imm_data
// the number of the target, compare_add the target's key.
constexpr ibv_wr_opcode kNop = IBV_WR_DRIVER1;
constexpr auto kConnect = static_cast<ibv_wr_opcode>(IBV_WR_DRIVER1 + 1);

// Dynamically connected queue pairs: initiators, which are reliably connected to one target after
// the other, and targets, which serve all initiators that have their key.
constexpr auto kDci = static_cast<ibv_qp_type>(0xf0), kDct = static_cast<ibv_qp_type>(0xf1);

// A work request as it waits in a send queue: followed by Sge[num_sge] or by inline_length bytes.
struct SendWqe {
    std::uint64_t wr_id;
    std::uint64_t remote_address;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t rkey;
    std::uint32_t immediate;
    std::uint32_t length;
    std::uint32_t num_sge;
    std::uint32_t counter;
    std::uint32_t remote_qpn; // UD
    std::uint32_t qkey;
    std::uint32_t write_number; // of a deferred write, else of the latest before it
    std::uint64_t position;     // of a deferred write in the responder's CQ
    std::uint8_t opcode;
    std::uint8_t send_flags;
    Flag is_inline;
    Flag deferred;          // a WRITE left to the responder
    Status injected_status; // by fault injection, as the next two
    Flag cut_off;
    std::uint32_t delay_us;
};

// Why the head of a send queue waits.
enum class Wait : std::uint8_t { none, receiver_not_ready, unreachable, copier };

struct QpShared {
    // What peers look at, mostly without a lock: what is not atomic is set before the QP has a
    // number.
    alignas(64) std::atomic<std::uint32_t> number; // 0: no QP here
    std::atomic<std::uint32_t> destination;        // QP number
    std::atomic<std::uint8_t> state;               // written under the receive queue's lock
    std::uint8_t type;
    DeviceNumber device;
    Flag has_srq;
    std::atomic<bool> dropped; // unreachable by fault injection
    std::uint16_t epoch;       // changes when the QP is created, reset or destroyed
    std::uint16_t port_lid;
    std::uint32_t pd;
    std::atomic<std::uint64_t> dc_key; // a target's, or that of an initiator's present one
    std::atomic<std::uint32_t> access;
    std::atomic<std::uint32_t> qkey;
    std::uint32_t send_cq;
    std::uint32_t recv_cq;
    std::uint32_t recv_queue;
    std::atomic<std::uint8_t> min_rnr_timer;
    std::atomic<std::uint8_t> max_dest_rd_atomic;
    std::uint8_t sig_all;
    PipeRef events;

    // The send queue: under the lock, which any process may take to run the queue.
    alignas(64) SharedLock lock;
    Token peer_token; // resolved from destination; 0: not yet
    std::uint32_t peer_index;
    std::uint32_t sq_head; // oldest not retired
    std::uint32_t sq_next; // oldest not executed; those before wait for deferred WRITEs
    std::uint32_t sq_tail;
    std::uint32_t posted;                 // WRs ever posted
    std::atomic<std::uint32_t> reclaimed; // of these, seen complete by polling
    std::uint32_t max_send_wr;
    std::uint32_t max_send_sge;
    std::uint32_t max_inline;
    std::uint32_t sq_mask;
    std::uint16_t told_lid; // what receivers are told of a SEND's origin; 0, but of DC initiators
    std::uint32_t sq_stride;
    std::uint64_t sq_ring;       // offset in the arena
    std::uint32_t writes_issued; // deferred WRITEs
    std::uint32_t direct_writes; // to make before deferring is tried again
    std::uint32_t patience;      // polls that the oldest deferred WRITE may still wait
    Flag watched;                // by the owner's agent
    Flag deferring;              // listed at its send CQ
    Flag copying; // the owner's copier executes the head without the lock; nobody else runs the
                  // queue
    std::uint8_t idle_ticks;
    Wait wait;
    std::uint64_t waits_since; // monotonic ns, as all times here
    std::uint64_t deadline;    // of the wait; 0: none
    std::uint64_t send_ready;  // latest time of a completion
    std::uint64_t read_ready;  // of a READ or atomic alone
    std::uint64_t counts[4];   // sends, writes, reads, atomics
    std::uint64_t signaled;    // of these
    std::uint64_t doorbells;
    std::uint64_t bytes;
    std::atomic<std::uint8_t> timeout; // a fault sets it without the lock
    std::uint8_t retry_count;
    std::uint8_t rnr_retry;
    std::uint8_t max_rd_atomic;
    std::uint16_t destination_lid;
    std::uint8_t destination_gid[16];
    std::atomic<std::uint64_t> bytes_from_device;
    std::atomic<std::uint64_t> bytes_to_device;

    // The receiving side: the first four under the receive queue's lock.
    alignas(64) Flag peer_waiting;
    std::uint32_t cut_wqe;     // taken by a message that broke off; kNone: none
    std::uint32_t rnr_storm;   // so many messages still find no WQE, by fault injection
    std::uint64_t recv_ready;  // latest time of a completion
    std::uint8_t poller_takes; // messages up to this length, instead of their buffers; see Payload
    std::atomic<std::uint8_t> write_status; // of the first deferred WRITE that failed, else 0
    std::atomic<std::uint32_t> writes_applied;
};

// A copy between its device memory and a buffer in another process's arena that this one is asked
// for. Asker and owner take turns: it is pending while the tickets differ.
struct alignas(64) Staging {
    std::atomic<std::uint32_t> asked;
    std::atomic<std::uint32_t> answered;
    Token asker;
    std::uint32_t key; // of the region
    std::uint64_t address;
    std::uint64_t length;
    std::uint64_t buffer; // offset in the asker's arena
    Flag to_device;
    Flag done;
};

// How a port's wire is modelled; see wire.hpp.
struct PortModel {
    Flag is_on;
    std::uint64_t latency; // ns
    std::uint64_t femtoseconds_per_byte;
    std::uint64_t gap; // ns from the start of a message to the start of the next, at least
};

// An open device, for events that concern all of it.
struct ContextShared {
    PipeRef events;              // id 0: none open
    std::uint32_t device, ports; // this and the next ones are its ports
};

struct Arena {
    std::uint64_t magic;
    Token token;
    std::int32_t pid;
    std::uint32_t port_lid[kMaxDevices];
    std::uint8_t gids[kMaxDevices][4][16];
    char profiles[kMaxDevices][64]; // for show.cpp
    PortModel ports[kMaxDevices];
    alignas(64) std::atomic<std::uint32_t> doorbell; // wakes the agent, which sleeps on it
    // When the latest look for receives began that has ended; 0: they need none.
    alignas(64) std::atomic<std::uint64_t> looked;
    // How many operations each process has in progress directly on this process's memory.
    alignas(64) std::atomic<std::uint32_t> in_progress[kMaxProcesses];
    // For this process's copier: send queues that it is to run, and what others ask for. The counts
    // are futexes that change with each call.
    alignas(64) std::atomic<std::uint32_t> copy_calls;
    std::atomic<std::uint64_t> copies[kMaxQps / 64];
    alignas(64) std::atomic<std::uint32_t> staging_calls;
    Staging stagings[kMaxProcesses]; // by the asker's slot
    alignas(64) std::atomic<std::uint32_t> deregistrations;
    alignas(64) SharedLock windows_lock; // of binding to regions of this process
    SharedLock contexts_lock;
    ContextShared contexts[kMaxContexts];
    QpShared qps[kMaxQps];
    CqShared cqs[kMaxCqs];
    RqShared recv_queues[kMaxRecvQueues];
    MrShared mrs[kMaxMrs];
    alignas(4096) std::uint8_t heap[];

    // Any offset, be it nonsense, leads to somewhere behind the tables, as any index does to an
    // object in them.
    template <class T>
    T* at(std::uint64_t offset)
    {
        constexpr std::uint64_t inside = (kArenaSize - 1) & ~std::uint64_t{alignof(T) - 1};
        return reinterpret_cast<T*>(reinterpret_cast<std::uint8_t*>(this) +
                                    std::max<std::uint64_t>(offset & inside, sizeof(Arena)));
    }
    // An entry of an array at an offset.
    template <class T>
    T* at(std::uint64_t offset, std::uint64_t index)
    {
        return at<T>(offset + index * sizeof(T));
    }
    QpShared& qp(std::uint32_t index) { return qps[index % kMaxQps]; }
    CqShared& cq(std::uint32_t index) { return cqs[index % kMaxCqs]; }
    RqShared& recv_queue(std::uint32_t index) { return recv_queues[index % kMaxRecvQueues]; }
};

void FreeStack::push(Arena& arena, std::uint64_t links, std::uint32_t index)
{
    std::uint32_t head = pushed.load(std::memory_order_relaxed);
    do {
        *arena.at<std::uint32_t>(links, index) = head;
    } while (!pushed.compare_exchange_weak(head, index + 1, std::memory_order_release,
                                           std::memory_order_relaxed));
}

std::uint32_t FreeStack::pop(Arena& arena, std::uint64_t links)
{
    if (chain == 0) {
        chain = pushed.exchange(0, std::memory_order_acquire);
        if (chain == 0) {
            return kNone;
        }
    }
    const std::uint32_t index = chain - 1;
    chain = *arena.at<std::uint32_t>(links, index);
    return index;
}

// One process of the fabric. Its liveness thread holds the robust mutex as long as it lives.
struct ProcessSlot {
    std::atomic<Token> token; // 0: free
    std::uint32_t generation; // of the latest token
    std::int32_t pid;
    std::int32_t arena_fd;
    alignas(64) pthread_mutex_t alive;
};

// From when on a modelled port is free.
struct PortTraffic {
    alignas(64) std::atomic<std::uint64_t> sending;
    alignas(64) std::atomic<std::uint64_t> receiving;
};
// A UD QP attached to a multicast group; token 0 or of a dead process: free.
struct MulticastMember {
    Token token;
    std::uint32_t qp_number;
    std::uint8_t gid[16];
};
constexpr unsigned kMaxMulticastMembers = 1024;

struct Fabric {
    std::atomic<std::uint64_t> magic;
    alignas(64) SharedLock atomics; // serialises RDMA atomics: IBV_ATOMIC_HCA
    std::uint32_t next_number;
    alignas(64) std::atomic<std::uint64_t> down_until[kMaxDevices]; // ports, by fault injection
    PortTraffic traffic[kMaxDevices];
    alignas(64) SharedLock multicast_lock;
    MulticastMember multicast[kMaxMulticastMembers];
    ProcessSlot processes[kMaxProcesses];
    // token << 32 | tag << 16 | QP's index + 1 in its arena; 0 in the low half: free
    std::atomic<std::uint64_t> qp_numbers[kMaxQpNumbers];
};

} // namespace softhca
