// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Other processes' device memory at addresses of this one. For the copier thread alone.
#pragma once

#include "emu/softhca/cuda_driver.hpp"
#include "emu/softhca/memory.hpp"

#include <map>
#include <optional>
#include <tuple>

namespace softhca {

// Memory as the own CUDA driver has it: its device, -1 for host memory.
struct LocalAddress {
    std::uint64_t address;
    int device;
};

// What has been opened stays open for as long as it is registered, as mapping costs more than
// copying. CUDA IPC memory longer than that: cuIpcCloseMemHandle waits for every kernel of the
// process, also for one that spins until a transfer is done. It is closed only once the driver has
// refused to open more.
class CudaImports {
  public:
    // Where this process's driver has a segment of another process; nothing where it cannot.
    std::optional<LocalAddress> find(const Segment& segment, int owner_pid);

    // Gives up what belongs to no region any more, where something was opened since. The driver's
    // calls may be patched and wait for what the program does, such as deregistering memory: the
    // caller has no DirectAccess and no lock.
    void drop_stale();

  private:
    using Key = std::tuple<Token, std::uint64_t, std::uint64_t>; // owner, buffer id, base
    struct Import {
        LocalAddress at;
        std::uint64_t length;
        CudaSharing sharing;
        CUmemGenericAllocationHandle handle;
        const MrShared* region; // that used it last, and its key then
        std::uint32_t key;
    };

    std::optional<Import> open(const CudaMemory& memory, int owner_pid);
    std::optional<Import> open_ipc(const CudaMemory& memory, int device);
    static std::optional<Import> map_handle(const CudaMemory& memory, int device, int owner_pid);
    void drop_stale(CudaSharing sharing);

    std::map<Key, Import> imports_;
    bool opened_ = false;  // since the last drop_stale()
    bool refused_ = false; // to open IPC memory, likewise
};

} // namespace softhca
