// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Device memory moved by the CUDA driver, between two processes and within one: softcuda's, as if
// it had no alias, or a real GPU's (see softhca_cuda_fixture.hpp). Every kind of memory meets every
// other with every operation.
#include "softhca_cuda_fixture.hpp"
#include "softhca_fixture.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <sched.h>

namespace {

constexpr std::size_t kRoom = (1 << 20) + (64 << 10); // more than the copiers' buffers
constexpr std::uint32_t kSizes[] = {8, 5000, kRoom - 16};
constexpr Kind kKinds[] = {Kind::host, Kind::device, Kind::small,
                           Kind::pool, Kind::vmm,    Kind::vmm_private};

const char* name_of(Kind kind)
{
    constexpr const char* names[] = {"host",   "cuMemAlloc",  "small cuMemAlloc",
                                     "pool",   "cuMemCreate", "private cuMemCreate",
                                     "managed"};
    return names[static_cast<int>(kind)];
}

// Registered memory of one kind.
class Buffer {
  public:
    Buffer(Device& device, const Cuda* cuda, Kind kind, bool by_dmabuf) : cuda_(cuda), kind_(kind)
    {
        size_ = kind == Kind::small ? 100 : kRoom;
        if (kind == Kind::host) {
            host_.resize(size_);
            start_ = reinterpret_cast<std::uint64_t>(host_.data());
        } else {
            start_ = cuda->allocate(size_, kind);
        }
        if (kind != Kind::host && by_dmabuf) {
            CUdeviceptr pages = 0;
            const int fd = cuda->export_pages(start_, size_, pages);
            mr_ = kind == Kind::small // all of its page
                      ? ibv_reg_dmabuf_mr(device.pd, 0, 4096, pages, fd, kAllAccess)
                      : ibv_reg_dmabuf_mr(device.pd, start_ - pages, size_, start_, fd, kAllAccess);
            close(fd);
        } else {
            mr_ = ibv_reg_mr(device.pd, reinterpret_cast<void*>(start_), size_, kAllAccess);
        }
        EXPECT_NE(mr_, nullptr) << name_of(kind) << ": " << std::strerror(errno);
    }
    ~Buffer()
    {
        if (mr_ != nullptr) {
            EXPECT_EQ(ibv_dereg_mr(mr_), 0);
        }
        if (kind_ != Kind::host && kind_ != Kind::vmm && kind_ != Kind::vmm_private) {
            cuda_->release(start_);
        }
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void set(std::size_t offset, std::size_t size, unsigned seed)
    {
        std::vector<unsigned char> bytes(size);
        fill(bytes.data(), size, seed);
        if (kind_ == Kind::host) {
            std::memcpy(host_.data() + offset, bytes.data(), size);
        } else {
            cuda_->put(start_ + offset, bytes.data(), size);
        }
    }
    bool holds(std::size_t offset, std::size_t size, unsigned seed)
    {
        return is_filled(get(offset, size).data(), size, seed);
    }
    std::vector<unsigned char> get(std::size_t offset, std::size_t size)
    {
        std::vector<unsigned char> bytes(size);
        if (kind_ == Kind::host) {
            std::memcpy(bytes.data(), host_.data() + offset, size);
        } else {
            cuda_->get(bytes.data(), start_ + offset, size);
        }
        return bytes;
    }
    std::uint64_t address() const { return start_; }
    std::size_t size() const { return size_; }
    ibv_mr* mr() const { return mr_; }
    ibv_sge sge(std::size_t offset, std::uint32_t length) const
    {
        return {start_ + offset, length, mr_->lkey};
    }

  private:
    const Cuda* cuda_;
    const Kind kind_;
    std::size_t size_;
    std::vector<unsigned char> host_;
    CUdeviceptr start_ = 0;
    ibv_mr* mr_ = nullptr;
};

bool takes(Kind kind, bool by_dmabuf)
{
    return kind != Kind::pool || by_dmabuf; // nvidia-peermem has none of it
}

int post_receive(Endpoint& endpoint, ibv_sge list)
{
    ibv_recv_wr wr = {7, nullptr, &list, 1};
    ibv_recv_wr* bad;
    return ibv_post_recv(endpoint.qp, &wr, &bad);
}

// A process with a CUDA driver and memory of all kinds, which does what it is asked to.
class Responder {
  public:
    struct Order {
        enum What { use, set, check, receive, await, forget, release, end } what;
        Kind kind = Kind::host;
        bool by_dmabuf = false;
        std::uint32_t size = 0;
        unsigned seed = 0;
    };
    struct Answer {
        std::uint64_t address = 0;
        std::uint32_t rkey = 0;
        bool good = false;
        ibv_wc wc = {};
    };

