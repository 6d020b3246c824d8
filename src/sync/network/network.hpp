// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a context has for operations that kernels initiate and for prepared transfers: HCAs,
// memories and peers. Nothing is opened before the first of these.
#pragma once

#include "direct/hcas.hpp"
#include "sync/network/address_table.hpp"
#include "sync/network/peer.hpp"
#include "sync/network/reach.hpp"
#include "sync/network/ucp_access.hpp"
#include "sync/rings/memory.hpp"
#include "sync/ucx-gdr/ugdr.h"
#include "sync/ucx/ucx.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gdr::sync {

// What a memory's blob has first.
struct Extent {
    uint64_t process;
    uint64_t address;
    uint64_t length;
    uint32_t keys; // one for each HCA
    uint32_t host; // 1: memory of the host
};

// Our memory, as the application has it.
struct MappedMemory {
    Network& network;
    uint32_t id = 0;
    uint64_t address = 0;
    uint64_t length = 0;
    std::vector<verbs::MemoryRegion> regions{}; // one for each HCA
    ucp_mem_h ucp = nullptr;
    std::vector<uint8_t> blob{};
};

// A peer's memory.
struct ImportedMemory {
    Peer& peer;
    uint32_t id = 0;
    ucp_rkey_h ucp = nullptr;
    std::unique_ptr<Opened> opened{}; // where kernels reach it by CUDA IPC
};

} // namespace gdr::sync

// Handles of the API.
struct ugdr_peer : gdr::sync::Peer {
    using Peer::Peer;
};
struct ugdr_mem : gdr::sync::MappedMemory {};
struct ugdr_rmem : gdr::sync::ImportedMemory {};

namespace gdr::sync {

class Network {
  public:
    // direct: HCAs may be used. ucp: nullptr if UCP may not.
    Network(const Ucx& ucx, bool direct, std::unique_ptr<UcpAccess> ucp);
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    const Ucx& ucx() const { return ucx_; }

    // For the threads that serve kernels, without a lock.
    Memories memories;
    RemoteMemories remote_memories;

    // For kernels: what they reach by themselves.
    AddressTable addresses;

    // ---- for the functions of the API; any thread. Throw Refusal and other exceptions.

    ugdr_mem* map(void* address, size_t length);
    void unmap(ugdr_mem* memory);
    ugdr_peer* add_peer(unsigned channels);
    void connect(Peer& peer, const void* blob, size_t length);
    void destroy(ugdr_peer* peer);
    ugdr_rmem* import(Peer& peer, const void* blob, size_t length);
    void release(ugdr_rmem* memory);

    // Ends all peers and memories; the engine still runs.
    void close();

    // ---- for peers, within these

    direct::Hcas& hcas();
    UcpAccess* ucp() { return ucp_.get(); }
    uint64_t process() const { return process_; } // a random number

  private:
    static uint64_t random_number();
    void show_to_kernels(ugdr_rmem& imported, const Shared& shared, const Extent& extent);
    ugdr_mem* map_locked(void* address, size_t length);
    ugdr_rmem* import_locked(Peer& peer, const void* blob, size_t length);
    void forget(ugdr_mem* memory);
    void forget(ugdr_rmem* memory);
    void forget(ugdr_peer* peer);

    const Ucx ucx_;
    const bool direct_;
    const bool mapped_by_kernels_; // memory of peers on this host
    const std::unique_ptr<UcpAccess> ucp_;
    const uint64_t process_ = random_number();

    std::mutex lock_; // of what follows
    std::optional<direct::Hcas> hcas_;
    std::map<ugdr_mem*, std::unique_ptr<ugdr_mem>> mapped_;
    std::map<ugdr_peer*, std::unique_ptr<ugdr_peer>> peers_;
    std::map<ugdr_rmem*, std::unique_ptr<ugdr_rmem>> imported_;
};

} // namespace gdr::sync
