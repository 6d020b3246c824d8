// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What many endpoints of one worker cost: the time to connect them, latency and rate of active
// messages over all of them in turn, memory for each. The peer is one process, whose worker they
// all reach; each has a connection of its own.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "processors.hpp"

#include "../ucp/support/failure.hpp"
#include "../ucp/support/ranks.hpp"
#include "../ucp/support/report.hpp"
#include "../ucp/support/worker.hpp"

namespace ucptest {
namespace {

constexpr const char* kUsage =
    "usage: ucp_peers ENDPOINTS [COUNT]\n"
    "COUNT (20000): messages of 8 bytes there and back, and then in one direction.\n"
    "Prints words NAME=NUMBER: endpoints, connect_us for each (from the first to the last "
    "answer),\n"
    "latency_us, rate (messages a second), memory_kib for each in the process, shared_kib for "
    "each\n"
    "in memory that it shares (the emulated HCA's queues), and resident_kib: all of both that the\n"
    "process has then, with what was there before the first.\n";

constexpr unsigned kPing = 1, kPong = 2, kData = 3;
constexpr size_t kSize = 8;

struct Memory {
    long anonymous_kib, shared_kib;
};

Memory memory()
{
    Memory result{};
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("RssAnon:")) {
            result.anonymous_kib = std::stol(line.substr(8));
        }
        if (line.starts_with("RssShmem:")) {
            result.shared_kib = std::stol(line.substr(9));
        }
    }
    return result;
}

double seconds_since(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

class Side {
  public:
    explicit Side(Ranks& ranks) : ranks_(ranks), worker_(UCP_FEATURE_AM, false)
    {
        worker_.handle_am(
            kPing,
            [](void* self, const void*, size_t, void*, size_t, const ucp_am_recv_param_t* param) {
                static_cast<Side*>(self)->send(param->reply_ep, kPong, 0);
                return UCS_OK;
            },
            this);
        worker_.handle_am(kPong, count, this);
        worker_.handle_am(kData, count, this);
    }

    void serve(uint64_t data)
    {
        exchange();
        worker_.wait([&] { return received_ == data; }, "the messages of the client");
        ranks_.send(0, {});
        ranks_.receive(0, worker_, "the client's end");
    }

    void measure(size_t endpoints, uint64_t messages)
    {
        const Bytes server = exchange();
        const Memory before = memory();
        auto start = Clock::now();
        connect(server, endpoints);
        const double connecting = seconds_since(start);
        const Memory after = memory();

        round_trips(endpoints); // each has sent, now
        start = Clock::now();
        round_trips(messages);
        const double latency = seconds_since(start) / static_cast<double>(messages) / 2;

        start = Clock::now();
        for (uint64_t i = 0; i < messages; ++i) {
            send(endpoints_[i % endpoints], kData, 0);
        }
        flush();
        ranks_.receive(1, worker_, "the server has all");
        const double streaming = seconds_since(start);

        const auto each = static_cast<double>(endpoints);
        std::printf("endpoints=%zu connect_us=%.1f latency_us=%.3f rate=%.0f memory_kib=%.1f "
                    "shared_kib=%.1f resident_kib=%ld\n",
                    endpoints, connecting / each * 1e6, latency * 1e6,
                    static_cast<double>(messages) / streaming,
                    static_cast<double>(after.anonymous_kib - before.anonymous_kib) / each,
                    static_cast<double>(after.shared_kib - before.shared_kib) / each,
                    after.anonymous_kib + after.shared_kib);
        std::fflush(stdout);
        ranks_.send(1, {});
    }

  private:
    Bytes exchange()
    {
        const int peer = 1 - ranks_.rank();
        ranks_.send(peer, worker_.address());
        return ranks_.receive(peer, worker_, "the address of the peer");
    }

    static ucs_status_t count(void* self, const void*, size_t, void*, size_t,
                              const ucp_am_recv_param_t*)
    {
        ++static_cast<Side*>(self)->received_;
        return UCS_OK;
    }

    // All at once, as an MPI's start-up would; then each is waited for.
    void connect(const Bytes& server, size_t endpoints)
    {
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(server.data());
        endpoints_.resize(endpoints);
        for (ucp_ep_h& ep : endpoints_) {
            require_ok(ucp_ep_create(worker_.handle(), &params, &ep), "ucp_ep_create");
        }
        const uint64_t before = received_;
        for (ucp_ep_h ep : endpoints_) {
            send(ep, kPing, UCP_AM_SEND_FLAG_REPLY);
        }
        worker_.wait([&] { return received_ - before == endpoints; }, "connections");
    }

    void round_trips(uint64_t count)
    {
        for (uint64_t i = 0; i < count; ++i) {
            const uint64_t before = received_;
            send(endpoints_[i % endpoints_.size()], kPing, UCP_AM_SEND_FLAG_REPLY);
            while (received_ == before) {
                ucp_worker_progress(worker_.handle());
            }
        }
    }

    void send(ucp_ep_h ep, unsigned id, uint32_t flags)
    {
        ucp_request_param_t param = {};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK;
        param.flags = flags;
        param.cb.send = [](void* request, ucs_status_t, void*) { ucp_request_free(request); };
        const ucs_status_ptr_t request =
            ucp_am_send_nbx(ep, id, nullptr, 0, data_, sizeof(data_), &param);
        if (UCS_PTR_IS_ERR(request)) {
            require_ok(UCS_PTR_STATUS(request), "ucp_am_send_nbx");
        }
    }

    void flush()
    {
        const ucp_request_param_t param = {};
        const ucs_status_ptr_t request = ucp_worker_flush_nbx(worker_.handle(), &param);
        if (request == nullptr) {
            return;
        }
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(worker_.handle());
        }
        ucp_request_free(request);
    }

    Ranks& ranks_;
    Worker worker_;
    std::vector<ucp_ep_h> endpoints_;
    uint64_t received_ = 0;
    char data_[kSize] = {};
};

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    using namespace ucptest;
    if (argc < 2 || argc > 3 || std::atol(argv[1]) < 1) {
        std::fputs(kUsage, stderr);
        return 2;
    }
    const auto endpoints = static_cast<size_t>(std::atol(argv[1]));
    const uint64_t messages = argc > 2 ? std::stoull(argv[2]) : 20000;
    Ranks ranks(2);
    keep_to_own_processor(ranks.rank());
    Report report(format("rank %d", ranks.rank()));
    report.begin("endpoints", 600);
    Side side(ranks);
    if (ranks.rank() == 0) {
        side.measure(endpoints, messages);
    } else {
        side.serve(messages);
    }
    report.end();
    std::_Exit(0); // the other side closes nothing either: that is not what is measured
}