    Responder() : child_(run) {}
    ~Responder()
    {
        ask({Order::end});
        child_.join();
    }

    void connect(Endpoint& endpoint)
    {
        endpoint.connect(child_.link().get<Address>());
        child_.link().put(endpoint.address());
    }
    Answer ask(const Order& order)
    {
        child_.link().put(order);
        return child_.link().get<Answer>();
    }

  private:
    static void run(Child::Link& link)
    {
        Cuda cuda;
        Device device;
        {
            Endpoint endpoint(device);
            link.put(endpoint.address());
            endpoint.connect(link.get<Address>());
            std::unique_ptr<Buffer> buffer;
            static auto& forgotten = *new std::vector<Buffer*>; // at the end, too
            while (true) {
                const auto order = link.get<Order>();
                Answer answer;
                switch (order.what) {
                case Order::use:
                    buffer.reset();
                    buffer = std::make_unique<Buffer>(device, &cuda, order.kind, order.by_dmabuf);
                    answer.address = buffer->address();
                    answer.rkey = buffer->mr()->rkey;
                    break;
                case Order::set:
                    buffer->set(0, order.size, order.seed);
                    break;
                case Order::check:
                    answer.good = buffer->holds(0, order.size, order.seed);
                    break;
                case Order::receive:
                    EXPECT_EQ(post_receive(endpoint, buffer->sge(0, order.size)), 0);
                    break;
                case Order::await:
                    answer.wc = endpoint.next();
                    break;
                case Order::release:
                    cuda.release(buffer->address());
                    break;
                case Order::forget:
                    EXPECT_EQ(ibv_dereg_mr(buffer->mr()), 0);
                    forgotten.push_back(buffer.release()); // not to be undone again
                    break;
                case Order::end:
                    break;
                }
                link.put(answer);
                if (order.what == Order::end) {
                    break;
                }
            }
        }
    }

