// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Device memory as an HCA's driver maps it: through the device's aperture (BAR1), and by a dmabuf
// kept for as long as it is mapped, whoever frees it.
#include "emu/softcuda/handle.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/softcuda.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

namespace softcuda {

namespace {

constexpr size_t kBar1Page = size_t{64} * 1024;

/// What a mapping takes of the devices, for as long as it lives.
class Share {
  public:
    Share() = default;
    Share(Share&&) = default;
    Share& operator=(Share&&) = delete;
    ~Share()
    {
        for (const Piece& piece : pieces_) {
            device(piece.device).give_back_bar1(piece.bar1);
            if (piece.held) {
                device(piece.device).let_go(*piece.held);
            }
        }
    }

    /// False where the aperture is full.
    bool take(int ordinal, size_t length)
    {
        const size_t bar1 = round_up(length, kBar1Page);
        if (!device(ordinal).take_bar1(bar1)) {
            return false;
        }
        pieces_.push_back({ordinal, bar1, std::nullopt});
        return true;
    }

    /// The same for memory that stays taken when it is freed. Another process's is not counted, nor
    /// anything of a device that this one does not see.
    bool take(const MemoryName& name)
    {
        Device* const on = device_of_machine(name.device);
        if (on == nullptr) {
            return true;
        }
        if (!take(on->ordinal(), name.length)) {
            return false;
        }
        if (name.pid == getpid() && on->hold(name.offset)) {
            pieces_.back().held = name.offset;
        }
        return true;
    }

  private:
    struct Piece {
        int device;
        size_t bar1;
        std::optional<uint64_t> held; // at this offset of the device's memory file
    };
    std::vector<Piece> pieces_;
};

struct PeerMapping {
    Share share;
    size_t to_unmap; // bytes
};

struct PeerMappings {
    std::mutex mutex;
    // By address: of aliases there may be several.
    std::multimap<uintptr_t, PeerMapping> all;

    void* add(void* address, Share share, size_t to_unmap)
    {
        std::lock_guard guard(mutex);
        all.emplace(as_address(address), PeerMapping{std::move(share), to_unmap});
        return address;
    }
};

PeerMappings& mappings()
{
    static auto& instance = *new PeerMappings;
    return instance;
}

/// Maps the pieces side by side; MAP_FAILED with errno set.
void* map_all(const std::vector<MemoryName>& names, size_t length)
{
    void* range =
        mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        return range;
    }
    char* next = static_cast<char*>(range);
    for (const MemoryName& name : names) {
        int memory = open_memory(name);
        void* mapped = memory < 0 ? MAP_FAILED
                                  : mmap(next, name.length, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory,
                                         static_cast<off_t>(name.offset));
        int error = errno;
        if (memory >= 0) {
            close(memory);
        }
        if (mapped == MAP_FAILED) {
            munmap(range, length);
            errno = error;
            return MAP_FAILED;
        }
        next += name.length;
    }
    return range;
}

} // namespace

} // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT int softcuda_dmabuf_is_c2c(int fd)
{
    return !read_file(fd, FileType::c2c_dmabuf).empty();
}

SOFTCUDA_EXPORT void* softcuda_dmabuf_map(int fd)
{
    std::vector<MemoryName> names =
        read_file(fd, softcuda_dmabuf_is_c2c(fd) ? FileType::c2c_dmabuf : FileType::dmabuf);
    size_t length = 0;
    for (const MemoryName& name : names) {
        length += name.length;
    }
    if (length == 0) {
        errno = EBADF;
        return nullptr;
    }
    Share share;
    for (const MemoryName& name : names) {
        if (!share.take(name)) {
            errno = ENOMEM;
            return nullptr;
        }
    }
    void* range = map_all(names, length);
    return range == MAP_FAILED ? nullptr : mappings().add(range, std::move(share), length);
}

SOFTCUDA_EXPORT void* softcuda_peer_map(const void* device_ptr, size_t length)
{
    void* alias = softcuda_host_alias(device_ptr, length);
    if (alias == nullptr) {
        errno = EFAULT;
        return nullptr;
    }
    Share share;
    if (!share.take(find(as_address(device_ptr))->device, length)) {
        errno = ENOMEM;
        return nullptr;
    }
    return mappings().add(alias, std::move(share), 0);
}

SOFTCUDA_EXPORT int softcuda_unmap(void* address)
{
    std::lock_guard guard(mappings().mutex);
    auto mapping = mappings().all.find(as_address(address));
    if (mapping == mappings().all.end()) {
        return -1;
    }
    if (mapping->second.to_unmap > 0) {
        munmap(address, mapping->second.to_unmap);
    }
    mappings().all.erase(mapping);
    return 0;
}
