// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_rights send|put|get: a program sends from host memory without a copy, puts from it, or gets
// into it. A peer that then guesses the HCA's key of that memory tries to write to it and to read
// it, and must not be able to.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/next_verbs.hpp"
#include "support/protocols.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

// The registrations of this process.
struct Registration {
    uintptr_t start;
    uintptr_t end;
    uint32_t rkey;
};
std::mutex lock;
std::vector<Registration> registrations;

void note(const ibv_mr* mr)
{
    const std::lock_guard guard(lock);
    if (mr) {
        registrations.push_back({reinterpret_cast<uintptr_t>(mr->addr),
                                 reinterpret_cast<uintptr_t>(mr->addr) + mr->length, mr->rkey});
    }
}

// Of the last registration that covers the memory.
std::optional<uint32_t> key_of(const void* address, size_t length)
{
    const std::lock_guard guard(lock);
    const auto start = reinterpret_cast<uintptr_t>(address);
    for (auto it = registrations.rbegin(); it != registrations.rend(); ++it) {
        if (it->start <= start && start + length <= it->end) {
            return it->rkey;
        }
    }
    return std::nullopt;
}

} // namespace
} // namespace ucptest

// In the place of those that the module calls.
#undef ibv_reg_mr
extern "C" {
[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length,
                                                  int access)
{
    static const auto next = ucptest::next_verb<decltype(ibv_reg_mr)>("ibv_reg_mr");
    ibv_mr* mr = next(pd, address, length, access);
    ucptest::note(mr);
    return mr;
}

[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length,
                                                        uint64_t iova, unsigned access)
{
    static const auto next = ucptest::next_verb<decltype(ibv_reg_mr_iova2)>("ibv_reg_mr_iova2");
    ibv_mr* mr = next(pd, address, length, iova, access);
    ucptest::note(mr);
    return mr;
}
}

namespace ucptest {
namespace {

constexpr uint64_t kFeatures = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
constexpr size_t kLength = 64 << 10;
constexpr size_t kOffset = 256 << 10; // in memory of its own: registrations are of whole pages
constexpr size_t kSpace = 1 << 20;

class Test {
  public:
    void run(const std::string& use)
    {
        const std::vector<char> bytes(kLength, 'v');
        own_.store(kOffset, bytes.data(), kLength);
        if (use == "get" && !gets_use_the_hca()) {
            return;
        }
        if (use == "send") {
            send();
        } else {
            reach(use == "put");
        }
        const auto key = key_of(own_.address(kOffset), kLength);
        require(key.has_value(), "the memory was not registered");
        attack(*key, true);
        if (gets_use_the_hca()) {
            attack(*key, false);
        }
        std::vector<char> left(kLength);
        own_.load(left.data(), kOffset, kLength);
        require(left == bytes, "the memory has changed");
    }

  private:
    static View view(const Memory& memory)
    {
        return {memory.address(kOffset), kLength, ucp_dt_make_contig(1), UCS_MEMORY_TYPE_HOST};
    }

    // Of an endpoint from one worker to the other; its errors go to error_.
    ucp_ep_h connect(Worker& from, Worker& to)
    {
        error_ = UCS_OK;
        const std::vector<uint8_t> address = to.address();
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
            static_cast<Test*>(self)->error_ = status;
        };
        params.err_handler.arg = this;
        ucp_ep_h ep = nullptr;
        require_ok(ucp_ep_create(from.handle(), &params, &ep), "ucp_ep_create");
        return ep;
    }

    void finish(InFlight& operations, const char* what)
    {
        require(complete_between(operations, user_, peer_, std::chrono::seconds(deadline_s())),
                std::string(what) + " does not complete");
    }

    void close(Worker& worker, ucp_ep_h ep)
    {
        InFlight closing(worker);
        closing.close(ep, true);
        finish(closing, "closing");
    }

    void send()
    {
        const ucp_ep_h ep = connect(user_, peer_);
        InFlight sending(user_), receiving(peer_);
        receiving.tag_receive(view(peers_), 1, kLength);
        sending.tag_send(ep, view(own_), 1);
        finish(sending, "the send");
        finish(receiving, "the receive");
        require_ok(sending.status(), "the send");
        require_ok(receiving.status(), "the receive");
        close(user_, ep);
    }

    void reach(bool put)
    {
        const ucp_ep_h ep = connect(user_, peer_);
        const std::vector<char> bytes(kLength, 'v');
        peers_.store(kOffset, bytes.data(), kLength);
        {
            const ExposedMemory exposed(peer_, peers_);
            const RemoteMemory remote(ep, exposed.packed());
            InFlight operations(user_);
            if (put) {
                operations.put(ep, view(own_), remote.address(kOffset), remote.rkey());
            } else {
                operations.get(ep, view(own_), remote.address(kOffset), remote.rkey());
            }
            operations.flush(ep);
            finish(operations, "the transfer");
            require_ok(operations.status(), "the transfer");
        }
        close(user_, ep);
    }

    // With a key that the user gave for other memory, and the guessed one put into it.
    void attack(uint32_t key, bool put)
    {
        const ExposedMemory window(user_, window_);
        std::vector<uint8_t> packed = window.packed_rkey();
        const auto known = key_of(window_.address(), kSpace);
        require(known.has_value(), "the window was not registered");
        bool forged = false;
        for (size_t i = 0; i + sizeof(key) <= packed.size(); ++i) {
            if (std::memcmp(&packed[i], &*known, sizeof(key)) == 0) {
                std::memcpy(&packed[i], &key, sizeof(key));
                forged = true;
            }
        }
        require(forged, "the packed key does not hold the HCA's");

        const ucp_ep_h ep = connect(peer_, user_);
        ucp_rkey_h rkey = nullptr;
        require_ok(ucp_ep_rkey_unpack(ep, packed.data(), &rkey), "ucp_ep_rkey_unpack");
        InFlight operations(peer_);
        const auto target = reinterpret_cast<uint64_t>(own_.address(kOffset));
        if (put) {
            operations.put(ep, view(peers_), target, rkey);
        } else {
            operations.get(ep, view(peers_), target, rkey);
        }
        operations.flush(ep);
        finish(operations, "the attack");
        require(operations.status() != UCS_OK || error_ != UCS_OK,
                std::string("a peer can ") + (put ? "write to" : "read") + " the memory");
        ucp_rkey_destroy(rkey);
        close(peer_, ep);
    }

    Worker user_{kFeatures, false};
    Worker peer_{kFeatures, false};
    Memory own_{MemoryKind::kHost, kSpace};
    Memory window_{MemoryKind::kHost, kSpace};
    Memory peers_{MemoryKind::kHost, kSpace};
    ucs_status_t error_ = UCS_OK;
};

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    const std::string use = argc > 1 ? argv[1] : "send";
    ucptest::Report report("rights");
    report.begin(use, 4 * ucptest::deadline_s());
    try {
        ucptest::Test().run(use);
    } catch (const ucptest::Failure& failure) {
        report.failed(failure.what());
    }
    report.end();
    return report.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
