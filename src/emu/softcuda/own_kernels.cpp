// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The kernels of this project compiled for the host, and registered as those of the same names.
#include "emu/softcuda/softcuda.h"

#include "kernels/device.hpp"

#include <cstring>

#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace gdr::kernels {

namespace {

constexpr int kIllegalAddress = 700;    // CUDA_ERROR_ILLEGAL_ADDRESS
constexpr int kMisalignedAddress = 716; // CUDA_ERROR_MISALIGNED_ADDRESS

/// Ends a kernel.
struct Failure {
    int result;
};

/// Memory as the kernel that this thread runs sees it; what was last used is remembered.
class Memory {
  public:
    explicit Memory(const softcuda_launch* launch) : launch_(launch) {}

    const softcuda_range& range(uint64_t address, size_t size, size_t alignment)
    {
        if (address % alignment != 0) {
            throw Failure{kMisalignedAddress};
        }
        for (const softcuda_range& range : known_) {
            if (address - range.address < range.length &&
                size <= range.length - (address - range.address)) {
                return range;
            }
        }
        softcuda_range& range = known_[next_++ % kKnown];
        if (softcuda_kernel_memory(launch_, reinterpret_cast<const void*>(address), &range) != 0 ||
            size > range.length - (address - range.address)) {
            throw Failure{kIllegalAddress};
        }
        return range;
    }

  private:
    static constexpr size_t kKnown = 4;
    const softcuda_launch* launch_;
    softcuda_range known_[kKnown]{};
    size_t next_ = 0;
};

thread_local Memory* memory = nullptr;

template <typename Value>
Value load(uint64_t address)
{
    const softcuda_range& range = memory->range(address, sizeof(Value), alignof(Value));
    Value value;
    std::memcpy(&value, range.bytes + range.view + (address - range.address), sizeof(value));
    return value;
}

template <typename Value>
void store(uint64_t address, Value value)
{
    const softcuda_range& range = memory->range(address, sizeof(Value), alignof(Value));
    char* bytes = range.bytes + (address - range.address);
    std::memcpy(bytes, &value, sizeof(value));
    if (range.view != 0) {
        std::memcpy(bytes + range.view, &value, sizeof(value));
    }
}

template <typename Arguments, typename Body>
int run(const softcuda_launch* launch, const void* parameter, Body body)
{
    Arguments arguments;
    std::memcpy(&arguments, parameter, sizeof(arguments));
    const uint64_t count = uint64_t{launch->grid[0]} * launch->block[0];
    Memory own(launch);
    memory = &own;
    int result = 0;
    try {
        for (uint64_t index = 0; index < count; ++index) {
            body(arguments, Thread{index, count});
        }
    } catch (const Failure& failure) {
        result = failure.result;
    }
    memory = nullptr;
    return result;
}

} // namespace

} // namespace gdr::kernels

#define GDR_KERNEL(name, body, Arguments)                                                          \
    [[maybe_unused]] const int name =                                                              \
        softcuda_kernel(#name, [](const softcuda_launch* launch, void* const* parameters) {        \
            return run<Arguments>(                                                                 \
                launch, parameters[0],                                                             \
                [](const Arguments& arguments, Thread thread) { body(arguments, thread); });       \
        });

#include "kernels/pack_kernels.hpp"
#include "kernels/reduce_kernels.hpp"
