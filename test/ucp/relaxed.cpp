// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_relaxed host|cuda some|none: two workers exchange messages without a copy, and put, get and
// add to each other's memory. Each of the two memories then has some registrations with relaxed
// ordering of PCIe, or none, and no peer can write by one of these. What the transport has
// registered for itself has none.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "support/cuda.hpp"
#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/next_verbs.hpp"
#include "support/protocols.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

// The registrations of this process with relaxed ordering.
struct Relaxed {
    uintptr_t start;
    uintptr_t end;
    unsigned access;
};
std::mutex lock;
std::vector<Relaxed> registrations;

ibv_mr* noted(ibv_mr* mr, uintptr_t start, size_t length, unsigned access)
{
    const std::lock_guard guard(lock);
    if (mr != nullptr && (access & IBV_ACCESS_RELAXED_ORDERING) != 0) {
        registrations.push_back({start, start + length, access});
    }
    return mr;
}

} // namespace
} // namespace ucptest

// In the place of those that the module calls.
#undef ibv_reg_mr
extern "C" {
[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length,
                                                        uint64_t iova, unsigned access)
{
    static const auto real = ucptest::next_verb<decltype(ibv_reg_mr_iova2)>("ibv_reg_mr_iova2");
    return ucptest::noted(real(pd, address, length, iova, access),
                          reinterpret_cast<uintptr_t>(address), length, access);
}

[[gnu::visibility("default")]] ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length,
                                                         uint64_t iova, int fd, int access)
{
    static const auto real = ucptest::next_verb<decltype(ibv_reg_dmabuf_mr)>("ibv_reg_dmabuf_mr");
    return ucptest::noted(real(pd, offset, length, iova, fd, access), iova, length,
                          static_cast<unsigned>(access));
}
}

namespace ucptest {
namespace {

constexpr uint64_t kFeatures = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
constexpr size_t kLength = 1 << 20;

class Test {
  public:
    explicit Test(MemoryKind kind) : own_(kind, kLength), peers_(kind, kLength) {}

    void run(bool expected)
    {
        const ucp_ep_h ep = connect();
        {
            const std::lock_guard guard(lock);
            require(registrations.empty(), "the transport's own buffers are relaxed");
        }
        const std::vector<char> first(kLength, 'm'), second(kLength, 'g');
        own_.store(0, first.data(), kLength);
        send(ep);
        expect(peers_, first, "the message");
        peers_.store(0, second.data(), kLength);
        reach(ep);
        expect(own_, second, "the get");
        check(expected);
        InFlight closing(user_);
        closing.close(ep, false);
        finish(closing, "closing");
    }

  private:
    static View view(const Memory& memory)
    {
        return {memory.address(), kLength, ucp_dt_make_contig(1), ucs_type(memory.kind())};
    }

    ucp_ep_h connect()
    {
        const std::vector<uint8_t> address = peer_.address();
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        ucp_ep_h ep = nullptr;
        require_ok(ucp_ep_create(user_.handle(), &params, &ep), "ucp_ep_create");
        InFlight connecting(user_);
        connecting.flush(ep);
        finish(connecting, "connecting");
        return ep;
    }

    void finish(InFlight& operations, const char* what)
    {
        require(complete_between(operations, user_, peer_, std::chrono::seconds(deadline_s())),
                std::string(what) + " does not complete");
        require_ok(operations.status(), what);
    }

    void send(ucp_ep_h ep)
    {
        InFlight sending(user_), receiving(peer_);
        receiving.tag_receive(view(peers_), 1, kLength);
        sending.tag_send(ep, view(own_), 1);
        finish(sending, "the send");
        finish(receiving, "the receive");
    }

    void reach(ucp_ep_h ep)
    {
        const ExposedMemory exposed(peer_, peers_);
        const RemoteMemory remote(ep, exposed.packed());
        InFlight operations(user_);
        operations.get(ep, view(own_), remote.address(0), remote.rkey());
        operations.flush(ep);
        finish(operations, "the get");
        operations.put(ep, view(own_), remote.address(0), remote.rkey());
        require_ok(ucp_worker_fence(user_.handle()), "ucp_worker_fence");
        const uint64_t one = 1;
        operations.atomic(ep, UCP_ATOMIC_OP_ADD, &one, nullptr, remote.address(0), remote.rkey());
        operations.flush(ep);
        finish(operations, "the put and the atomic");
    }

    static void expect(const Memory& memory, const std::vector<char>& bytes, const char* what)
    {
        std::vector<char> found(kLength);
        memory.load(found.data(), 0, kLength);
        require(found == bytes, std::string(what) + " has brought something else");
    }

    void check(bool expected)
    {
        const std::lock_guard guard(lock);
        constexpr unsigned kWrites = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        bool found[2] = {};
        for (const Relaxed& one : registrations) {
            const auto lies_in = [&](const Memory& memory) {
                const auto start = reinterpret_cast<uintptr_t>(memory.address());
                return one.start < start + kLength && start < one.end;
            };
            const bool own = lies_in(own_), peers = lies_in(peers_);
            require((one.access & kWrites) == 0, "peers can write with relaxed ordering");
            found[0] = found[0] || own;
            found[1] = found[1] || peers;
        }
        require(expected || registrations.empty(), "there are some");
        for (const bool any : found) {
            require(any == expected, "there are none");
        }
    }

    Worker user_{kFeatures, false};
    Worker peer_{kFeatures, false};
    Memory own_;
    Memory peers_;
};

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    const std::string kind = argc > 1 ? argv[1] : "host", any = argc > 2 ? argv[2] : "some";
    ucptest::Report report("relaxed");
    report.begin(kind + " " + any, 4 * ucptest::deadline_s());
    try {
        ucptest::require(kind == "host" || ucptest::cuda::available(0), "there is no GPU");
        ucptest::Test(ucptest::memory_kind(kind)).run(any == "some");
    } catch (const ucptest::Failure& failure) {
        report.failed(failure.what());
    }
    report.end();
    return report.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
