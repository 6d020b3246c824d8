// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_lookup: what UCP's look-up of a buffer's memory type answers before, while and after a page
// is host memory that has been transferred, or device memory. UCS_ERR_NO_ELEM is UCP's word for
// host memory; UCS_OK comes with what the memory is; all else makes it ask its memory domains.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/cuda.hpp"
#include "support/emulation.hpp"
#include "support/failure.hpp"
#include "support/memory.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

extern "C" ucs_status_t ucs_memtype_cache_lookup(const void* address, size_t length, void* info);

namespace ucptest {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSize = 1024;
constexpr size_t kLarge = 1 << 20; // what malloc maps by itself
constexpr ucp_tag_t kTag = 0x10;

// The beginning of ucs_memory_info_t, the same in every UCX, and room.
struct alignas(64) Info {
    ucs_memory_type_t type;
    uint8_t sys_dev;
    void* base_address;
    size_t alloc_length;
    char room[256];
};

bool taken_for_host(const void* address)
{
    Info info;
    return ucs_memtype_cache_lookup(address, kSize, &info) == UCS_ERR_NO_ELEM;
}

// Whether it is told what device memory this is, of so many bytes from there on, when it asks for
// these.
bool known_as_device(const void* address, size_t length, size_t asked = kSize)
{
    Info info;
    return ucs_memtype_cache_lookup(address, asked, &info) == UCS_OK &&
           info.type == UCS_MEMORY_TYPE_CUDA &&
           static_cast<char*>(info.base_address) + info.alloc_length >=
               static_cast<const char*>(address) + length;
}

class Test {
  public:
    Test() : worker_(UCP_FEATURE_TAG, false)
    {
        const auto address = worker_.address();
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        require_ok(ucp_ep_create(worker_.handle(), &params, &ep_), "ucp_ep_create");
    }

    // To itself.
    void transfer(const void* from, void* to, size_t size = kSize)
    {
        const ucp_request_param_t nothing = {};
        void* receive = ucp_tag_recv_nbx(worker_.handle(), to, size, kTag, ~ucp_tag_t{0}, &nothing);
        finish(ucp_tag_send_nbx(ep_, from, size, kTag, &nothing));
        finish(receive);
    }

    void close() { finish(ucp_ep_close_nb(ep_, UCP_EP_CLOSE_MODE_FLUSH)); }

  private:
    void finish(void* request)
    {
        if (request == nullptr) {
            return;
        }
        require(!UCS_PTR_IS_ERR(request), "an operation failed");
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(worker_.handle());
        }
        require_ok(ucp_request_check_status(request), "a transfer");
        ucp_request_free(request);
    }

    Worker worker_;
    ucp_ep_h ep_ = nullptr;
};

void* map(void* where = nullptr)
{
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* memory = mmap(where, kPage, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    require(memory != MAP_FAILED, "mmap");
    return memory;
}

// known: host memory is remembered, which it is where unmapping is seen.
int run(bool known)
{
    Report report("ucp_lookup");
    if (!cuda::available(0)) {
        return skip_without_cuda(0);
    }
    const auto expect = [&](bool expected, bool seen, const char* what) {
        if (seen != expected) {
            report.failed(format("%s is %s for host memory", what, seen ? "taken" : "not taken"));
        }
    };
    report.begin("host memory", deadline_s());
    Test test;
    void* from = map();
    void* to = map();
    expect(false, taken_for_host(from), "memory that was never transferred");
    test.transfer(from, to);
    expect(known, taken_for_host(from), "memory that was sent");
    expect(known, taken_for_host(to), "memory that was received");
    report.begin("unmapped memory", deadline_s());
    munmap(from, kPage);
    expect(false, taken_for_host(from), "memory that was unmapped");
    expect(known, taken_for_host(to), "other memory");
    // As allocators do that make the system call themselves; the new mapping may be CUDA's.
    report.begin("memory unmapped behind UCX's back, and mapped anew", deadline_s());
    void* again = map();
    test.transfer(again, to);
    expect(known, taken_for_host(again), "memory that was sent");
    require(syscall(SYS_munmap, again, kPage) == 0, "munmap");
    require(map(again) == again, "another mapping came between");
    expect(false, taken_for_host(again), "memory that was mapped anew");
    munmap(again, kPage);
    report.begin("device memory", deadline_s());
    for (const MemoryKind kind : {MemoryKind::kCuda, MemoryKind::kVmm, MemoryKind::kManaged}) {
        Memory device(kind, kSize);
        test.transfer(device.address(), to);
        test.transfer(to, device.address());
        expect(false, taken_for_host(device.address()), name(kind));
        const bool seen = known_as_device(device.address(), kSize);
        if (seen != (kind == MemoryKind::kCuda)) {
            report.failed(format("%s is %sknown as device memory", name(kind), seen ? "" : "not "));
        }
    }
    report.begin("device memory whose size is no multiple of 16", deadline_s());
    for (const size_t size : {size_t{8}, kSize - 1}) {
        Memory device(MemoryKind::kCuda, size);
        const size_t blocks = (size + 15) / 16 * 16; // what UCP 1.16 and 1.17 ask for
        for (int i = 0; i < 2; ++i) { // 1.16 registers the blocks, anew, after it has asked
            test.transfer(device.address(), to, size);
        }
        const Emulation emulation;
        const uint64_t calls = emulation.cuda_calls();
        if (!known_as_device(device.address(), size, blocks)) {
            report.failed(format("%zu bytes of %zu are not known", blocks, size));
        }
        if (emulation.cuda_calls() - calls > 1) {
            report.failed("the driver is asked more than once");
        }
        if (known_as_device(device.address(), size, size + 256)) {
            report.failed("memory behind it is taken for it");
        }
    }
    report.begin("device memory where freed device memory was", deadline_s());
    void* address = nullptr;
    {
        Memory first(MemoryKind::kCuda, kLarge);
        address = first.address();
        test.transfer(address, to);
        if (!known_as_device(address, kLarge)) {
            report.failed("memory that was sent is not known");
        }
    }
    if (known_as_device(address, kSize)) {
        report.failed("memory that was freed is known");
    }
    {
        Memory second(MemoryKind::kCuda, kLarge / 2);
        require(second.address() == address, "the address was not given out again");
        test.transfer(second.address(kPage), to); // all of it is in order now for transfers
        if (known_as_device(address,
                            kLarge)) { // UCX 1.16 and later have asked about its start, too
            report.failed("what was told of freed memory is told of that behind it");
        }
        test.transfer(address, to);
        if (!known_as_device(address, kLarge / 2) || known_as_device(address, kLarge)) {
            report.failed("memory at an address that was given out again is not known");
        }
    }
    report.begin("managed memory where freed memory was", deadline_s());
    auto* freed = static_cast<char*>(std::malloc(kLarge));
    for (size_t page = 0; page < kLarge; page += kPage) {
        test.transfer(freed + page, to);
    }
    std::free(freed);
    Memory managed(MemoryKind::kManaged, kLarge);
    bool any = false;
    for (size_t page = 0; page < kLarge; page += kPage) {
        any = any || taken_for_host(managed.address(page));
    }
    expect(false, any, "managed memory");
    report.begin("end", deadline_s());
    munmap(to, kPage);
    expect(false, taken_for_host(to), "memory that was unmapped");
    test.close();
    report.end();
    std::printf("%u cases, %u failed\n", report.cases(), report.failures());
    return report.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
try {
    return ucptest::run(argc < 2 || std::string(argv[1]) != "unknown");
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
}
