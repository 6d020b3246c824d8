// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the tests of softhca share: a device opened through plain libibverbs, queue pairs with a
// buffer each, completions awaited with a time limit, and child processes to talk to.
#pragma once

#include "emu/softhca/softhca.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/types.h>

// The counters of this process.
struct softhca_counters counters();

struct Device {
    explicit Device(unsigned index = 0);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    ibv_context* context;
    ibv_pd* pd;
};

constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// What one side tells the other before they connect.
struct Address {
    std::uint32_t qp_number;
    std::uint16_t lid;
    ibv_gid gid;
    std::uint64_t buffer;
    std::uint32_t rkey;
};

struct Options {
    ibv_qp_type type = IBV_QPT_RC;
    std::size_t buffer_size = 1 << 20;
    unsigned queue_depth = 64;
    unsigned sge = 4;
    int sig_all = 0;
    int rnr_retry = 7;
    int min_rnr_timer = 12; // 0.64 ms
    int timeout = 12;       // 16.8 ms
    int retry_count = 3;
    int access = kAllAccess;
    int rd_atomic = 1;
    ibv_srq* srq = nullptr;
    ibv_comp_channel* channel = nullptr;
};

// The next completion; fails the test and returns a status of -1 after twenty seconds.
ibv_wc next_of(ibv_cq* cq);

// A connected queue pair with a completion queue and a registered buffer.
class Endpoint {
  public:
    explicit Endpoint(Device& device, const Options& options = {});
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    Address address() const;
    void connect(const Address& peer);
    int to_rtr(const Address& peer);
    int to_rts();
    int to_error();

    // Work requests on the endpoint's own buffer; the result is ibv_post_*'s.
    int post_receive(std::size_t offset, std::uint32_t length, std::uint64_t id = 0);
    int post_send(std::size_t offset, std::uint32_t length, std::uint64_t id = 0,
                  unsigned flags = IBV_SEND_SIGNALED);
    int post_rdma(ibv_wr_opcode opcode, std::size_t offset, std::uint32_t length,
                  std::uint64_t remote, std::uint32_t rkey, std::uint64_t id = 0,
                  unsigned flags = IBV_SEND_SIGNALED);
    int post_atomic(ibv_wr_opcode opcode, std::size_t offset, std::uint64_t remote,
                    std::uint32_t rkey, std::uint64_t compare_add, std::uint64_t swap = 0);
    int post(ibv_send_wr& wr);
    // Of any registered memory.
    int post(ibv_wr_opcode opcode, ibv_sge list, std::uint64_t remote = 0, std::uint32_t rkey = 0,
             std::uint64_t id = 0, unsigned flags = IBV_SEND_SIGNALED);
    ibv_sge sge(std::size_t offset, std::uint32_t length) const;

    ibv_wc next(); // of its completion queue
    // Whether the completion queue is and stays empty for a moment.
    bool is_idle();
    ibv_qp_state state();

    Device& device;
    Options options;
    std::vector<unsigned char> buffer;
    ibv_mr* mr;
    ibv_cq* cq;
    ibv_qp* qp;

  private:
    struct Reset {}; // before INIT: what fails from then on leaves nothing behind
    Endpoint(Device& device, const Options& options, Reset);
};

void connect(Endpoint& a, Endpoint& b);

// Bytes that depend on their place and a seed.
void fill(unsigned char* data, std::size_t size, unsigned seed);
bool is_filled(const unsigned char* data, std::size_t size, unsigned seed);

// The asynchronous event that comes within five seconds; acknowledged. -1: none came.
int next_event(ibv_context* context);

// A forked process running a function, with a channel of bytes to it.
class Child {
  public:
    class Link {
      public:
        explicit Link(int fd) : fd_(fd) {}
        template <class T>
        void put(const T& value)
        {
            write(&value, sizeof value);
        }
        template <class T>
        T get()
        {
            T value{};
            read(&value, sizeof value);
            return value;
        }

      private:
        void write(const void* data, std::size_t size);
        void read(void* data, std::size_t size);
        int fd_;
    };

    explicit Child(const std::function<void(Link&)>& body);
    ~Child();
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    Link& link() { return link_; }
    void kill();
    // It is dead, but its parent has not asked how it ended: its pid is still in use.
    void leave_zombie();
    // Waits until it has died by itself.
    void await_death();
    // Waits for the end; the test fails unless the body passed.
    void join();

  private:
    Child(int parent_fd, int child_fd, const std::function<void(Link&)>& body);
    pid_t pid_;
    int fd_;
    Link link_;
};

// Connects an endpoint to one of the process at the other end.
Address meet(Child::Link& link, Endpoint& endpoint);

// Runs tests of this program in a process and on a fabric of their own, with more in the
// environment (a name alone: without that variable); returns whether they passed. The tests' names
// begin with DISABLED_.
bool run_tests(const std::string& filter, const std::vector<std::string>& environment);
