// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI returns the memory that it was given; the table finds the application's buffer by it.
#include "mpi/staging/attached_buffers.hpp"

#include "mpi/gpu/device_memory.hpp"
#include "mpi/interface/apply.hpp"
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

int attach_buffer(const cuda::Driver& driver, const Arguments& arguments,
                  gdr_mpi_function* function)
{
    const Side& side = arguments.call().send;
    void* const buffer = arguments.pointer(side.buffer);
    const int64_t length = arguments.count(side, 0);
    if (length <= 0 || !find_device_memory(driver, buffer)) {
        return apply(function, arguments.call(), arguments.words());
    }
    std::unique_ptr<std::byte[]> memory(new std::byte[static_cast<size_t>(length)]);
    void* const shadow = memory.get();
    {
        const std::lock_guard guard(table().mutex);
        table().by_memory.emplace(shadow, Attached{std::move(memory), buffer});
    }
    arguments.words()[side.buffer] = reinterpret_cast<Word>(shadow);
    const int result = apply(function, arguments.call(), arguments.words());
    if (result != 0) {
        const std::lock_guard guard(table().mutex);
        table().by_memory.erase(shadow);
    }
    return result;
}

int detach_buffer(const Call& call, gdr_mpi_function* function, Word* words)
{
    const int result = apply(function, call, words);
    if (result != 0) {
        return result;
    }
    void*& address = *reinterpret_cast<void**>(words[call.send.buffer]);
    const std::lock_guard guard(table().mutex);
    const auto attached = table().by_memory.find(address);
    if (attached != table().by_memory.end()) {
        address = attached->second.buffer;
        table().by_memory.erase(attached);
    }
    return result;
}

} // namespace gdr::mpi
