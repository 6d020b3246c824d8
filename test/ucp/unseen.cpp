// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_unseen: UCP's short sends, which look at no memory, where they are taken, and GPU memory
// given to them. Whether one is taken tells UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL: nothing else is tried
// then. The CPU must never touch what is the GPU's, which ends a program on the emulated GPU.
//
//   ucp_unseen taken|never BYTES      is it, for messages of host memory, on this UCX with this
//   environment? ucp_unseen other TLS NET          and after a context with other transports, over
//   these devices
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "support/cuda.hpp"
#include "support/failure.hpp"
#include "support/memory.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

constexpr size_t kPage = 4096;
constexpr ucp_tag_t kTag = 0x10;
constexpr unsigned kMany = 5000; // more than the window and the queues hold
constexpr unsigned kAmId = 3;
constexpr const char kHeader[] = "header";

using Bytes = std::vector<char>;

size_t message_size = 8;

Bytes bytes_of(unsigned number)
{
    Bytes bytes(message_size, 't');
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
}

// A worker that sends to itself.
class Loop {
  public:
    Loop() : worker_(UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA, false)
    {
        const auto address = worker_.address();
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        require_ok(ucp_ep_create(worker_.handle(), &params, &ep_), "ucp_ep_create");
        worker_.handle_am(
            kAmId,
            [](void* self, const void*, size_t header_length, void* data, size_t length,
               const ucp_am_recv_param_t* param) {
                return static_cast<Loop*>(self)->arrived(header_length, data, length,
                                                         param->recv_attr);
            },
            this);
        // Connected, with all lanes.
        Memory some(MemoryKind::kHost, message_size);
        tag(some);
    }

    Worker& worker() { return worker_; }
    ucp_ep_h ep() const { return ep_; }

    // Whether a short send of this is taken as it is. It may have to wait for a window.
    bool short_is_taken(const void* from)
    {
        ucp_request_param_t now = {};
        now.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
        ucs_status_ptr_t sent = UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE);
        for (int i = 0; i < 1000 && sent == UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE); ++i) {
            ucp_worker_progress(worker_.handle());
            sent = ucp_tag_send_nbx(ep_, from, message_size, kTag, &now);
        }
        if (sent == UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE)) {
            return false;
        }
        require(sent == nullptr, "a short send is neither taken nor refused");
        Bytes received(message_size);
        finish(receive(received.data()));
        return true;
    }

    Bytes tag(const Memory& from) { return tag(from.address()); }
    Bytes tag(const void* from)
    {
        Bytes received(message_size);
        void* wanted = receive(received.data());
        finish(ucp_tag_send_nbx(ep_, from, message_size, kTag, &nothing_));
        finish(wanted);
        return received;
    }

    Bytes am(const void* from)
    {
        arrived_ = false;
        void* request =
            ucp_am_send_nbx(ep_, kAmId, kHeader, sizeof(kHeader), from, message_size, &nothing_);
        finish(request);
        worker_.wait([&] { return arrived_; }, "an active message");
        finish(std::exchange(am_receive_, nullptr));
        return am_data_;
    }

    Bytes stream(const void* from)
    {
        Bytes received(message_size);
        size_t length = 0;
        ucp_request_param_t all = {};
        all.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        all.flags = UCP_STREAM_RECV_FLAG_WAITALL;
        void* wanted = ucp_stream_recv_nbx(ep_, received.data(), message_size, &length, &all);
        finish(ucp_stream_send_nbx(ep_, from, message_size, &nothing_));
        finish(wanted);
        return received;
    }

    Bytes put(const void* from)
    {
        Memory target(MemoryKind::kHost, message_size);
        const ExposedMemory exposed(worker_, target);
        const RemoteMemory remote(ep_, exposed.packed());
        finish(ucp_put_nbx(ep_, from, message_size, remote.address(0), remote.rkey(), &nothing_));
        finish(ucp_ep_flush_nbx(ep_, &nothing_));
        Bytes received(message_size);
        target.load(received.data(), 0, message_size);
        return received;
    }

    // Without progress in between, so that most have to wait.
    void tag_many(const std::function<const void*(unsigned)>& from)
    {
        std::vector<Bytes> received(kMany, Bytes(message_size));
        std::vector<void*> requests;
        for (Bytes& bytes : received) {
            requests.push_back(receive(bytes.data()));
        }
        for (unsigned i = 0; i < kMany; ++i) {
            requests.push_back(ucp_tag_send_nbx(ep_, from(i), message_size, kTag, &nothing_));
        }
        for (void* request : requests) {
            finish(request);
        }
        for (unsigned i = 0; i < kMany; ++i) {
            require(std::memcmp(received[i].data(), from(i), message_size) == 0,
                    "a message differs");
        }
    }

    // Of memory that is said to be the host's.
    ucs_status_t tag_as_host(const void* from, Bytes& received, bool behind_others)
    {
        std::vector<void*> before;
        Bytes others(message_size);
        for (unsigned i = 0; behind_others && i < kMany; ++i) {
            before.push_back(receive(others.data()));
            before.push_back(ucp_tag_send_nbx(ep_, others.data(), message_size, kTag, &nothing_));
        }
        ucp_request_param_t host = {};
        host.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        host.memory_type = UCS_MEMORY_TYPE_HOST;
        received.assign(message_size, 0);
        void* wanted = receive(received.data());
        const ucs_status_t status = wait(ucp_tag_send_nbx(ep_, from, message_size, kTag, &host));
        if (status != UCS_OK) {
            ucp_request_cancel(worker_.handle(), wanted);
        }
        (void)wait(wanted);
        for (void* request : before) {
            finish(request);
        }
        return status;
    }

    void close() { finish(ucp_ep_close_nb(ep_, UCP_EP_CLOSE_MODE_FLUSH)); }

  private:
    ucs_status_t arrived(size_t header_length, void* data, size_t length, uint64_t attributes)
    {
        arrived_ = header_length == sizeof(kHeader) && length == message_size;
        am_data_.assign(message_size, 0);
        if (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) {
            am_receive_ = ucp_am_recv_data_nbx(worker_.handle(), data, am_data_.data(),
                                               message_size, &nothing_);
            return UCS_INPROGRESS;
        }
        if (arrived_) {
            std::memcpy(am_data_.data(), data, message_size);
        }
        return UCS_OK;
    }

    void* receive(void* to)
    {
        return ucp_tag_recv_nbx(worker_.handle(), to, message_size, kTag, ~ucp_tag_t{0}, &nothing_);
    }

    ucs_status_t wait(void* request)
    {
        if (request == nullptr) {
            return UCS_OK;
        }
        if (UCS_PTR_IS_ERR(request)) {
            return UCS_PTR_STATUS(request);
        }
        worker_.wait([&] { return ucp_request_check_status(request) != UCS_INPROGRESS; },
                     "a request");
        const ucs_status_t status = ucp_request_check_status(request);
        ucp_request_free(request);
        return status;
    }
    void finish(void* request) { require_ok(wait(request), "an operation"); }

    const ucp_request_param_t nothing_ = {};
    Worker worker_;
    ucp_ep_h ep_ = nullptr;
    bool arrived_ = false;
    Bytes am_data_;
    void* am_receive_ = nullptr;
};

