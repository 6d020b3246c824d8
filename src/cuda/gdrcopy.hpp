// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Device memory as the CPU reaches it: through gdrcopy's library, libgdrapi.so.2, which maps it by
// its kernel module or by the CUDA driver, and is used where it is installed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace gdr::cuda {

class Gdrcopy;

// A mapping of device memory. The memory stays reachable by it, and taken, also when it was freed,
// or not (by the mode of gdrcopy's kernel module: then touching it is fatal): whoever uses it has
// to know that the memory still is what was mapped.
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

    // [address, address + length) of device memory has to be in what was mapped, the other range is
    // host memory. Both return when the bytes are there: for what the GPU is told to do afterwards,
    // not for what it is at already. Any thread, no lock, no system call, no call of the driver.
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
    char* mapped_ = nullptr; // what device address start_ is for the CPU
    uintptr_t start_ = 0;
    size_t length_ = 0;
};

// The library, opened. Any thread.
class Gdrcopy {
  public:
    // Opened by the first call, for the life of the process; NULL where that is not possible, and
    // why, in one line: what dlopen said, the function that is missing, or that the library finds
    // neither of its ways. The CUDA driver has to be initialised.
    static Gdrcopy* instance(std::string* why_not);

    // "2.6"
    const std::string& version() const { return version_; }

    // Maps device memory. Empty on failure, with its cause. To be called in a context of its GPU,
    // and in the scope of a RelaxedCapture.
    CpuMapping map(uintptr_t start, size_t length, std::string* cause);

    // At this time, of all that were made and not given back.
    unsigned mappings() const { return mappings_; }

  private:
    friend class CpuMapping;

    // What gdrapi.h, gdrcopy's header, declares.
    struct Handle { // gdr_mh_t
        unsigned long h;
    };
    struct Info { // gdr_info_v2_t, of which the first fields are what older versions have
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
    std::mutex mutex_; // the library keeps a list of its own without one
    std::atomic<unsigned> mappings_ = 0;
};

} // namespace gdr::cuda
