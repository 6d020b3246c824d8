// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The least that verbs take: a ping-pong and a rate loop on ibv_post_send and ibv_poll_cq and
// nothing else, between two processes. It prints what ucx_perftest -v prints last, and so is the
// limit that a transport is measured against.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "usage: verbs_loop [OPTION]... [SERVER]\n"
    "  -d DEVICE  name of the HCA (default: the first)\n"
    "  -p PORT    TCP port of the server (default 13338)\n"
    "  -t TEST    send_lat, write_lat: ping-pong; send_bw, write_bw: one direction (send_lat)\n"
    "  -s SIZE    bytes of a message (8)\n"
    "  -n COUNT   messages (10000)\n"
    "  -w COUNT   messages before, which do not count (1000)\n"
    "Without SERVER it is one, and waits for a client. The client prints iterations, median "
    "latency\n"
    "(the average: single messages are not timed), average and overall latency (us), average and\n"
    "overall bandwidth (MB/s), average and overall rate (messages/s), separated by commas.\n";

constexpr unsigned kDepth = 256;      // work requests under way
constexpr unsigned kSignalEvery = 64; // of them one is signaled, in the rate loop
constexpr unsigned kReceives = 1024;  // posted
constexpr unsigned kRefill = 64;      // posted at a time
constexpr unsigned kMostPolled = 32;

void require(bool holds, const char* what)
{
    if (!holds) {
        throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
    }
}

struct Options {
    std::string device, server, test = "send_lat";
    uint16_t port = 13338;
    size_t size = 8;
    uint64_t count = 10000, warm_up = 1000;

    bool write() const { return test.starts_with("write"); }
    bool ping_pong() const { return test.ends_with("lat"); }
};

Options parse(int argc, char** argv)
{
    Options options;
    for (int option; (option = getopt(argc, argv, "d:p:t:s:n:w:h")) != -1;) {
        switch (option) {
        case 'd':
            options.device = optarg;
            break;
        case 'p':
            options.port = static_cast<uint16_t>(std::stoul(optarg));
            break;
        case 't':
            options.test = optarg;
            break;
        case 's':
            options.size = std::stoul(optarg);
            break;
        case 'n':
            options.count = std::stoull(optarg);
            break;
        case 'w':
            options.warm_up = std::stoull(optarg);
            break;
        default:
            std::fputs(kUsage, option == 'h' ? stdout : stderr);
            std::exit(option == 'h' ? 0 : 2);
        }
    }
    if (optind < argc) {
        options.server = argv[optind];
    }
    const std::string tests[] = {"send_lat", "write_lat", "send_bw", "write_bw"};
    if (std::find(std::begin(tests), std::end(tests), options.test) == std::end(tests) ||
        options.size == 0) {
        std::fputs(kUsage, stderr);
        std::exit(2);
    }
    return options;
}

// ---- the other side, by TCP, until there is a connection

struct Address {
    uint32_t qp_number;
    uint16_t lid;
    uint8_t gid[16];
    uint32_t rkey;
    uint64_t buffer;
};