    Child child_;
};
using Order = Responder::Order;

// Every operation with one kind of memory here and one there.
void exchange(Endpoint& endpoint, Responder& responder, Buffer& own, Kind kind, bool by_dmabuf)
{
    const auto target = responder.ask({Order::use, kind, by_dmabuf});
    const std::size_t room = std::min<std::size_t>(own.size(), kind == Kind::small ? 100 : kRoom);
    unsigned seed = 1;
    for (const std::uint32_t size : kSizes) {
        if (size > room) {
            break;
        }
        own.set(0, size, ++seed);
        ASSERT_EQ(endpoint.post(IBV_WR_RDMA_WRITE, own.sge(0, size), target.address, target.rkey),
                  0);
        ASSERT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
        EXPECT_TRUE(responder.ask({Order::check, kind, by_dmabuf, size, seed}).good) << "WRITE";

        responder.ask({Order::set, kind, by_dmabuf, size, ++seed});
        ASSERT_EQ(endpoint.post(IBV_WR_RDMA_READ, own.sge(0, size), target.address, target.rkey),
                  0);
        ASSERT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
        EXPECT_TRUE(own.holds(0, size, seed)) << "READ";

        for (const auto opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM}) {
            // The receive is posted before, then after the message.
            for (const bool early : {true, false}) {
                own.set(0, size, ++seed);
                if (early) {
                    responder.ask({Order::receive, kind, by_dmabuf, size});
                }
                ASSERT_EQ(endpoint.post(opcode, own.sge(0, size), target.address, target.rkey), 0);
                if (!early) {
                    responder.ask({Order::receive, kind, by_dmabuf, size});
                }
                // The requester does not poll until the responder has it.
                const ibv_wc wc = responder.ask({Order::await}).wc;
                EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
                EXPECT_EQ(wc.byte_len, size);
                EXPECT_TRUE(responder.ask({Order::check, kind, by_dmabuf, size, seed}).good)
                    << (opcode == IBV_WR_SEND ? "SEND" : "WRITE_WITH_IMM");
                ASSERT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
            }
        }
    }
    // An atomic; the former value comes back.
    responder.ask({Order::set, kind, by_dmabuf, 8, ++seed});
    std::uint64_t former, changed;
    unsigned char bytes[8];
    fill(bytes, 8, seed);
    std::memcpy(&former, bytes, 8);
    ibv_sge list = own.sge(0, 8);
    ibv_send_wr wr = {};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic = {target.address, 5, 0, target.rkey};
    ASSERT_EQ(endpoint.post(wr), 0);
    ASSERT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(own.holds(0, 8, seed));
    ASSERT_EQ(endpoint.post(IBV_WR_RDMA_READ, own.sge(8, 8), target.address, target.rkey), 0);
    ASSERT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
    std::memcpy(&changed, own.get(8, 8).data(), 8);
    EXPECT_EQ(changed, former + 5);
}

// The other process has device 0.
void exchange_all(int ordinal)
{
    Responder responder;
    Cuda cuda(ordinal);
    if (cuda.context == nullptr) {
        GTEST_SKIP() << "this machine has no second GPU";
    }
    Device device;
    Endpoint endpoint(device);
    responder.connect(endpoint);
    for (const bool by_dmabuf : {false, true}) {
        for (const Kind here : kKinds) {
            if (!takes(here, by_dmabuf)) {
                continue;
            }
            Buffer own(device, &cuda, here, by_dmabuf);
            for (const Kind there : kKinds) {
                if (takes(there, by_dmabuf)) {
                    SCOPED_TRACE(std::string(name_of(here)) + " here, " + name_of(there) +
                                 " there, " + (by_dmabuf ? "dmabuf" : "peermem"));
                    exchange(endpoint, responder, own, there, by_dmabuf);
                }
            }
        }
    }
    CUcontext current = nullptr;
    EXPECT_CUDA(CUDA_CALL(cuda, cuCtxGetCurrent)(&current));
    EXPECT_EQ(current, cuda.context);
    CUcontext popped = nullptr;
    EXPECT_CUDA(CUDA_CALL(cuda, cuCtxPopCurrent)(&popped));
    EXPECT_CUDA(CUDA_CALL(cuda, cuCtxGetCurrent)(&current));
    EXPECT_EQ(current, nullptr); // nothing is left below it
}

TEST(DISABLED_Driver, BetweenProcesses)
{
    exchange_all(0);
}

// Memory of pools and of cuMemCreate is out of the other device's reach.
TEST(DISABLED_Driver, BetweenDevices)
{
    exchange_all(1);
}

// A requester that has no driver at all.
TEST(DISABLED_Driver, FromAProcessWithoutCuda)
{
    Responder responder;
    Device device;
    Endpoint endpoint(device);
    responder.connect(endpoint);
    Buffer own(device, nullptr, Kind::host, false);
    for (const Kind there : kKinds) {
        SCOPED_TRACE(name_of(there));
        exchange(endpoint, responder, own, there, true);
    }
    ASSERT_EQ(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW), nullptr);
}