void* map(size_t size)
{
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "mmap");
    return memory;
}

// Every way to send GPU memory that a short operation could be tried for.
void send_gpu_memory(Loop& loop, unsigned number)
{
    for (const MemoryKind kind : {MemoryKind::kCuda, MemoryKind::kPool, MemoryKind::kVmm,
                                  MemoryKind::kSlice, MemoryKind::kManaged}) {
        Memory gpu(kind, message_size);
        const Bytes sent = bytes_of(number++);
        gpu.store(0, sent.data(), message_size);
        require(loop.tag(gpu) == sent, format("a tagged message of %s memory differs", name(kind)));
        require(loop.am(gpu.address()) == sent,
                format("an active message of %s memory differs", name(kind)));
        require(loop.stream(gpu.address()) == sent,
                format("a stream of %s memory differs", name(kind)));
        require(loop.put(gpu.address()) == sent, format("a put of %s memory differs", name(kind)));
    }
}

void send_host_memory(Loop& loop, const void* from)
{
    const Bytes sent(static_cast<const char*>(from), static_cast<const char*>(from) + message_size);
    require(loop.tag(from) == sent && loop.am(from) == sent && loop.stream(from) == sent &&
                loop.put(from) == sent,
            "a message of host memory differs");
}

class Test {
  public:
    explicit Test(bool taken) : report_("ucp_unseen"), taken_(taken) {}

    Report& report() { return report_; }

    void expect_taken(Loop& loop, const void* from, const char* what)
    {
        if (loop.short_is_taken(from) != taken_) {
            report_.failed(
                format("a short send of %s is %s", what, taken_ ? "not taken" : "taken"));
        }
    }

    void never_taken_from_now_on() { taken_ = false; }

    void alternately(Loop& loop)
    {
        report_.begin("GPU memory after host memory", deadline_s());
        auto* host = static_cast<char*>(map(kPage));
        for (unsigned i = 0; i < kMany; ++i) {
            const Bytes sent = bytes_of(i);
            std::copy(sent.begin(), sent.end(), host);
            require(loop.tag(host) == sent, "a message of host memory differs");
        }
        expect_taken(loop, host, "host memory");
        for (unsigned i = 0; i < 20; ++i) {
            send_gpu_memory(loop, i);
            send_host_memory(loop, host);
        }
        expect_taken(loop, host, "host memory");
        munmap(host, kPage);
    }

    void refused_as_such(Loop& loop)
    {
        report_.begin("GPU memory is no short send's", deadline_s());
        const Memory gpu(MemoryKind::kCuda, message_size);
        if (loop.short_is_taken(gpu.address())) {
            report_.failed("a short send of GPU memory is taken");
        }
    }

