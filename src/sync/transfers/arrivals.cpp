// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/transfers/arrivals.hpp"

#include "cuda/context.hpp"
#include "log/log.hpp"
#include "sync/ucx-gdr/ugdr_transfer.cuh"

#include <vector>

namespace gdr::sync {
namespace {

constexpr size_t kWord = sizeof(Word);
constexpr size_t kCountersOfWord = 2; // which have 32 bits

void add(BlobWriter& letter, const ugdr_mem& memory)
{
    letter.add_counted(memory.blob.data(), memory.blob.size());
}

} // namespace

Arrivals::Arrivals(Network& network, bool gpu, unsigned partitions)
    : count_(partitions + (partitions > 1 ? 1 : 0))
{
    const size_t all = count_ + 2;
    const cuda::Driver* driver =
        cuda::open_driver() != nullptr ? cuda::initialised_driver() : nullptr;
    if (driver != nullptr && driver->cuCtxGetCurrent(&context_) == CUDA_SUCCESS &&
        context_ != nullptr) {
        abilities_ = current_abilities(*driver);
        pinned_.emplace(*driver, context_, all);
        words_ = pinned_->words.host;
        for (size_t i = 0; i < all; ++i) {
            words_[i].value.store(0, std::memory_order_relaxed);
        }
    } else {
        heap_ = std::make_unique<Word[]>(all);
        words_ = heap_.get();
    }
    memory_ = network.map(words_, count_ * kWord);
    if (gpu) {
        try {
            on_gpu_.emplace(*driver, context_, count_ * kCountersOfWord);
            gpu_memory_ =
                network.map(reinterpret_cast<void*>(on_gpu_->words.device), count_ * kWord);
        } catch (...) {
            network.unmap(memory_);
            throw;
        }
    }
}

void Arrivals::describe(BlobWriter& letter) const
{
    add(letter, *memory_);
    letter.add(static_cast<uint32_t>(on_gpu() ? 1 : 0));
    if (on_gpu()) {
        add(letter, *gpu_memory_);
    }
}

CUdeviceptr Arrivals::words() const
{
    return on_gpu() ? on_gpu_->words.device : pinned_->words.device;
}

CUdeviceptr Arrivals::iteration() const
{
    return pinned_->words.device + count_ * kWord;
}

void Arrivals::end(ucs_status_t status)
{
    words_[count_ + 1].value.store(static_cast<uint64_t>(-status), std::memory_order_release);
    for (unsigned i = 0; i < count_; ++i) {
        words_[i].value.store(ugdr_detail::kNeverMore, std::memory_order_release);
    }
    if (!on_gpu()) {
        return;
    }
    try {
        if (const cuda::Driver* driver = cuda::open_driver()) {
            const std::vector<uint64_t> ended(count_, ugdr_detail::kNeverMore);
            const cuda::CurrentContext current(*driver, context_);
            write_gpu_memory(*driver, on_gpu_->words.device, ended.data(), count_ * kWord);
        }
    } catch (const cuda::Error& error) {
        gdr_log(error, "a stream may wait for a peer that is gone: %s", error.what());
    }
}

void Arrivals::give_back(Network& network)
{
    network.unmap(memory_);
    if (on_gpu()) {
        network.unmap(gpu_memory_);
    }
}

} // namespace gdr::sync