TEST(DISABLED_Driver, WithinAProcess)
{
    Cuda cuda;
    Device device;
    Endpoint a(device), b(device);
    connect(a, b);
    for (const Kind from : kKinds) {
        Buffer source(device, &cuda, from, true);
        for (const Kind to : kKinds) {
            Buffer target(device, &cuda, to, true);
            SCOPED_TRACE(std::string(name_of(from)) + " to " + name_of(to));
            const auto size =
                static_cast<std::uint32_t>(std::min(source.size(), target.size()) - 16);
            source.set(3, size, 9);
            ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, source.sge(3, size), target.address() + 5,
                             target.mr()->rkey),
                      0);
            ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
            EXPECT_TRUE(target.holds(5, size, 9));
            source.set(0, size, 10);
            ASSERT_EQ(post_receive(b, target.sge(0, size)), 0);
            ASSERT_EQ(a.post(IBV_WR_SEND, source.sge(0, size)), 0);
            ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
            ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
            EXPECT_TRUE(target.holds(0, size, 10));
        }
    }
}

// Of the program's thread, or of one of the HCA's.
int processors_of(pid_t thread)
{
    cpu_set_t set;
    return sched_getaffinity(thread, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

// Where the copier runs while the program keeps to one processor.
TEST(DISABLED_Driver, Processors)
{
    const int all = processors_of(0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    Cuda cuda;
    Device device;
    Endpoint a(device), b(device);
    connect(a, b);
    Buffer source(device, &cuda, Kind::device, true), target(device, &cuda, Kind::device, true);
    ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, source.sge(0, 8), target.address(), target.mr()->rkey), 0);
    ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
    const char* which = std::getenv("SOFTHCA_PROCESSORS");
    const int expected = which != nullptr && std::string(which) == "program" ? 1 : all;
    int threads = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(task.path() / "comm");
        std::string name;
        if (std::getline(file, name) && name == "softhca") {
            ++threads;
            EXPECT_EQ(processors_of(std::stoi(task.path().filename())), expected);
        }
    }
    EXPECT_GE(threads, 1);
}

// Scatter/gather lists of both kinds, cut differently on the two sides.
TEST(DISABLED_Driver, MixedLists)
{
    Cuda cuda;
    Device device;
    Endpoint a(device), b(device);
    connect(a, b);
    Buffer host(device, &cuda, Kind::host, true), gpu(device, &cuda, Kind::device, true);
    Buffer to_host(device, &cuda, Kind::host, true), to_gpu(device, &cuda, Kind::vmm, true);
    host.set(0, 10000, 1);
    gpu.set(0, 10000, 2);
    ibv_sge in[] = {to_gpu.sge(100, 5000), to_host.sge(0, 15000)};
    ibv_recv_wr receive = {0, nullptr, in, 2};
    ibv_recv_wr* bad;
    ASSERT_EQ(ibv_post_recv(b.qp, &receive, &bad), 0);
    ibv_sge out[] = {host.sge(0, 4000), gpu.sge(0, 10000), host.sge(4000, 6000)};
    ibv_send_wr send = {};
    send.sg_list = out;
    send.num_sge = 3;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(a.post(send), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    const ibv_wc wc = b.next();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, 20000u);
    auto result = to_gpu.get(100, 5000);
    const auto rest = to_host.get(0, 15000);
    result.insert(result.end(), rest.begin(), rest.end());
    auto expected = host.get(0, 4000);
    const auto middle = gpu.get(0, 10000), last = host.get(4000, 6000);
    expected.insert(expected.end(), middle.begin(), middle.end());
    expected.insert(expected.end(), last.begin(), last.end());
    EXPECT_EQ(result, expected);
}

