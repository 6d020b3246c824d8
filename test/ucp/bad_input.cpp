// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_bad_input: worker addresses and remote keys that are cut off, altered or used for memory
// that they do not belong to. Whatever UCX makes of them, nothing may crash or hang inside the
// transport, and no byte outside the exposed memory may change. UCX itself asserts on many of these
// inputs; such an end of the process counts as UCX's unless the module is responsible for it.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/caller.hpp"
#include "support/cuda.hpp"
#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/messages.hpp"
#include "support/protocols.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

constexpr const char* kModule = "libuct_gdr.so";
constexpr uint64_t kFeatures = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
constexpr auto kPatience = std::chrono::milliseconds(30); // for an altered input to do harm

// What a child tells its parent, also when it crashes.
struct Progress {
    size_t next;      // the input to be tried
    bool harmless;    // reached the end
    char culprit[64]; // library in which it crashed
};

Progress* progress = nullptr; // shared with the parent

void on_crash(int signal)
{
    const char* name = caller_name(caller(2));
    std::strncpy(progress->culprit, name, sizeof(progress->culprit) - 1);
    std::signal(signal, SIG_DFL);
    raise(signal);
}

// Two workers of this process with an endpoint between them, made anew for every input because an
// error ends the endpoint.
class Connection {
  public:
    explicit Connection(MemoryKind kind)
        : near_(kFeatures, false), far_(kFeatures, false), source_(kind, 64, 1, false),
          target_(kind, 64, 1, false),
          // Far from the others: a host registration covers whole pages.
          outside_(kind, 1 << 20, 1, false)
    {
        source_.fill(1);
        target_.fill(2);
        outside_.fill(3);
    }

    // Returns false where UCP refused the address.
    bool connect(const std::vector<uint8_t>& address)
    {
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
            static_cast<Connection*>(self)->error_ = status;
        };
        params.err_handler.arg = this;
        return ucp_ep_create(near_.handle(), &params, &ep_) == UCS_OK;
    }

    bool complete(InFlight& operations, std::chrono::milliseconds limit)
    {
        return complete_between(operations, near_, far_, limit);
    }

    // Closes by force; what was outstanding must then complete.
    void close(InFlight& operations)
    {
        InFlight closing(near_);
        closing.close(ep_, true);
        const std::chrono::seconds deadline(deadline_s());
        require(complete(closing, deadline), "closing the endpoint does not complete");
        require(complete(operations, deadline), "operations of a closed endpoint do not complete");
    }

    Worker& near() { return near_; }
    Worker& far() { return far_; }
    ucp_ep_h ep() const { return ep_; }
    ucs_status_t error() const { return error_; }
    Messages& source() { return source_; }
    Messages& target() { return target_; }
    Messages& outside() { return outside_; }

  private:
    Worker near_;
    Worker far_;
    Messages source_;
    Messages target_;
    Messages outside_;
    ucp_ep_h ep_ = nullptr;
    ucs_status_t error_ = UCS_OK;
};

using Bytes = std::vector<uint8_t>;

// Input number: first all cut off at each length (zeros follow), then all with one bit altered.
Bytes spoil(const Bytes& good, size_t number)
{
    // UCP gives no length with an address or a key: it may read on past a shortened one.
    Bytes bad(good.size() + 4096, 0);
    std::copy(good.begin(), good.end(), bad.begin());
    if (number < good.size()) {
        std::fill(bad.begin() + static_cast<std::ptrdiff_t>(number), bad.end(), uint8_t{0});
    } else {
        const size_t at = number - good.size();
        bad[at] = static_cast<uint8_t>(bad[at] ^ 1u << (at * 5 % 8));
    }
    return bad;
}

size_t inputs(const Bytes& good)
{
    return 2 * good.size();
}

// True when there was nothing left to try.
bool try_address(MemoryKind kind, size_t number)
{
    Connection connection(kind);
    const Bytes good = connection.far().address();
    if (number >= inputs(good)) {
        return true;
    }
    if (!connection.connect(spoil(good, number))) {
        return false;
    }
    InFlight operations(connection.near());
    operations.tag_send(connection.ep(), connection.source().view(0), 1);
    connection.complete(operations, kPatience);
    connection.close(operations);
    return false;
}

bool try_rkey(MemoryKind kind, size_t number)
{
    Connection connection(kind);
    ExposedMemory exposed(connection.far(), connection.target().memory());
    const Bytes good = exposed.packed_rkey();
    if (number >= inputs(good)) {
        return true;
    }
    require(connection.connect(connection.far().address()), "ucp_ep_create");
    const Bytes bad = spoil(good, number);
    ucp_rkey_h rkey = nullptr;
    if (ucp_ep_rkey_unpack(connection.ep(), bad.data(), &rkey) == UCS_OK) {
        InFlight operations(connection.near());
        operations.put(connection.ep(), connection.source().view(0),
                       reinterpret_cast<uint64_t>(connection.target().address(0)), rkey);
        operations.flush(connection.ep());
        connection.complete(operations, std::chrono::seconds(2));
        connection.close(operations);
        ucp_rkey_destroy(rkey);
    } else {
        InFlight operations(connection.near());
        connection.close(operations);
    }
    if (const auto wrong = connection.outside().difference(3)) {
        throw Failure("memory that was never exposed has changed: " + *wrong);
    }
    return false;
}

