// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies on one stream for each GPU, which threads share. The first copy makes it; so does the
// first after a reset of the GPU.
#include "openmpi/copies.hpp"

#include "cuda/context.hpp"
#include "mem/process_memory.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace gdr::openmpi {

namespace {

class DeviceStream {
  public:
    DeviceStream(const cuda::Driver& driver, CUdevice device)
        : driver_(driver), context_(driver, device),
          context_id_(cuda::context_id(driver, context_.handle()))
    {
        const cuda::CurrentContext current(driver_, context_.handle());
        cuda::check(driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    }

    bool alive() const { return context_id_ == cuda::context_id(driver_, context_.handle()); }

    void copy(void* to, const void* from, size_t length) const
    {
        const cuda::CurrentContext current(driver_, context_.handle());
        cuda::check(driver_.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                          reinterpret_cast<CUdeviceptr>(from), length, stream_),
                    "cuMemcpyAsync");
        cuda::check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
    }

  private:
    const cuda::Driver& driver_;
    const cuda::PrimaryContext context_;
    const unsigned long long context_id_;
    // Ends with the context: destroying it would call CUDA while the process ends.
    CUstream stream_ = nullptr;
};

std::shared_ptr<const DeviceStream> stream_of(const cuda::Driver& driver, CUdevice device)
{
    static auto& mutex = *new std::mutex; // calls may come after static destructors
    static auto& streams = *new std::map<CUdevice, std::shared_ptr<const DeviceStream>>;
    const std::lock_guard guard(mutex);
    std::shared_ptr<const DeviceStream>& stream = streams[device];
    if (!stream || !stream->alive()) {
        stream = std::make_shared<const DeviceStream>(driver, device);
    }
    return stream;
}

} // namespace

std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address)
{
    if (address == nullptr || mem::in_process_memory(reinterpret_cast<uintptr_t>(address))) {
        return {};
    }
    const cuda::Pointer memory = cuda::classify(driver, address);
    if (memory.kind != cuda::MemoryKind::device) {
        return {};
    }
    cuda::finish_memops(driver, memory);
    return memory;
}

void copy(const cuda::Driver& driver, void* to, const void* from, size_t length)
{
    if (length == 0) {
        return;
    }
    auto memory = find_device_memory(driver, from);
    if (!memory) {
        memory = find_device_memory(driver, to);
    }
    if (memory) {
        stream_of(driver, memory->device)->copy(to, from, length);
    } else {
        std::memcpy(to, from, length);
    }
}

void move(const cuda::Driver& driver, void* to, const void* from, size_t length)
{
    const auto at = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
    if (at >= source + length || source >= at + length) {
        copy(driver, to, from, length);
    } else if (find_device_memory(driver, from)) {
        const std::unique_ptr<char[]> between(new char[length]);
        copy(driver, between.get(), from, length);
        copy(driver, to, between.get(), length);
    } else {
        std::memmove(to, from, length);
    }
}

} // namespace gdr::openmpi