// Requests behind one that is being copied complete after it, in order; the copies are slow.
TEST(DISABLED_Driver, Order)
{
    Responder responder;
    Cuda cuda;
    Device device;
    Endpoint endpoint(device);
    responder.connect(endpoint);
    const auto target = responder.ask({Order::use, Kind::device, true});
    Buffer gpu(device, &cuda, Kind::device, true), host(device, &cuda, Kind::host, true);
    gpu.set(0, 1000, 5);
    host.set(0, 1000, 6);
    constexpr unsigned kCount = 10;
    for (unsigned i = 0; i < kCount; ++i) { // to the same bytes: the last one stays
        Buffer& own = i % 2 == 0 ? gpu : host;
        ASSERT_EQ(
            endpoint.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), target.address, target.rkey, i), 0);
    }
    for (unsigned i = 0; i < kCount; ++i) {
        const ibv_wc wc = endpoint.next();
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.wr_id, i);
    }
    EXPECT_TRUE(responder.ask({Order::check, Kind::device, true, 1000, 6}).good);
}

// A QP that goes into the error state, or goes, while its copies are under way.
TEST(DISABLED_Driver, EndWhileCopying)
{
    Responder responder;
    Cuda cuda;
    Device device;
    Buffer own(device, &cuda, Kind::device, true);
    Endpoint endpoint(device);
    responder.connect(endpoint);
    const auto target = responder.ask({Order::use, Kind::device, true});
    constexpr unsigned kCount = 5;
    for (unsigned i = 0; i < kCount; ++i) {
        ASSERT_EQ(
            endpoint.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), target.address, target.rkey, i), 0);
    }
    EXPECT_EQ(endpoint.next().status, IBV_WC_SUCCESS); // the second is being copied now
    ASSERT_EQ(endpoint.to_error(), 0);
    ASSERT_EQ(endpoint.post(IBV_WR_RDMA_WRITE, own.sge(0, 8), target.address, target.rkey, kCount),
              0);
    unsigned flushed = 0;
    for (unsigned i = 1; i <= kCount; ++i) {
        const ibv_wc wc = endpoint.next();
        EXPECT_EQ(wc.wr_id, i);
        flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
        EXPECT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR || (flushed == 0 && wc.status == 0));
    }
    EXPECT_GE(flushed, 1u); // the one posted afterwards, at least
    EXPECT_TRUE(endpoint.is_idle());
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), own.address() + 2000, own.mr()->rkey), 0);
}

// A window on device memory, bound behind a copy and used.
TEST(DISABLED_Driver, Window)
{
    Cuda cuda;
    Device device;
    const CUdeviceptr memory = cuda.allocate(kRoom);
    ibv_mr* mr = ibv_reg_mr(device.pd, reinterpret_cast<void*>(memory), kRoom,
                            kAllAccess | IBV_ACCESS_MW_BIND);
    ASSERT_NE(mr, nullptr);
    ibv_mw* mw = ibv_alloc_mw(device.pd, IBV_MW_TYPE_2);
    ASSERT_NE(mw, nullptr);
    {
        Endpoint a(device), b(device);
        connect(a, b);
        Buffer own(device, &cuda, Kind::device, true);
        own.set(0, 1000, 1);
        ASSERT_EQ(b.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), memory + 5000, mr->rkey), 0);
        ibv_send_wr wr = {};
        wr.opcode = IBV_WR_BIND_MW;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.bind_mw = {mw, ibv_inc_rkey(mw->rkey), {mr, memory, 1000, IBV_ACCESS_REMOTE_WRITE}};
        ASSERT_EQ(b.post(wr), 0);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), memory, wr.bind_mw.rkey), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        std::vector<unsigned char> bytes(1000);
        for (const std::size_t offset : {0, 5000}) {
            cuda.get(bytes.data(), memory + offset, bytes.size());
            EXPECT_TRUE(is_filled(bytes.data(), bytes.size(), 1));
        }
        ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), memory + 1, wr.bind_mw.rkey), 0);
        EXPECT_EQ(a.next().status, IBV_WC_REM_ACCESS_ERR);
        EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    cuda.release(memory);
}

