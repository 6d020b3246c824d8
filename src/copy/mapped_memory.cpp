// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Classifies the two addresses and maps the device memory.
#include "copy/mapped_memory.hpp"

#include "log/log.hpp"
#include "mem/cpu_registrar.hpp"
#include "mem/cuda_memory.hpp"
#include "mem/host_pages.hpp"
#include "mem/unmap_watch.hpp"

#include <atomic>
#include <exception>
#include <mutex>

namespace gdr::copy {

namespace {

std::shared_ptr<mem::Cache> shared_cache(cuda::Gdrcopy& library)
{
    static std::mutex mutex;
    static auto& held = *new std::weak_ptr<mem::Cache>;
    const std::lock_guard guard(mutex);
    std::shared_ptr<mem::Cache> cache = held.lock();
    if (!cache) {
        cache = std::make_shared<mem::Cache>(std::make_unique<mem::CpuRegistrar>(library));
        held = cache;
    }
    return cache;
}

} // namespace

// Holds a region for the length of a copy.
class MappedMemory::Mapped {
  public:
    explicit Mapped(mem::Region* region) : region_(region) {}
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    ~Mapped()
    {
        if (region_ != nullptr) {
            mem::Cache::release(region_);
        }
    }

    explicit operator bool() const { return region_ != nullptr; }
    const cuda::CpuMapping* operator->() const { return &region_->mapping; }

  private:
    mem::Region* const region_;
};

std::unique_ptr<MappedMemory> MappedMemory::open(const cuda::Driver& driver, size_t most_got,
                                                 std::string* why_not)
{
    cuda::Gdrcopy* library = cuda::Gdrcopy::instance(why_not);
    if (library == nullptr) {
        return nullptr;
    }
    if (!mem::unmaps_are_seen()) {
        *why_not = "UCX's memory hooks are off (UCX_MEM_EVENTS), without which nothing is known of "
                   "host memory";
        return nullptr;
    }
    try {
        return std::unique_ptr<MappedMemory>(
            new MappedMemory(driver, most_got, shared_cache(*library)));
    } catch (const std::exception& error) {
        *why_not = error.what();
        return nullptr;
    }
}

bool MappedMemory::put(void* device, const void* host, size_t length)
{
    if (length > kMostPut) {
        return false;
    }
    const Mapped mapped = map(device, host, length);
    if (!mapped) {
        return false;
    }
    mapped->write(reinterpret_cast<uintptr_t>(device), host, length);
    return true;
}

bool MappedMemory::get(void* host, const void* device, size_t length)
{
    if (length > most_got_) {
        return false;
    }
    const Mapped mapped = map(device, host, length);
    if (!mapped) {
        return false;
    }
    mapped->read(host, reinterpret_cast<uintptr_t>(device), length);
    return true;
}

MappedMemory::Mapped MappedMemory::map(const void* device, const void* host, size_t length)
{
    const auto address = reinterpret_cast<uintptr_t>(device);
    if (length == 0 || mem::host_pages::contains(address) || !is_plain_host(host, length) ||
        cuda::open_driver() == nullptr) { // in a forked child
        return Mapped(nullptr);
    }
    if (!refused_.empty() && refused_.contains(cuda::buffer_id(driver_, device))) {
        return Mapped(nullptr);
    }
    mem::Failure failure;
    mem::Region* region = cache_->acquire(address, length, mem::Access::remote, &failure);
    if (region == nullptr) {
        refuse(device, failure.cause);
    }
    return Mapped(region);
}

// Whether all pages are known to be readable host memory. Unknown pages cost a system call each.
bool MappedMemory::is_plain_host(const void* host, size_t length)
{
    constexpr uintptr_t kPage = uintptr_t{1} << GDR_PAGE_SHIFT;
    const auto first = reinterpret_cast<uintptr_t>(host);
    for (uintptr_t at = first; at < first + length; at = (at & ~(kPage - 1)) + kPage) {
        if (mem::host_pages::contains(at)) {
            continue;
        }
        mem::find_cuda_memory(driver_, reinterpret_cast<const void*>(at), true);
        if (!mem::host_pages::contains(at)) {
            return false;
        }
    }
    return true;
}

void MappedMemory::refuse(const void* device, const std::string& cause)
{
    constexpr size_t kMostRefused = 4096; // the set is cleared when it is full
    const uint64_t id = cuda::buffer_id(driver_, device);
    if (id == 0) {
        return;
    }
    if (refused_.size() >= kMostRefused) {
        refused_.clear();
    }
    refused_.insert(id);
    static std::atomic<bool> logged{false};
    log::message(logged.exchange(true) ? log::Level::debug : log::Level::info, __FILE__, __LINE__,
                 "GPU memory at %p is not mapped by gdrcopy, so small copies to and from it "
                 "take CUDA's way, which is slower: %s",
                 device, cause.c_str());
}

} // namespace gdr::copy