    // Pages that are never remembered, or not for long, wait like any other.
    void host_memory_of_all_kinds(Loop& loop)
    {
        report_.begin("pinned memory", deadline_s());
        char* pinned = static_cast<char*>(cuda::allocate_pinned(kPage));
        std::memset(pinned, 1, kPage);
        loop.tag_many([&](unsigned i) { return pinned + i % (kPage - message_size); });
        expect_taken(loop, pinned, "pinned memory");
        send_host_memory(loop, pinned);
        cuda::release_pinned(pinned);

        report_.begin("managed memory", deadline_s());
        const Memory managed(MemoryKind::kManaged, kPage);
        const auto* start = static_cast<const char*>(managed.address());
        loop.tag_many([&](unsigned i) { return start + i % (kPage - message_size); });
        expect_taken(loop, start, "managed memory");

        report_.begin("more pages than are remembered", deadline_s());
        constexpr size_t kPages = 4 * kMany;
        auto* pages = static_cast<char*>(map(kPages * kPage));
        for (size_t i = 0; i < kPages; ++i) {
            std::memcpy(pages + i * kPage, &i, sizeof(i));
        }
        for (size_t first = 0; first < kPages; first += kMany) {
            loop.tag_many([&](unsigned i) { return pages + (first + i) * kPage; });
        }
        munmap(pages, kPages * kPage);
    }

    // It neither crashes nor waits for ever. Protocols v2 of UCX 1.13 look all the same.
    void said_to_be_of_the_host(Loop& loop)
    {
        report_.begin("GPU memory that is said to be the host's", deadline_s());
        Memory gpu(MemoryKind::kCuda, message_size);
        for (unsigned i = 0; i < 6; ++i) {
            const Bytes sent = bytes_of(i);
            gpu.store(0, sent.data(), message_size);
            Bytes received;
            const ucs_status_t status = loop.tag_as_host(gpu.address(), received, i % 2 == 1);
            if (status == UCS_OK ? received != sent : status != UCS_ERR_INVALID_PARAM) {
                report_.failed(format("it ends with: %s", ucs_status_string(status)));
            }
        }
        send_gpu_memory(loop, 1);
    }

    void threads()
    {
        report_.begin("several threads", 4 * deadline_s());
        std::vector<std::thread> all;
        for (unsigned thread = 0; thread < 4; ++thread) {
            all.emplace_back([this, thread] {
                cuda::attach_thread();
                Loop loop;
                void* host = map(kPage);
                for (unsigned i = 0; i < 50; ++i) {
                    std::memcpy(host, &i, sizeof(i));
                    send_host_memory(loop, host);
                    send_gpu_memory(loop, 1000 * thread + i);
                    munmap(host, kPage);
                    host = map(kPage);
                }
                expect_taken(loop, host, "host memory");
                munmap(host, kPage);
                loop.close();
            });
        }
        for (std::thread& thread : all) {
            thread.join();
        }
    }

    int end()
    {
        report_.end();
        std::printf("%u cases, %u failed\n", report_.cases(), report_.failures());
        return report_.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }

  private:
    Report report_;
    bool taken_;
};

int run(bool taken)
{
    Test test(taken);
    if (!cuda::available(0)) {
        return skip_without_cuda(0);
    }
    test.report().begin("start", deadline_s());
    Loop loop;
    test.alternately(loop);
    test.refused_as_such(loop);
    test.host_memory_of_all_kinds(loop);
    test.threads();
    if (taken) {
        test.said_to_be_of_the_host(loop);
    }
    test.report().begin("end", deadline_s());
    loop.close();
    return test.end();
}

// A context with other transports, which send what they are given.
int run_with_other(const char* transports, const char* devices)
{
    Test test(true);
    if (!cuda::available(0)) {
        return skip_without_cuda(0);
    }
    test.report().begin("before another transport", deadline_s());
    Loop loop;
    void* host = map(kPage);
    test.expect_taken(loop, host, "host memory");
    setenv("UCX_TLS", transports, 1);
    setenv("UCX_NET_DEVICES", devices, 1);
    test.report().begin(format("over %s", transports), deadline_s());
    Loop other;
    test.never_taken_from_now_on();
    test.expect_taken(loop, host, "host memory");
    // Without ours UCP does not know GPU memory, and takes all for host memory.
    if (std::strstr(transports, "gdr") != nullptr) {
        test.expect_taken(other, host, "host memory");
        for (const MemoryKind kind : {MemoryKind::kCuda, MemoryKind::kVmm}) {
            Memory gpu(kind, message_size);
            const Bytes sent = bytes_of(1);
            gpu.store(0, sent.data(), message_size);
            require(other.tag(gpu) == sent, "a message over the other transport differs");
        }
    }
    test.report().begin("after another transport", deadline_s());
    send_gpu_memory(loop, 1);
    other.close();
    send_gpu_memory(loop, 10);
    test.expect_taken(loop, host, "host memory");
    loop.close();
    return test.end();
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
try {
    const std::string what = argc > 1 ? argv[1] : "";
    if (argc == 3 && (what == "taken" || what == "never")) {
        ucptest::message_size = std::stoul(argv[2]);
        return ucptest::run(what == "taken");
    }
    if (argc == 4 && what == "other") {
        return ucptest::run_with_other(argv[2], argv[3]);
    }
    std::fprintf(stderr, "usage: ucp_unseen taken|never BYTES | other TLS NET_DEVICES\n");
    return EXIT_FAILURE;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
}