// Memory that is no longer what was registered.
TEST(DISABLED_Driver, FreedMemory)
{
    Responder responder;
    Cuda cuda;
    Device device;
    const CUdeviceptr memory = cuda.allocate(kRoom);
    ibv_mr* mr = ibv_reg_mr(device.pd, reinterpret_cast<void*>(memory), kRoom, kAllAccess);
    ASSERT_NE(mr, nullptr);
    {
        Endpoint endpoint(device);
        responder.connect(endpoint);
        const auto target = responder.ask({Order::use, Kind::pool, true});
        cuda.release(memory);
        const ibv_sge stale = {memory, 1000, mr->lkey};
        ASSERT_EQ(endpoint.post(IBV_WR_RDMA_WRITE, stale, target.address, target.rkey), 0);
        EXPECT_EQ(endpoint.next().status, IBV_WC_LOC_PROT_ERR);
        EXPECT_EQ(endpoint.state(), IBV_QPS_ERR);
    }
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(DISABLED_Driver, FreedMemoryThere)
{
    Responder responder;
    Cuda cuda;
    Device device;
    Buffer own(device, &cuda, Kind::device, true);
    Endpoint endpoint(device);
    responder.connect(endpoint);
    const auto target = responder.ask({Order::use, Kind::pool, true});
    responder.ask({Order::release});
    ASSERT_EQ(endpoint.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), target.address, target.rkey), 0);
    EXPECT_EQ(endpoint.next().status, IBV_WC_REM_ACCESS_ERR);
    responder.ask({Order::forget});
}

TEST(DISABLED_Driver, DeregisteredMemoryThere)
{
    Responder responder;
    Cuda cuda;
    Device device;
    Buffer own(device, &cuda, Kind::device, true);
    Endpoint endpoint(device);
    responder.connect(endpoint);
    const auto target = responder.ask({Order::use, Kind::vmm, true});
    ASSERT_EQ(endpoint.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), target.address, target.rkey), 0);
    EXPECT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
    responder.ask({Order::forget});
    ASSERT_EQ(endpoint.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), target.address, target.rkey), 0);
    EXPECT_EQ(endpoint.next().status, IBV_WC_REM_ACCESS_ERR);
}

// An address that is used again for other memory there.
TEST(DISABLED_Driver, ReusedAddressThere)
{
    Responder responder;
    Cuda cuda;
    Device device;
    Buffer own(device, &cuda, Kind::device, true);
    Endpoint endpoint(device);
    responder.connect(endpoint);
    for (const Kind kind : {Kind::device, Kind::vmm}) {
        for (unsigned seed = 1; seed < 6; ++seed) {
            const auto target = responder.ask({Order::use, kind, true});
            own.set(0, 1000, seed);
            ASSERT_EQ(
                endpoint.post(IBV_WR_RDMA_WRITE, own.sge(0, 1000), target.address, target.rkey), 0);
            ASSERT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
            EXPECT_TRUE(responder.ask({Order::check, kind, true, 1000, seed}).good);
        }
    }
}

// Whoever patches the driver's functions, as UCX does to learn what is freed, may wait there for a
// lock that the program holds while it deregisters memory.
std::atomic<bool> unmapping, deregistered;

TEST(DISABLED_Driver, UnmappingWaitsForTheProgram)
{
    Responder responder;
    Cuda cuda;
    if (Cuda::is_real()) {
        GTEST_SKIP() << "softcuda alone tells of calls";
    }
    Device device;
    Buffer own(device, &cuda, Kind::host, false);
    std::vector<unsigned char> other(4096);
    ibv_mr* mr = ibv_reg_mr(device.pd, other.data(), other.size(), kAllAccess);
    ASSERT_NE(mr, nullptr);
    Endpoint endpoint(device);
    responder.connect(endpoint);
    const auto read = [&] {
        const auto target = responder.ask({Order::use, Kind::vmm, true});
        EXPECT_EQ(endpoint.post(IBV_WR_RDMA_READ, own.sge(0, 1000), target.address, target.rkey),
                  0);
    };
    read();
    ASSERT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
    cuda.call<void (*)(void (*)(const char*))>("softcuda_watch_calls")([](const char* name) {
        if (std::strcmp(name, "cuMemUnmap") == 0) {
            unmapping = true;
            unmapping.notify_all();
            deregistered.wait(false);
        }
    });
    read(); // other memory: what was opened before is given up
    unmapping.wait(false);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    deregistered = true;
    deregistered.notify_all();
    EXPECT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
}

