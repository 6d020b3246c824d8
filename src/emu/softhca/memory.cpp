// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Access to host memory and to the device memory of the emulated CUDA driver, see memory.hpp.
#include "emu/softhca/memory.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/cuda_copy.hpp"
#include "emu/softhca/cuda_driver.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace softhca {
namespace {

std::atomic<std::uint64_t> system_calls{0};

// A function of the emulated driver, which the real one lacks.
template <typename Function>
Function find_in_softcuda(const char* name, std::atomic<Function>& found)
{
    Function function = found.load(std::memory_order_relaxed);
    if (function == nullptr && !config().copy_by_driver) {
        function = reinterpret_cast<Function>(find_in_libcuda(name));
        found.store(function, std::memory_order_relaxed);
    }
    return function;
}

using MapPeer = void* (*)(const void*, std::size_t);
using MapDmabuf = void* (*)(int);
using IsC2c = int (*)(int);
using Unmap = int (*)(void*);

// What is left of a list, as the kernel takes it.
class IoVector {
  public:
    IoVector(const SegmentList& list, std::uint64_t bytes)
    {
        for (unsigned i = 0; i < list.count && bytes > 0; ++i) {
            const std::uint64_t length = std::min(list.segments[i].length, bytes);
            if (length > 0) {
                vectors_[count_++] = {reinterpret_cast<void*>(list.segments[i].address), length};
                bytes -= length;
            }
        }
    }
    void advance(std::size_t bytes)
    {
        while (bytes > 0) {
            const std::size_t step = std::min(bytes, vectors_[first_].iov_len);
            vectors_[first_].iov_base = static_cast<char*>(vectors_[first_].iov_base) + step;
            vectors_[first_].iov_len -= step;
            bytes -= step;
            if (vectors_[first_].iov_len == 0) {
                ++first_;
            }
        }
    }
    const iovec* data() const { return &vectors_[first_]; }
    unsigned size() const { return count_ - first_; }

  private:
    iovec vectors_[kMaxSge];
    unsigned first_ = 0, count_ = 0;
};

} // namespace

void* map_dmabuf(int fd, std::size_t size)
{
    static std::atomic<MapDmabuf> found{nullptr};
    if (const MapDmabuf map = find_in_softcuda("softcuda_dmabuf_map", found)) {
        if (void* mapping = map(fd); mapping != nullptr || errno != EBADF) {
            return mapping;
        }
    }
    void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return mapping == MAP_FAILED ? nullptr : mapping;
}

bool is_c2c_dmabuf(int fd)
{
    static std::atomic<IsC2c> found{nullptr};
    const IsC2c is_c2c = find_in_softcuda("softcuda_dmabuf_is_c2c", found);
    return is_c2c != nullptr && is_c2c(fd) != 0;
}

void* map_peer(const void* address, std::size_t length)
{
    static std::atomic<MapPeer> found{nullptr};
    const MapPeer map = find_in_softcuda("softcuda_peer_map", found);
    if (map == nullptr) {
        errno = EFAULT;
        return nullptr;
    }
    return map(address, length);
}

void unmap(void* mapping, std::size_t size)
{
    static std::atomic<Unmap> found{nullptr};
    const Unmap end = find_in_softcuda("softcuda_unmap", found);
    if (end == nullptr || end(mapping) != 0) {
        munmap(mapping, size);
    }
}

int populate(const void* address, std::size_t length, bool writable)
{
    const std::uint64_t page = 4096;
    const std::uint64_t start = reinterpret_cast<std::uint64_t>(address) & ~(page - 1);
    const std::uint64_t end =
        (reinterpret_cast<std::uint64_t>(address) + length + page - 1) & ~(page - 1);
    if (length == 0) {
        return 0;
    }
    if (end < start) {
        return EFAULT;
    }
    const auto advise = [](std::uint64_t from, std::uint64_t to, bool write) {
        int result;
        do {
            result = madvise(reinterpret_cast<void*>(from), to - from,
                             write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
        } while (result != 0 && (errno == EINTR || errno == EAGAIN));
        return result;
    };
    // EINVAL is an access that the mapping does not allow, or a kernel before 5.14.
    static const bool known = [&advise] {
        alignas(4096) static char sample[4096];
        const auto at = reinterpret_cast<std::uint64_t>(sample);
        return advise(at, at + sizeof sample, true) == 0;
    }();
    if (known) {
        return advise(start, end, writable) == 0 ? 0 : EFAULT;
    }
    char byte;
    const iovec local = {&byte, 1};
    for (std::uint64_t at = start; at < end; at += page) {
        const iovec remote = {reinterpret_cast<void*>(at), 1};
        if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1) {
            return EFAULT;
        }
    }
    return 0;
}

Moved move(const SegmentList& source, int source_pid, const SegmentList& target, int target_pid)
{
    if (source.on_cuda || target.on_cuda) {
        return move_by_cuda(source, source_pid, target, target_pid);
    }
    if (source_pid == 0 && target_pid == 0) {
        return for_each_piece(source, target, [](const Segment& from, const Segment& to) {
            copy_own(reinterpret_cast<void*>(to.address),
                     reinterpret_cast<const void*>(from.address), from.length);
            return Moved::done;
        });
    }
    IoVector from(source, source.bytes), to(target, source.bytes);
    for (std::uint64_t left = source.bytes; left > 0;) {
        const ssize_t moved =
            target_pid != 0
                ? process_vm_writev(target_pid, from.data(), from.size(), to.data(), to.size(), 0)
                : process_vm_readv(source_pid, to.data(), to.size(), from.data(), from.size(), 0);
        system_calls.fetch_add(1, std::memory_order_relaxed);
        if (moved <= 0) {
            return moved < 0 && errno == ESRCH ? Moved::gone : Moved::fault;
        }
        left -= static_cast<std::uint64_t>(moved);
        from.advance(static_cast<std::size_t>(moved));
        to.advance(static_cast<std::size_t>(moved));
    }
    return Moved::done;
}

bool gather(void* target, const SegmentList& source)
{
    char* to = static_cast<char*>(target);
    for (unsigned i = 0; i < source.count; ++i) {
        const Segment& from = source.segments[i];
        if (from.length == 0) { // and may be nowhere
            continue;
        }
        if (!from.on_cuda()) {
            copy_own(to, reinterpret_cast<const void*>(from.address), from.length);
        } else if (!copy_from_device(from, to)) {
            return false;
        }
        to += from.length;
    }
    return true;
}

bool scatter(const SegmentList& target, const void* source, std::size_t length)
{
    const char* from = static_cast<const char*>(source);
    for (unsigned i = 0; i < target.count && length > 0; ++i) {
        const Segment& to = target.segments[i];
        const std::size_t step = std::min<std::size_t>(to.length, length);
        if (step == 0) {
            continue;
        }
        if (!to.on_cuda()) {
            copy_own(reinterpret_cast<void*>(to.address), from, step);
        } else if (!copy_to_device(to, from, step)) {
            return false;
        }
        from += step;
        length -= step;
    }
    return true;
}

std::uint64_t move_system_calls()
{
    return system_calls.load(std::memory_order_relaxed);
}

} // namespace softhca
