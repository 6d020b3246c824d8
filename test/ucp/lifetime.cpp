// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_lifetime: objects of UCP are made and destroyed in the ways that applications do it, several
// contexts in one process, and nothing stays behind.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "support/cuda.hpp"
#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/messages.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

constexpr uint64_t kFeatures = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
constexpr size_t kLarge = 4 << 20;

ucp_ep_h connect(Worker& from, Worker& to, bool peer_errors)
{
    const auto address = to.address();
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = peer_errors ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    ucp_ep_h ep = nullptr;
    require_ok(ucp_ep_create(from.handle(), &params, &ep), "ucp_ep_create");
    return ep;
}

void complete(InFlight& operations, Worker& own, Worker& other, const char* what)
{
    require(complete_between(operations, own, other, std::chrono::seconds(deadline_s())),
            format("%s: timed out", what));
    operations.wait(what);
}

void exchange(Worker& from, Worker& to, ucp_ep_h ep, MemoryKind kind, size_t size, uint64_t seed,
              Report& report)
{
    Messages out(kind, size, 2, false);
    Messages in(kind, size, 2, false);
    out.fill(seed);
    in.fill(~seed);
    InFlight sends(from);
    InFlight receives(to);
    for (size_t index = 0; index < out.count(); ++index) {
        receives.tag_receive(in.view(index), seed << 8 | index, size);
        sends.tag_send(ep, out.view(index), seed << 8 | index);
    }
    complete(sends, from, to, "sends");
    complete(receives, to, from, "receives");
    if (const auto wrong = in.difference(seed)) {
        report.failed(*wrong);
    }
}

void close(Worker& own, Worker& other, ucp_ep_h ep, bool force)
{
    InFlight closing(own);
    closing.close(ep, force);
    complete(closing, own, other, "closing");
}

void two_contexts(MemoryKind kind, Report& report)
{
    Worker a(kFeatures, false);
    Worker b(kFeatures, false);
    ucp_ep_h to_b = connect(a, b, false);
    ucp_ep_h to_a = connect(b, a, false);
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        exchange(a, b, to_b, kind, seed * 4095, 2 * seed, report);
        exchange(b, a, to_a, kind, seed * 65537, 2 * seed + 1, report);
    }
    close(a, b, to_b, false);
    close(b, a, to_a, false);
}

void connect_to_itself(MemoryKind kind, Report& report)
{
    Worker a(kFeatures, false);
    ucp_ep_h ep = connect(a, a, false);
    exchange(a, a, ep, kind, 8, 1, report);
    exchange(a, a, ep, kind, kLarge, 2, report);
    close(a, a, ep, false);
}

void many_endpoints(MemoryKind kind, Report& report)
{
    constexpr unsigned kEndpoints = 64;
    for (const bool peer_errors : {false, true}) {
        Worker a(kFeatures, false);
        std::vector<std::unique_ptr<Worker>> others;
        std::vector<ucp_ep_h> endpoints;
        for (unsigned at = 0; at < 4; ++at) {
            others.push_back(std::make_unique<Worker>(kFeatures, false));
        }
        for (unsigned round = 0; round < 3; ++round) {
            for (unsigned at = 0; at < kEndpoints; ++at) {
                endpoints.push_back(connect(a, *others[at % others.size()], peer_errors));
            }
            // Some are used at once, some later, some never.
            for (unsigned at = 0; at < kEndpoints; at += 3) {
                exchange(a, *others[at % others.size()], endpoints[at], kind, 1000 + at,
                         round * kEndpoints + at + 1, report);
            }
            for (unsigned at = 0; at < kEndpoints; ++at) {
                close(a, *others[at % others.size()], endpoints[at], peer_errors && at % 2 == 0);
            }
            endpoints.clear();
        }
    }
}

// Endpoints are closed by force while operations are in flight. (UCX 1.13 itself fails assertions
// when that happens before the endpoint is wired up, and when a worker is destroyed with operations
// in flight on an open endpoint.)
void closed_in_flight(MemoryKind kind, Report& report)
{
    for (unsigned steps : {0, 1, 10, 1000}) {
        Messages out(kind, kLarge, 8, false);
        Messages in(kind, kLarge, 8, false);
        Worker own(kFeatures, false);
        Worker other(kFeatures, false);
        ucp_ep_h ep = connect(own, other, true);
        ucp_ep_h back = connect(other, own, true);
        exchange(own, other, ep, kind, 8, 1, report);
        exchange(other, own, back, kind, 8, 2, report);
        InFlight sends(own);
        InFlight receives(other);
        for (size_t index = 0; index < out.count(); ++index) {
            sends.tag_send(ep, out.view(index), index);
            receives.tag_receive(in.view(index), index, in.size());
        }
        for (unsigned step = 0; step < steps; ++step) {
            ucp_worker_progress(own.handle());
            ucp_worker_progress(other.handle());
        }
        close(own, other, ep, true);
        require(sends.wait_for(std::chrono::seconds(deadline_s())),
                "sends of a closed endpoint do not complete");
        close(other, own, back, true);
        receives.cancel();
        require(receives.wait_for(std::chrono::seconds(deadline_s())),
                "receives from a closed endpoint do not complete");
    }
}