class Socket {
  public:
    explicit Socket(const Options& options)
    {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(options.port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        require(fd >= 0, "socket");
        if (options.server.empty()) {
            const int on = 1;
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
            require(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
            require(listen(fd, 1) == 0, "listen");
            fd_ = accept(fd, nullptr, nullptr);
            require(fd_ >= 0, "accept");
            close(fd);
        } else {
            require(inet_pton(AF_INET, options.server.c_str(), &address.sin_addr) == 1,
                    "an IPv4 address");
            require(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
                    "connect");
            fd_ = fd;
        }
    }
    ~Socket() { close(fd_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    template <typename T>
    T exchange(const T& own)
    {
        T other;
        require(send(fd_, &own, sizeof own, 0) == sizeof own, "send");
        require(recv(fd_, &other, sizeof other, MSG_WAITALL) == sizeof other, "the other side");
        return other;
    }
    void barrier() { exchange('b'); }

    // Whether the other side has said something.
    bool readable() const
    {
        char byte;
        return recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
    }

  private:
    int fd_;
};

// ---- a connection

class Connection {
  public:
    Connection(const Options& options, Socket& socket) : options_(options), socket_(socket)
    {
        open(options.device);
        pd_ = ibv_alloc_pd(context_);
        require(pd_ != nullptr, "ibv_alloc_pd");
        // What is sent from in the first half, what arrives in the second.
        buffer_.resize(2 * options.size);
        mr_ = ibv_reg_mr(pd_, buffer_.data(), buffer_.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        require(mr_ != nullptr, "ibv_reg_mr");
        send_cq_ = ibv_create_cq(context_, kDepth, nullptr, nullptr, 0);
        receive_cq_ = ibv_create_cq(context_, kReceives, nullptr, nullptr, 0);
        require(send_cq_ != nullptr && receive_cq_ != nullptr, "ibv_create_cq");
        ibv_qp_init_attr init = {};
        init.send_cq = send_cq_;
        init.recv_cq = receive_cq_;
        init.qp_type = IBV_QPT_RC;
        init.cap = {kDepth, kReceives, 1, 1, kInline};
        qp_ = ibv_create_qp(pd_, &init);
        require(qp_ != nullptr, "ibv_create_qp");
        connect();
    }
    // The process ends with it: the kernel takes the rest.

    bool is_inline() const { return options_.size <= kInline; }
    volatile char* sent() { return buffer_.data(); }
    volatile char* arrived() { return buffer_.data() + options_.size; }

    // Sends until now, and how many of them are known to be complete.
    uint64_t posted() const { return posted_; }
    uint64_t complete() const { return complete_; }

    void post(bool signaled)
    {
        while (posted_ - complete_ >= kDepth - 1) {
            poll_sent();
        }
        ibv_sge sge{reinterpret_cast<uintptr_t>(buffer_.data()),
                    static_cast<uint32_t>(options_.size), mr_->lkey};
        ibv_send_wr wr = {};
        wr.wr_id = ++posted_;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = options_.write() ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
        wr.send_flags = (signaled ? unsigned{IBV_SEND_SIGNALED} : 0u) |
                        (is_inline() ? unsigned{IBV_SEND_INLINE} : 0u);
        wr.wr.rdma.remote_addr = peer_.buffer + options_.size;
        wr.wr.rdma.rkey = peer_.rkey;
        ibv_send_wr* bad;
        require(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
    }

    void post_receives(unsigned count)
    {
        ibv_sge sge{reinterpret_cast<uintptr_t>(buffer_.data() + options_.size),
                    static_cast<uint32_t>(options_.size), mr_->lkey};
        ibv_recv_wr requests[kRefill];
        for (unsigned i = 0; i < count; ++i) {
            requests[i] = {0, i + 1 < count ? &requests[i + 1] : nullptr, &sge, 1};
        }
        ibv_recv_wr* bad;
        require(ibv_post_recv(qp_, requests, &bad) == 0, "ibv_post_recv");
    }

    void poll_sent()
    {
        ibv_wc completions[kMostPolled];
        if (const unsigned count = poll(send_cq_, completions); count > 0) {
            complete_ = completions[count - 1].wr_id;
        }
    }

    // How many messages arrived.
    unsigned poll_received()
    {
        ibv_wc completions[kMostPolled];
        const unsigned count = poll(receive_cq_, completions);
        taken_ += count;
        if (taken_ >= kRefill) {
            taken_ -= kRefill;
            post_receives(kRefill);
        }
        return count;
    }

  private:
    static constexpr uint32_t kInline = 128;

    void open(const std::string& name)
    {
        int count = 0;
        ibv_device** devices = ibv_get_device_list(&count);
        for (int i = 0; i < count && context_ == nullptr; ++i) {
            if (name.empty() || name == ibv_get_device_name(devices[i])) {
                context_ = ibv_open_device(devices[i]);
            }
        }
        require(context_ != nullptr, "no such HCA");
    }

    void connect()
    {
        ibv_port_attr port;
        ibv_gid gid;
        require(ibv_query_port(context_, 1, &port) == 0, "ibv_query_port");
        require(ibv_query_gid(context_, 1, 0, &gid) == 0, "ibv_query_gid");
        Address own{
            qp_->qp_num, port.lid, {}, mr_->rkey, reinterpret_cast<uintptr_t>(buffer_.data())};
        std::memcpy(own.gid, gid.raw, sizeof own.gid);
        peer_ = socket_.exchange(own);

        ibv_qp_attr attr = {};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        require(ibv_modify_qp(qp_, &attr,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                  IBV_QP_ACCESS_FLAGS) == 0,
                "INIT");
        for (unsigned posted = 0; posted < kReceives; posted += kRefill) {
            post_receives(kRefill);
        }
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = port.active_mtu;
        attr.dest_qp_num = peer_.qp_number;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 1;
        attr.ah_attr.dlid = peer_.lid;
        attr.ah_attr.port_num = 1;
        if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
            attr.ah_attr.is_global = 1;
            attr.ah_attr.grh.hop_limit = 64;
            std::memcpy(attr.ah_attr.grh.dgid.raw, peer_.gid, sizeof peer_.gid);
        }
        require(ibv_modify_qp(qp_, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER) == 0,
                "RTR");
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 18;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        require(ibv_modify_qp(qp_, &attr,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
                "RTS");
        socket_.barrier();
    }

    static unsigned poll(ibv_cq* cq, ibv_wc* completions)
    {
        const int count = ibv_poll_cq(cq, kMostPolled, completions);
        require(count >= 0, "ibv_poll_cq");
        for (int i = 0; i < count; ++i) {
            if (completions[i].status != IBV_WC_SUCCESS) {
                throw std::runtime_error(ibv_wc_status_str(completions[i].status));
            }
        }
        return static_cast<unsigned>(count);
    }

    const Options& options_;
    Socket& socket_;
    ibv_context* context_ = nullptr;
    ibv_pd* pd_ = nullptr;
    ibv_mr* mr_ = nullptr;
    ibv_cq* send_cq_ = nullptr;
    ibv_cq* receive_cq_ = nullptr;
    ibv_qp* qp_ = nullptr;
    Address peer_{};
    std::vector<char> buffer_;
    unsigned taken_ = 0; // receives, since some were posted last
    uint64_t posted_ = 0, complete_ = 0;
};

// ---- the tests

class Loop {
  public:
    Loop(const Options& options, Connection& connection, const Socket& socket)
        : options_(options), connection_(connection), socket_(socket),
          client_(!options.server.empty())
    {
    }

    void run(uint64_t count)
    {
        if (options_.ping_pong()) {
            ping_pong(count);
        } else if (client_) {
            stream(count);
        } else if (!options_.write()) {
            for (uint64_t received = 0; received < count;) {
                received += connection_.poll_received();
            }
        } else {
            // The emulated HCA lands some WRITEs when its owner polls.
            while (!socket_.readable()) {
                for (unsigned i = 0; i < kPolls; ++i) {
                    connection_.poll_received();
                }
            }
        }
    }

  private:
    void ping_pong(uint64_t count)
    {
        for (uint64_t i = 0; i < count; ++i) {
            if (client_) {
                ping();
            }
            await();
            if (!client_) {
                ping();
            }
        }
    }

    void ping()
    {
        ++round_;
        connection_.sent()[options_.size - 1] = static_cast<char>(round_);
        connection_.post(connection_.posted() % kSignalEvery == 0);
    }

    // RDMA WRITEs are noticed by their last byte.
    void await()
    {
        if (!options_.write()) {
            while (connection_.poll_received() == 0) {
            }
            return;
        }
        const char expected = static_cast<char>(client_ ? round_ : round_ + 1);
        while (connection_.arrived()[options_.size - 1] != expected) {
            // The emulated HCA lands some WRITEs when its owner polls; a real one needs none.
            connection_.poll_received();
        }
    }

    void stream(uint64_t count)
    {
        for (uint64_t i = 1; i <= count; ++i) {
            connection_.post(i % kSignalEvery == 0 || i == count);
        }
        while (connection_.complete() != connection_.posted()) {
            connection_.poll_sent();
        }
    }

    static constexpr unsigned kPolls = 1000; // before the other side is listened to

    const Options& options_;
    Connection& connection_;
    const Socket& socket_;
    const bool client_;
    unsigned round_ = 0;
};

double seconds_of(Loop& loop, uint64_t count)
{
    const auto start = Clock::now();
    loop.run(count);
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void print(const Options& options, double seconds)
{
    const double count = static_cast<double>(options.count);
    const double latency = seconds / count / (options.ping_pong() ? 2 : 1) * 1e6;
    const double rate = count / seconds;
    const double bandwidth = rate * static_cast<double>(options.size) / (1 << 20);
    std::printf("%llu,%.3f,%.3f,%.3f,%.2f,%.2f,%.0f,%.0f\n",
                static_cast<unsigned long long>(options.count), latency, latency, latency,
                bandwidth, bandwidth, rate, rate);
}

void run(const Options& options)
{
    Socket socket(options);
    Connection connection(options, socket);
    Loop loop(options, connection, socket);
    loop.run(options.warm_up);
    socket.barrier();
    const double seconds = seconds_of(loop, options.count);
    if (!options.server.empty()) {
        print(options, seconds);
    }
    socket.barrier();
}

} // namespace

int main(int argc, char** argv)
{
    try {
        run(parse(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "verbs_loop: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
