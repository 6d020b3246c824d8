// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_fence: two operations on one word with a fence between them, on an endpoint that was made
// just before and so is not connected yet, and again on the connected one.
#include <cstdio>
#include <cstdlib>

#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

constexpr uint64_t kFeatures = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64;
constexpr uint64_t kInitial = 10;
constexpr unsigned kRounds = 5;

enum class Kind { kPut, kGet, kAdd, kFetchAdd };
struct Step {
    const char* name;
    Kind kind;
    size_t size;
};
constexpr Step kSteps[] = {
    {"put", Kind::kPut, 8},
    {"get", Kind::kGet, 8},
    {"32-bit add", Kind::kAdd, 4},
    {"64-bit add", Kind::kAdd, 8},
    {"32-bit fetch-and-add", Kind::kFetchAdd, 4},
    {"64-bit fetch-and-add", Kind::kFetchAdd, 8},
};

uint64_t left_by(const Step& step, uint64_t word)
{
    switch (step.kind) {
    case Kind::kPut:
        return word + 100;
    case Kind::kGet:
        return word;
    default:
        return word + 1;
    }
}

// The word at one worker, and an endpoint to it from another.
class Test {
  public:
    Test() : near_(kFeatures, false), far_(kFeatures, false) {}

    bool run(const Step& before, const Step& after)
    {
        ucp_ep_params_t params = {};
        const std::vector<uint8_t> address = far_.address();
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        ucp_ep_h ep = nullptr;
        require_ok(ucp_ep_create(near_.handle(), &params, &ep), "ucp_ep_create");
        bool good = true;
        {
            RemoteMemory remote(ep, exposed_.packed());
            for (const char* state : {"connecting", "connected"}) {
                good = pair(ep, remote, before, after, state) && good;
            }
        }
        InFlight closing(near_);
        closing.close(ep, false);
        wait(closing);
        return good;
    }

  private:
    bool pair(ucp_ep_h ep, const RemoteMemory& remote, const Step& before, const Step& after,
              const char* state)
    {
        word_.store(0, &kInitial, sizeof(kInitial));
        Place places[2];
        InFlight operations(near_);
        const uint64_t between = left_by(before, kInitial);
        start(operations, ep, remote, before, places[0], kInitial);
        require_ok(ucp_worker_fence(near_.handle()), "ucp_worker_fence");
        start(operations, ep, remote, after, places[1], between);
        operations.flush(ep);
        wait(operations);
        uint64_t left;
        word_.load(&left, 0, sizeof(left));
        const bool good = (!sees(before) || places[0].seen == kInitial) &&
                          (!sees(after) || places[1].seen == between) &&
                          left == left_by(after, between);
        if (!good) {
            std::printf("%s, fence, %s, %s: saw %llu and %llu, left %llu\n", before.name,
                        after.name, state, static_cast<unsigned long long>(places[0].seen),
                        static_cast<unsigned long long>(places[1].seen),
                        static_cast<unsigned long long>(left));
        }
        return good;
    }

    static bool sees(const Step& step)
    {
        return step.kind == Kind::kGet || step.kind == Kind::kFetchAdd;
    }

    static View view(uint64_t* word)
    {
        return {word, sizeof(*word), ucp_dt_make_contig(1), UCS_MEMORY_TYPE_HOST};
    }

    struct Place {
        uint64_t operand = 1;
        uint64_t seen = 0;
    };

    static void start(InFlight& operations, ucp_ep_h ep, const RemoteMemory& remote,
                      const Step& step, Place& place, uint64_t word)
    {
        switch (step.kind) {
        case Kind::kPut:
            place.operand = left_by(step, word);
            operations.put(ep, view(&place.operand), remote.address(0), remote.rkey());
            break;
        case Kind::kGet:
            operations.get(ep, view(&place.seen), remote.address(0), remote.rkey());
            break;
        case Kind::kAdd:
            operations.atomic(ep, UCP_ATOMIC_OP_ADD, &place.operand, nullptr, remote.address(0),
                              remote.rkey(), step.size);
            break;
        case Kind::kFetchAdd:
            operations.atomic(ep, UCP_ATOMIC_OP_ADD, &place.operand, &place.seen, remote.address(0),
                              remote.rkey(), step.size);
            break;
        }
    }

    void wait(InFlight& operations)
    {
        const bool in_time = near_.wait_for(
            [&] {
                ucp_worker_progress(far_.handle());
                return operations.outstanding() == 0;
            },
            std::chrono::seconds(deadline_s()));
        require(in_time, "operations do not complete");
        require_ok(operations.status(), "an operation");
    }

    Worker near_;
    Worker far_;
    Memory word_{MemoryKind::kHost, sizeof(uint64_t)};
    ExposedMemory exposed_{far_, word_};
};

} // namespace
} // namespace ucptest

int main()
{
    using namespace ucptest;
    Test test;
    unsigned cases = 0;
    unsigned failed = 0;
    for (unsigned round = 0; round < kRounds; ++round) {
        for (const Step& before : kSteps) {
            for (const Step& after : kSteps) {
                ++cases;
                failed += !test.run(before, after);
            }
        }
    }
    std::printf("%u cases, %u failed\n", cases, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
