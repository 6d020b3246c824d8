// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI returns the memory that it was given; the table finds the application's buffer by it.
#include "mpi/staging/attached_buffers.hpp"

#include "mpi/gpu/device_memory.hpp"
#include "mpi/staging/shadow_buffer.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace gdr::mpi {

namespace {

struct Attached {
    std::unique_ptr<std::byte[]> memory;
    void* buffer; // the application's
};

struct Table {
    std::mutex mutex;
    std::map<void*, Attached> by_memory;
};

Table& table()
{
    static auto& instance = *new Table; // static destructors may still call MPI
    return instance;
}

} // namespace

std::optional<int> attach_buffer(const Invocation& invocation)
{
    const Side& side = invocation.call().send;
    void* const buffer = invocation.pointer(side.buffer);
    const int64_t length = invocation.count(side, 0);
    if (length <= 0 || !find_device_memory(*invocation.driver(), buffer)) {
        return std::nullopt;
    }
    std::unique_ptr<std::byte[]> memory(new std::byte[static_cast<size_t>(length)]);
    void* const shadow = memory.get();
    {
        const std::lock_guard guard(table().mutex);
        table().by_memory.emplace(shadow, Attached{std::move(memory), buffer});
    }
    invocation.words()[side.buffer] = reinterpret_cast<Word>(shadow);
    const int result = invocation.make();
    if (result != 0) {
        const std::lock_guard guard(table().mutex);
        table().by_memory.erase(shadow);
    }
    return result;
}

std::optional<int> detach_buffer(const Invocation& invocation)
{
    const int result = invocation.make();
    if (result != 0) {
        return result;
    }
    void*& address = *static_cast<void**>(invocation.pointer(invocation.call().send.buffer));
    const std::lock_guard guard(table().mutex);
    const auto attached = table().by_memory.find(address);
    if (attached != table().by_memory.end()) {
        address = attached->second.buffer;
        table().by_memory.erase(attached);
    }
    return result;
}

} // namespace gdr::mpi
