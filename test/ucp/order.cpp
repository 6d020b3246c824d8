// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_order: what has to arrive in order, also where a large operation goes over several devices
// and one of them is down for a while: a put before the flag that follows a fence, and messages
// with one tag.
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/messages.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

constexpr size_t kPut = 8 << 20;
constexpr size_t kLarge = 1 << 20;
constexpr size_t kSmall = 8;
constexpr size_t kPairs = 8; // of a large message and a small one
constexpr unsigned kRounds = 8;
constexpr ucp_tag_t kTag = 3;

class Test {
  public:
    Test()
    {
        const std::vector<uint8_t> address = far_.address();
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        require_ok(ucp_ep_create(near_.handle(), &params, &ep_), "ucp_ep_create");
    }

    void puts()
    {
        const ExposedMemory target(far_, target_.memory());
        const ExposedMemory flag(far_, flag_);
        const RemoteMemory remote_target(ep_, target.packed());
        const RemoteMemory remote_flag(ep_, flag.packed());
        const auto* const seen = static_cast<const uint64_t*>(flag_.address());
        for (uint64_t round = 1; round <= kRounds; ++round) {
            source_.fill(seed_of({round}));
            target_.fill(0);
            InFlight operations(near_);
            operations.put(ep_, source_.view(0), remote_target.address(offset()),
                           remote_target.rkey());
            require_ok(ucp_worker_fence(near_.handle()), "ucp_worker_fence");
            operations.put(ep_,
                           {&round, sizeof(round), ucp_dt_make_contig(1), UCS_MEMORY_TYPE_HOST},
                           remote_flag.address(0), remote_flag.rkey());
            wait([&] { return __atomic_load_n(seen, __ATOMIC_ACQUIRE) == round; });
            const auto wrong = target_.difference(seed_of({round}));
            require(!wrong, "the flag was there before the put: " + wrong.value_or(""));
            operations.flush(ep_);
            finish(operations);
        }
    }

    void messages()
    {
        for (uint64_t round = 1; round <= kRounds; ++round) {
            large_out_.fill(seed_of({round, 1}));
            small_out_.fill(seed_of({round, 2}));
            large_in_.fill(0);
            small_in_.fill(0);
            InFlight operations(near_);
            InFlight receives(far_);
            for (size_t i = 0; i < kPairs; ++i) {
                receives.tag_receive(large_in_.view(i), kTag, kLarge);
                receives.tag_receive(small_in_.view(i), kTag, kSmall);
            }
            for (size_t i = 0; i < kPairs; ++i) {
                operations.tag_send(ep_, large_out_.view(i), kTag);
                operations.tag_send(ep_, small_out_.view(i), kTag);
            }
            finish(operations);
            finish(receives);
            const auto large = large_in_.difference(seed_of({round, 1}));
            const auto small = small_in_.difference(seed_of({round, 2}));
            require(!large, "a large message differs: " + large.value_or(""));
            require(!small, "a small message differs: " + small.value_or(""));
        }
    }

    void close()
    {
        InFlight closing(near_);
        closing.close(ep_, false);
        finish(closing);
    }

  private:
    size_t offset()
    {
        return static_cast<size_t>(static_cast<char*>(target_.address(0)) -
                                   static_cast<char*>(target_.memory().address()));
    }

    void wait(const std::function<bool()>& done)
    {
        near_.wait(
            [&] {
                ucp_worker_progress(far_.handle());
                return done();
            },
            "the operations");
    }

    void finish(InFlight& operations)
    {
        wait([&] { return operations.outstanding() == 0; });
        require_ok(operations.status(), "an operation");
    }

    static constexpr uint64_t kFeatures = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
    Worker near_{kFeatures, false};
    Worker far_{kFeatures, false};
    ucp_ep_h ep_ = nullptr;
    Messages source_{MemoryKind::kHost, kPut, 1, false};
    Messages target_{MemoryKind::kHost, kPut, 1, false};
    Memory flag_{MemoryKind::kHost, sizeof(uint64_t)};
    Messages large_out_{MemoryKind::kHost, kLarge, kPairs, false};
    Messages large_in_{MemoryKind::kHost, kLarge, kPairs, false};
    Messages small_out_{MemoryKind::kHost, kSmall, kPairs, false};
    Messages small_in_{MemoryKind::kHost, kSmall, kPairs, false};
};

int run()
{
    Report report("ucp_order");
    report.begin("start", deadline_s());
    Test test;
    report.begin("puts before a flag", deadline_s());
    test.puts();
    report.begin("messages with one tag", deadline_s());
    test.messages();
    report.begin("end", deadline_s());
    test.close();
    report.end();
    std::printf("%u cases, %u failed\n", report.cases(), report.failures());
    return report.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace
} // namespace ucptest

int main()
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    return ucptest::run();
}
