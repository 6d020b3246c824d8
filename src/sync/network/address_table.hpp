// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Where the memories are that kernels reach by their own loads and stores: a table in GPU memory,
// which kernels look into by the ids (ugdr_dev_memory_t).
#pragma once

#include "cuda/driver.hpp"
#include "sync/triggers/words.hpp"
#include "sync/ucx-gdr/ugdr_types.h"

#include <cstdint>
#include <map>
#include <mutex>

namespace gdr::sync {

// Memory as a GPU reaches it.
struct Reach {
    uint64_t address = 0;
    uint64_t length = 0;
    CUcontext context = nullptr; // whose kernels do; nullptr: all of the GPU's
    CUdevice gpu = -1;           // -1: all
};

class AddressTable {
  public:
    // The ids of our memories and of peers' are numbered separately.
    enum class Half : uint32_t { ours, peers };

    // Kernels of all devices that are open, or will be, find the memory. peer: whose it is. Throws
    // cuda::Error, std::bad_alloc. Any thread.
    void add(Half half, uint32_t id, const Reach& reach, uint64_t peer = 0);

    // From now on they do not.
    void remove(Half half, uint32_t id);

    // For the kernels of a device. The context is current.
    class Copy {
      public:
        // Throws cuda::Error, std::bad_alloc.
        Copy(AddressTable& table, const cuda::Driver& driver, CUcontext context);
        Copy(const Copy&) = delete;
        Copy& operator=(const Copy&) = delete;
        ~Copy();

        CUdeviceptr address() const { return words_.words.device; }
        void keep() { words_.keep(); } // kernels may still look into it

      private:
        friend class AddressTable;
        bool shows(const Reach& reach) const;
        void write(uint32_t place, const ugdr_dev_memory_t& memory) const;

        AddressTable& table_;
        const cuda::Driver& driver_;
        const CUcontext context_;
        CUdevice gpu_ = -1;
        TakenCounters words_;
    };

  private:
    struct Entry {
        Reach reach;
        ugdr_dev_memory_t memory;
    };

    std::mutex lock_;                     // of what follows
    std::map<uint32_t, Entry> entries_{}; // by their places in the copy
    Copy* copy_ = nullptr;
};

} // namespace gdr::sync
