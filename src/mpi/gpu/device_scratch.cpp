// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/device_scratch.hpp"

#include "cuda/allocation.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace gdr::mpi {

class KeptScratch {
  public:
    using Memory = DeviceScratch::Memory;

    Memory take(const cuda::Driver& driver, const ThreadStream& stream, size_t length)
    {
        constexpr size_t kSmallest = 65536;
        Memory memory = {stream.device(), stream.context_id(), nullptr,
                         std::bit_ceil(std::max(length, kSmallest))};
        if (find(memory)) {
            return memory;
        }
        void* data = nullptr;
        cuda::check(cuda::allocate(driver, cuda::MemoryKind::device, stream.context(),
                                   memory.length, &data),
                    "cuMemAlloc");
        memory.data = static_cast<char*>(data);
        return memory;
    }

    void keep(const Memory& memory)
    {
        try {
            const std::lock_guard guard(mutex_);
            if (bytes_ + memory.length <= kKeptScratchBytes) {
                kept_.push_back(memory);
                bytes_ += memory.length;
                return;
            }
        } catch (const std::bad_alloc&) {
            // There is no memory to remember it by.
        }
        if (const cuda::Driver* driver = cuda::open_driver()) {
            cuda::release(*driver, memory.data);
        }
    }

  private:
    bool find(Memory& memory)
    {
        const std::lock_guard guard(mutex_);
        const auto found = std::ranges::find_if(kept_, [&](const Memory& kept) {
            return kept.device == memory.device && kept.context_id == memory.context_id &&
                   kept.length == memory.length;
        });
        if (found == kept_.end()) {
            return false;
        }
        memory = *found;
        bytes_ -= memory.length;
        *found = kept_.back();
        kept_.pop_back();
        return true;
    }

    std::mutex mutex_;
    std::vector<Memory> kept_;
    size_t bytes_ = 0;
};

namespace {

KeptScratch& kept()
{
    static auto& instance = *new KeptScratch; // threads may end after static destructors
    return instance;
}

} // namespace

DeviceScratch::DeviceScratch(const cuda::Driver& driver, const ThreadStream& stream, size_t length)
    : memory_(kept().take(driver, stream, length))
{
}

DeviceScratch::DeviceScratch(DeviceScratch&& other) noexcept
    : memory_(std::exchange(other.memory_, {}))
{
}

DeviceScratch& DeviceScratch::operator=(DeviceScratch&& other) noexcept
{
    std::swap(memory_, other.memory_);
    return *this;
}

DeviceScratch::~DeviceScratch()
{
    if (memory_.data != nullptr) {
        kept().keep(memory_);
    }
}

} // namespace gdr::mpi