void cycles(MemoryKind kind, Report& report)
{
    const auto count = [](const char* directory) {
        return std::distance(std::filesystem::directory_iterator(directory), {});
    };
    long descriptors = 0;
    long threads = 0;
    for (unsigned cycle = 0; cycle < 6; ++cycle) {
        {
            Worker a(kFeatures, cycle % 2 == 1);
            Worker b(kFeatures, cycle % 2 == 1);
            ucp_ep_h ep = connect(a, b, false);
            exchange(a, b, ep, kind, 100000, cycle + 1, report);
            close(a, b, ep, false);
        }
        if (cycle == 1) { // of either sort, once: what is opened for the process's life is open
            descriptors = count("/proc/self/fd");
            threads = count("/proc/self/task");
        }
    }
    if (count("/proc/self/fd") > descriptors) {
        report.failed(format("%ld descriptors more", count("/proc/self/fd") - descriptors));
    }
    if (count("/proc/self/task") > threads) {
        report.failed(format("%ld threads more", count("/proc/self/task") - threads));
    }
}

// Memory that UCP allocates.
void allocated_by_ucp(MemoryKind kind, Report& report)
{
    Worker a(kFeatures, false);
    Worker b(kFeatures, false);
    ucp_ep_h ep = connect(a, b, false);
    for (size_t length : {size_t{8}, size_t{4096}, kLarge}) {
        ucp_mem_map_params_t params = {};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                            UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.length = length;
        params.flags = UCP_MEM_MAP_ALLOCATE;
        params.memory_type = ucs_type(kind);
        ucp_mem_h handle = nullptr;
        require_ok(ucp_mem_map(b.context(), &params, &handle), "ucp_mem_map(ALLOCATE)");
        ucp_mem_attr_t attributes = {};
        attributes.field_mask =
            UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH | UCP_MEM_ATTR_FIELD_MEM_TYPE;
        require_ok(ucp_mem_query(handle, &attributes), "ucp_mem_query");
        if (attributes.mem_type != ucs_type(kind) || attributes.length < length) {
            report.failed(format("%zu bytes of memory type %d", attributes.length,
                                 static_cast<int>(attributes.mem_type)));
        }
        void* packed = nullptr;
        size_t packed_length = 0;
        require_ok(ucp_rkey_pack(b.context(), handle, &packed, &packed_length), "ucp_rkey_pack");
        ucp_rkey_h rkey = nullptr;
        require_ok(ucp_ep_rkey_unpack(ep, packed, &rkey), "ucp_ep_rkey_unpack");
        ucp_rkey_buffer_release(packed);
        Messages out(kind, length, 1, false);
        Messages back(kind, length, 1, false);
        out.fill(length);
        back.fill(0);
        InFlight operations(a);
        const auto remote = reinterpret_cast<uint64_t>(attributes.address);
        operations.put(ep, out.view(0), remote, rkey);
        operations.flush(ep);
        complete(operations, a, b, "put");
        operations.get(ep, back.view(0), remote, rkey);
        operations.flush(ep);
        complete(operations, a, b, "get");
        if (const auto wrong = back.difference(length)) {
            report.failed(*wrong);
        }
        ucp_rkey_destroy(rkey);
        require_ok(ucp_mem_unmap(b.context(), handle), "ucp_mem_unmap");
    }
    close(a, b, ep, false);
}

// The same memory mapped several times, by several contexts, and unmapped in another order.
void mapped_again(MemoryKind kind, Report& report)
{
    Worker a(kFeatures, false);
    Worker b(kFeatures, false);
    ucp_ep_h ep = connect(a, b, false);
    Messages target(kind, kLarge, 1, false);
    Messages source(kind, kLarge, 1, false);
    target.fill(0);
    auto first = std::make_unique<ExposedMemory>(b, target.memory());
    ExposedMemory second(b, target.memory());
    ExposedMemory elsewhere(a, target.memory());
    RemoteMemory remote(ep, second.packed());
    first.reset();
    source.fill(3);
    InFlight operations(a);
    const auto offset = static_cast<size_t>(static_cast<char*>(target.address(0)) -
                                            static_cast<char*>(target.memory().address()));
    operations.put(ep, source.view(0), remote.address(offset), remote.rkey());
    operations.flush(ep);
    complete(operations, a, b, "put");
    if (const auto wrong = target.difference(3)) {
        report.failed(*wrong);
    }
    close(a, b, ep, false);
}

int run(MemoryKind kind)
{
    Report report("ucp_lifetime");
    if (kind != MemoryKind::kHost && !cuda::available(0)) {
        return skip_without_cuda(0);
    }
    const struct {
        const char* name;
        void (*run)(MemoryKind, Report&);
    } cases[] = {{"two contexts", two_contexts},
                 {"connected to itself", connect_to_itself},
                 {"many endpoints", many_endpoints},
                 {"closed in flight", closed_in_flight},
                 {"cycles", cycles},
                 {"allocated by UCP", allocated_by_ucp},
                 {"mapped again", mapped_again}};
    for (const auto& [case_name, body] : cases) {
        report.begin(format("%s, %s", case_name, name(kind)), 3 * deadline_s());
        body(kind, report);
    }
    report.end();
    std::printf("%u cases, %u failed\n", report.cases(), report.failures());
    return report.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    return ucptest::run(argc > 1 ? ucptest::memory_kind(argv[1]) : ucptest::MemoryKind::kCuda);
}
