// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The verbs objects that programs hold pointers to: libibverbs' structures extended by what this
// process keeps to itself. What peers need lies in the arena (layout.hpp), found by index.
#pragma once

#include "emu/softhca/fabric.hpp"
#include "emu/softhca/one_thread.hpp"
#include "emu/softhca/verbs_abi.hpp"

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <vector>

#include <unistd.h>

namespace softhca {

struct Pipe {
    int read_fd = -1;
    PipeRef write_end{};

    void open(); // throws std::system_error
    void close();
    // Whether it is the writing end of a pipe of this process, and not what else may have its
    // number.
    static bool is_open(PipeRef write_end);
};

struct Context {
    Process* process;
    unsigned device, ports;
    std::uint32_t index; // in Arena::contexts
    Pipe async;
    int command_fd;
    std::atomic<unsigned> children{0}; // PDs, CQs and channels
    verbs_context verbs;

    // softhca's devices have one port: each further one of another HCA's is the next device.
    bool has_port(unsigned port) const { return port >= 1 && port <= ports; }
    unsigned device_of(unsigned port) const { return device + port - 1; }

    void close()
    {
        async.close();
        ::close(command_fd);
    }
};

struct Pd {
    ibv_pd base;
    std::uint32_t id; // a parent domain's is that of its protection domain
    std::atomic<unsigned> children{0};
    Pd* protection = nullptr; // of a parent domain
    ibv_td* thread = nullptr;

    bool is_parent_domain() const { return protection != nullptr; }
    bool is_for_one_thread() const { return thread != nullptr; }
};

struct Mr {
    ibv_mr base;
    std::uint64_t locked;    // bytes counted against RLIMIT_MEMLOCK
    void* mapping = nullptr; // of device memory, or of what a fork has left the HCA
    std::size_t mapping_length = 0;
};

struct Channel {
    ibv_comp_channel base;
    Pipe pipe;
};

struct Cq {
    union {
        ibv_cq_ex extended; // begins with the fields of base
        ibv_cq base;
    };
    PrivateLock current_lock; // of the completion being read through the extended CQ
    ibv_wc current;
    Pd* parent_domain = nullptr;
    OneThread one_thread;
    std::uint32_t index;
    std::size_t ring_bytes;
    PrivateLock poll_lock;
    // The ring, without a look at what the producers write; under poll_lock to change.
    std::atomic<Cqe*> ring;
    std::uint32_t mask;
    std::atomic<std::uint32_t> empty_polls{0}; // in a row
    // The address of a variable of the thread that polled in vain last; kManyThreads from the
    // moment on that it was another one's.
    std::atomic<std::uintptr_t> empty_poller{0};
    static constexpr std::uintptr_t kManyThreads = 1;
    // Own QPs that complete here and wait for deferred writes.
    PrivateLock deferring_lock;
    std::vector<std::uint32_t> deferring;
    std::atomic<bool> is_deferring{false};
    std::uint32_t events_delivered = 0;
    std::uint32_t async_delivered = 0;
    bool has_lost_ring = false; // ResizeCq::frees_ring
    std::atomic<unsigned> children{0};
};

// A receive queue's share that stays in this process; the index is into Arena::recv_queues.
struct RecvQueue {
    std::uint32_t index;
    std::uint64_t offset = 0; // of its rings in the arena
    std::size_t bytes = 0;
};

struct Srq {
    ibv_srq base;
    RecvQueue queue;
    std::uint32_t pd;
    OneThread one_thread;
    std::uint32_t events_delivered = 0;
    std::atomic<unsigned> children{0};
    std::mutex mutex;                    // of attached
    std::vector<std::uint32_t> attached; // own QPs receiving from it
};

// The work requests between ibv_wr_start and ibv_wr_complete; the lists of all are in one.
struct WrBatch {
    std::mutex mutex;
    std::vector<ibv_send_wr> requests;
    std::vector<ibv_sge> sges;
    std::vector<std::uint8_t> inline_data;
    int error = 0;
};

struct Qp {
    union {
        ibv_qp_ex extended; // with functions if the program asked for them
        ibv_qp base;
    };
    WrBatch batch;
    OneThread one_thread;
    std::uint32_t index;
    RecvQueue queue; // its own, unless an SRQ serves
    std::uint64_t sq_offset = 0;
    std::size_t sq_bytes = 0;
    std::uint32_t fault_number; // enlist_qp's
    std::uint32_t events_delivered = 0;
    ibv_qp_cap cap;
    ibv_qp_attr attributes; // as modified, for ibv_query_qp
    Srq* srq;
};

struct Ah {
    ibv_ah base;
    ibv_ah_attr attributes;
};

inline Context& context_of(ibv_context* context)
{
    return *reinterpret_cast<Context*>(reinterpret_cast<char*>(context) - offsetof(Context, verbs) -
                                       offsetof(verbs_context, context));
}
template <class T, class Base>
T& object_of(Base* base)
{
    return *reinterpret_cast<T*>(base);
}

// Whether addresses of this kind can be used on the link layer of their port.
bool is_valid_address(const Context& context, const ibv_ah_attr& attributes);

// Where a queue pair's requests go; the caller has its lock.
void set_address(QpShared& shared, const ibv_ah_attr& address);

// Whether an address is that of an address handle of this process.
bool is_address_handle(std::uint64_t address);

// A forked child inherits its parent's objects as bytes only: they stand for nothing there.
inline bool is_stale(ibv_context* context)
{
    return context_of(context).process != Process::current();
}

// Waits until the application has acknowledged every event that it got for an object.
inline void await_acknowledged(pthread_mutex_t& mutex, pthread_cond_t& condition,
                               const std::uint32_t& acknowledged, const std::uint32_t& delivered)
{
    pthread_mutex_lock(&mutex);
    while (acknowledged != delivered) {
        pthread_cond_wait(&condition, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

} // namespace softhca
