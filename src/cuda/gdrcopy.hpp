// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Access of the CPU to device memory through gdrcopy's library, libgdrapi.so.2, if it is installed.
// The library maps the memory by its kernel module or by the CUDA driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace gdr::cuda {

class Gdrcopy;

// A mapping of device memory. After the memory is freed, the mapping either keeps it pinned and
// reachable, or touching it is fatal, depending on the mode of gdrcopy's kernel module. So the user
// of the mapping must know that the memory is still the one that was mapped.
class CpuMapping {
  public:
    CpuMapping() = default;
    CpuMapping(CpuMapping&& other) noexcept { swap(other); }
    CpuMapping& operator=(CpuMapping&& other) noexcept
    {
        CpuMapping(std::move(other)).swap(*this);
        return *this;
    }
    ~CpuMapping();

    explicit operator bool() const { return library_ != nullptr; }

    // [address, address + length) must lie within the mapped device memory; the other range is host
    // memory. Both return when the bytes are there: GPU work that starts afterwards sees them,
    // running work may not. Any thread; no lock, system call or driver call.
    void write(uintptr_t address, const void* from, size_t length) const;
    void read(void* to, uintptr_t address, size_t length) const;

    void reset() { CpuMapping().swap(*this); }

  private:
    friend class Gdrcopy;
    void* at(uintptr_t address) const { return mapped_ + (address - start_); }
    void swap(CpuMapping& other) noexcept
    {
        std::swap(library_, other.library_);
        std::swap(handle_, other.handle_);
        std::swap(mapped_, other.mapped_);
        std::swap(start_, other.start_);
        std::swap(length_, other.length_);
    }

    Gdrcopy* library_ = nullptr;
    unsigned long handle_ = 0;
    char* mapped_ = nullptr; // CPU address of device address start_
    uintptr_t start_ = 0;
    size_t length_ = 0;
};

// The opened library. Any thread.
class Gdrcopy {
  public:
    // The first call opens the library for the life of the process. NULL if that fails, with the
    // cause in one line: the error of dlopen, the missing function, or that neither way of mapping
    // is available. CUDA must be initialised.
    static Gdrcopy* instance(std::string* why_not);

    // "2.6"
    const std::string& version() const { return version_; }

    // Maps device memory. On failure the mapping is empty and cause is set. Must be called in a
    // context of the GPU and in the scope of a RelaxedCapture.
    CpuMapping map(uintptr_t start, size_t length, std::string* cause);

    // The number of mappings that exist now.
    unsigned mappings() const { return mappings_; }

  private:
    friend class CpuMapping;

    // Declarations from gdrcopy's header, gdrapi.h.
    struct Handle { // gdr_mh_t
        unsigned long h;
    };
    struct Info { // gdr_info_v2_t; older versions have its first fields
        uint64_t va;
        uint64_t mapped_size;
        uint32_t page_size;
        uint64_t tm_cycles;
        uint32_t cycles_per_ms;
        unsigned mapped : 1;
        unsigned wc_mapping : 1;
        int mapping_type;
    };
    struct Functions {
        void* (*gdr_open)();
        int (*gdr_pin_buffer)(void* gdr, unsigned long address, size_t size, uint64_t p2p_token,
                              uint32_t va_space, Handle* handle);
        int (*gdr_unpin_buffer)(void* gdr, Handle handle);
        int (*gdr_map)(void* gdr, Handle handle, void** va, size_t size);
        int (*gdr_unmap)(void* gdr, Handle handle, void* va, size_t size);
        int (*gdr_get_info)(void* gdr, Handle handle, Info* info);
        int (*gdr_copy_to_mapping)(Handle handle, void* to, const void* from, size_t size);
        int (*gdr_copy_from_mapping)(Handle handle, void* to, const void* from, size_t size);
        void (*gdr_runtime_get_version)(int* major, int* minor);
    };

    std::string open(); // empty on success
    std::string map_pages(uintptr_t start, size_t length, CpuMapping* mapping);
    void unmap(const CpuMapping& mapping);

    Functions functions_ = {};
    void* gdr_ = nullptr;
    std::string version_;
    std::mutex mutex_; // the library's own list has no lock
    std::atomic<unsigned> mappings_ = 0;
};

} // namespace gdr::cuda