// What an HCA does not take.
TEST(DISABLED_Driver, Refused)
{
    Cuda cuda;
    Device device;
    const auto reg = [&](CUdeviceptr memory, std::size_t size) {
        errno = 0;
        EXPECT_EQ(ibv_reg_mr(device.pd, reinterpret_cast<void*>(memory), size, kAllAccess),
                  nullptr);
        return errno;
    };
    const CUdeviceptr managed = cuda.allocate(kRoom, Kind::managed);
    EXPECT_EQ(reg(managed, kRoom), EFAULT);
    const CUdeviceptr pool = cuda.allocate(kRoom, Kind::pool);
    EXPECT_EQ(reg(pool, kRoom), EFAULT);
    const CUdeviceptr memory = cuda.allocate(kRoom);
    EXPECT_EQ(reg(memory + kRoom - 10, 11), EFAULT); // beyond its end
    CUdeviceptr start = 0;
    const int fd = cuda.export_pages(memory, kRoom, start);
    ASSERT_GE(fd, 0);
    errno = 0;
    EXPECT_EQ(ibv_reg_dmabuf_mr(device.pd, 0, kRoom, 0x1000, fd, kAllAccess), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP); // an address of our own choice: only its own is known
    close(fd);
    for (const CUdeviceptr pointer : {managed, pool, memory}) {
        cuda.release(pointer);
    }
}

class Driver : public ::testing::TestWithParam<const char*> {};

TEST_P(Driver, Copies)
{
    EXPECT_TRUE(run_tests(std::string("DISABLED_Driver.") + GetParam(),
                          {"SOFTHCA_DEVICE_COPY=driver", "SOFTCUDA_MEMORY=16G"}));
}
INSTANTIATE_TEST_SUITE_P(Memory, Driver,
                         ::testing::Values("BetweenProcesses", "BetweenDevices",
                                           "FromAProcessWithoutCuda", "WithinAProcess",
                                           "MixedLists", "FreedMemory", "FreedMemoryThere",
                                           "DeregisteredMemoryThere", "ReusedAddressThere",
                                           "UnmappingWaitsForTheProgram", "Refused"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Driver_, Processors)
{
    for (const char* which : {"any", "program"}) {
        EXPECT_TRUE(
            run_tests("DISABLED_Driver.Processors",
                      {"SOFTHCA_DEVICE_COPY=driver", std::string("SOFTHCA_PROCESSORS=") + which}))
            << which;
    }
}

TEST(Driver_, StagedCopies)
{
    for (const char* test : {"BetweenProcesses", "WithinAProcess"}) {
        EXPECT_TRUE(run_tests(std::string("DISABLED_Driver.") + test,
                              {"SOFTHCA_DEVICE_COPY=staged", "SOFTCUDA_MEMORY=16G"}))
            << test;
    }
}

// While copies take so long that posting is over before the first is done.
TEST(Driver_, SlowCopies)
{
    for (const char* test : {"Order", "EndWhileCopying", "Window"}) {
        EXPECT_TRUE(run_tests(std::string("DISABLED_Driver.") + test,
                              {"SOFTHCA_DEVICE_COPY=driver", "SOFTCUDA_COPY_LATENCY_US=20000"}))
            << test;
    }
}

} // namespace
