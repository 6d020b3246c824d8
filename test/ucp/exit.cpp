// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_exit: the process ends, the CUDA driver has gone already, and somebody still communicates, as
// objects do that are destroyed last. Host memory is transferred as ever, and device memory is not
// taken for it.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <unistd.h>

#include "support/cuda.hpp"
#include "support/emulation.hpp"
#include "support/endpoints.hpp"
#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/messages.hpp"
#include "support/report.hpp"

namespace ucptest {
namespace {

constexpr size_t kSizes[] = {8, 4096, 65536, 1 << 20};

class Test {
  public:
    explicit Test(Ranks& ranks)
        : ranks_(ranks), report_(format("rank %d", ranks.rank())),
          worker_(UCP_FEATURE_TAG | UCP_FEATURE_RMA, false),
          endpoints_(ranks, worker_, Endpoints::Connect::kWorkerAddress, false),
          device_(MemoryKind::kCuda, 4096, 1, false)
    {
        device_.fill(1);
    }

    // Both ranks exchange a message of every size.
    void exchange(const char* when, MemoryKind kind)
    {
        const int peer = 1 - ranks_.rank();
        for (size_t size : kSizes) {
            report_.begin(format("%s: %s, %zu bytes", when, name(kind), size), 2 * deadline_s());
            Messages out(kind, size, 1, false), in(kind, size, 1, false);
            out.fill(size + static_cast<uint64_t>(ranks_.rank()));
            in.fill(0);
            InFlight operations(worker_);
            operations.tag_receive(in.view(0), tag_, size);
            operations.tag_send(endpoints_.to(peer), out.view(0), tag_);
            operations.wait("the exchange");
            ++tag_;
            if (const auto wrong = in.difference(size + static_cast<uint64_t>(peer))) {
                throw Failure(*wrong);
            }
            ranks_.barrier(worker_, "both are done");
        }
    }

    // With the driver gone nobody can tell whose memory it is, but that it is not the host's.
    void map_device_memory()
    {
        report_.begin("at the end: device memory", deadline_s());
        ucp_mem_map_params_t params = {};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = device_.address(0);
        params.length = device_.size();
        ucp_mem_h handle = nullptr;
        if (ucp_mem_map(worker_.context(), &params, &handle) != UCS_OK) {
            return;
        }
        ucp_mem_attr_t attributes = {};
        attributes.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE;
        require_ok(ucp_mem_query(handle, &attributes), "ucp_mem_query");
        require(attributes.mem_type != UCS_MEMORY_TYPE_HOST, "it was mapped as host memory");
        require_ok(ucp_mem_unmap(worker_.context(), handle), "ucp_mem_unmap");
    }

    void end() { report_.end(); }
    unsigned failures() const { return report_.failures(); }

  private:
    Ranks& ranks_;
    Report report_;
    Worker worker_;
    Endpoints endpoints_;
    Messages device_;
    ucp_tag_t tag_ = 0;
};

Ranks* ranks;
Test* test; // never destroyed: the process ends in its use

void at_the_end()
{
    try {
        if (test == nullptr) {
            return;
        }
        test->exchange("at the end", MemoryKind::kHost);
        if (Emulation().has_driver()) { // another driver may go later
            test->map_device_memory();
        }
        test->end();
    } catch (const std::exception& error) {
        std::printf("rank %d: %s\n", ranks->rank(), error.what());
        std::fflush(stdout);
        _exit(EXIT_FAILURE);
    }
    const int failed = ranks->rank() == 0 ? ranks->join() : 0;
    std::fflush(stdout);
    _exit(failed == 0 && test->failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

int run()
{
    std::atexit(at_the_end); // before there is a driver, so it is called after the driver's own
    ranks = new Ranks(2);
    if (!cuda::available(ranks->rank())) {
        return skip_without_cuda(ranks->rank());
    }
    test = new Test(*ranks);
    test->exchange("before", MemoryKind::kCuda);
    test->exchange("before", MemoryKind::kHost);
    return EXIT_FAILURE; // unless at_the_end() says otherwise
}

} // namespace
} // namespace ucptest

int main()
{
    return ucptest::run();
}