// A good key used for an address that it does not cover, and one whose memory has been unmapped:
// an error, and no data.
bool try_foreign(MemoryKind kind, size_t number)
{
    constexpr size_t kForeignInputs = 8;
    if (number >= kForeignInputs) {
        return true;
    }
    const bool put = number % 2 == 0;
    if (!put && !gets_use_the_hca()) { // nobody checks: see docs/developers/defects.md
        return false;
    }
    Connection connection(kind);
    require(connection.connect(connection.far().address()), "ucp_ep_create");
    auto exposed = std::make_unique<ExposedMemory>(connection.far(), connection.target().memory());
    RemoteMemory remote(connection.ep(), exposed->packed());
    uint64_t address = remote.address(0);
    switch (number / 2) {
    case 0: // another allocation
        address = reinterpret_cast<uint64_t>(connection.outside().address(0));
        break;
    case 1: // page 0
        address = 8;
        break;
    case 2: // the end of the address space
        address = ~uint64_t{0} - 15;
        break;
    case 3: // no longer exposed
        exposed.reset();
        break;
    }
    InFlight operations(connection.near());
    if (put) {
        operations.put(connection.ep(), connection.source().view(0), address, remote.rkey());
    } else {
        operations.get(connection.ep(), connection.source().view(0), address, remote.rkey());
    }
    operations.flush(connection.ep());
    connection.complete(operations, std::chrono::seconds(deadline_s()));
    const bool stale = number / 2 == 3; // a cache may keep the registration, and then it is valid
    if (!stale && operations.status() == UCS_OK && connection.error() == UCS_OK) {
        throw Failure(format("a %s outside the memory succeeded", put ? "put" : "get"));
    }
    connection.close(operations);
    if (const auto wrong = connection.outside().difference(3)) {
        throw Failure("memory that was never exposed has changed: " + *wrong);
    }
    return false;
}

struct Kind {
    const char* name;
    bool (*attempt)(MemoryKind kind, size_t number);
};

constexpr Kind kKinds[] = {
    {"worker addresses", try_address}, {"remote keys", try_rkey}, {"foreign memory", try_foreign}};

// Tries inputs from progress->next on until it crashes or all are done.
[[noreturn]] void child(const Kind& kind, MemoryKind memory)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Report report(kind.name);
    if (memory != MemoryKind::kHost && !cuda::available(0)) {
        throw Failure("no CUDA driver");
    }
    Worker warm_up(kFeatures, false); // loads all libraries
    remember_libraries();
    for (int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) {
        std::signal(signal, on_crash);
    }
    for (;; ++progress->next) {
        report.begin(format("%s, input %zu", kind.name, progress->next), 4 * deadline_s());
        if (kind.attempt(memory, progress->next)) {
            break;
        }
    }
    report.end();
    progress->harmless = true;
    _exit(EXIT_SUCCESS); // what altered inputs have left in UCX is of no interest
}

// The number of inputs that did harm.
unsigned run_all(const Kind& kind, MemoryKind memory)
{
    unsigned harmful = 0;
    unsigned by_ucx = 0;
    *progress = {};
    while (!progress->harmless) {
        const size_t before = progress->next;
        progress->culprit[0] = '\0';
        const pid_t process = fork();
        if (process == 0) {
            child(kind, memory);
        }
        int status = 0;
        waitpid(process, &status, 0);
        if (progress->harmless) {
            break;
        }
        const std::string culprit = progress->culprit;
        if (WIFSIGNALED(status) && !culprit.empty() && !culprit.starts_with(kModule)) {
            ++by_ucx;
            std::printf("%s, input %zu: ends in %s\n", kind.name, progress->next, culprit.c_str());
        } else {
            ++harmful;
            std::fprintf(stderr, "FAILED %s: input %zu: %s %d%s%s\n", kind.name, progress->next,
                         WIFSIGNALED(status) ? "signal" : "status",
                         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                         culprit.empty() ? "" : " in ", culprit.c_str());
        }
        if (progress->next == before && before == 0 && culprit.empty()) {
            break; // it does not even start
        }
        ++progress->next;
    }
    std::printf("%s, %s: %zu inputs, %u ended elsewhere, %u failed\n", kind.name, name(memory),
                progress->next, by_ucx, harmful);
    return harmful;
}

int run(MemoryKind memory)
{
    void* shared =
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(shared != MAP_FAILED, "mmap");
    progress = static_cast<Progress*>(shared);
    unsigned failed = 0;
    for (const Kind& kind : kKinds) {
        failed += run_all(kind, memory);
    }
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    return ucptest::run(argc > 1 ? ucptest::memory_kind(argv[1]) : ucptest::MemoryKind::kCuda);
}
