// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A memory domain as this project writes one: a class with the calls that UCT makes, independent of
// any series' signatures. src/abi wraps it in the running series' uct_md_t.
#pragma once

#include "abi/base.hpp"

#include <cstdint>
#include <optional>

namespace gdr::abi {

// What a memory domain can do; the union of what the series ask for. Memory types are bits
// UCS_BIT(UCS_MEMORY_TYPE_*).
struct MdAttributes {
    uint64_t flags = 0;        // UCT_MD_FLAG_* of UCX 1.13
    bool memtype_copy = false; // its transport copies between memory types
    uint64_t reg_mem_types = 0;
    uint64_t uncached_mem_types = 0; // of these, UCP must not keep them after the user unmaps them
    uint64_t alloc_mem_types = 0;
    uint64_t access_mem_types = 0; // the CPU, or the copy endpoint, may access them
    uint64_t detect_mem_types = 0;
    uint64_t dmabuf_mem_types = 0; // types that mem_query can export as dmabuf
    uint64_t max_alloc = 0;        // bytes
    size_t max_reg = 0;            // bytes
    size_t rkey_packed_size = 0;   // bytes, at most 255
    double reg_cost_base = 0;      // seconds, of a lookup that hits
    double reg_cost_per_byte = 0;  // seconds per byte
};

// What a domain knows about an address.
struct MemoryInfo {
    ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
    ucs_sys_device_t sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
    void* base = nullptr; // of the whole allocation
    size_t length = 0;    // of the whole allocation, bytes
};

// The caller's wishes for a registration.
struct Registration {
    bool hide_errors = false; // do not log errors: the caller can do without it
    bool local = false;       // only local transfers use it: peers need not access it
};

struct Dmabuf {
    int fd = -1;
    size_t offset = 0; // of the address in it, bytes
};

// Destroyed when UCT closes the domain. UCT calls it from any thread that holds the domain, and
// several threads may call one domain at once. No call may throw: as a last resort, the trampolines
// turn an exception into UCS_ERR_NO_MEMORY or UCS_ERR_IO_ERROR and log it.
class MemoryDomain {
  public:
    MemoryDomain();
    virtual ~MemoryDomain() = default;

    // Whether the UCP context that opened it uses protocols v2.
    bool serves_protocols_v2() const { return serves_protocols_v2_; }

    virtual MdAttributes attributes() const = 0;

    // Registers [address, address + length). memh is never NULL on success.
    virtual ucs_status_t reg(void* address, size_t length, Registration asked, uct_mem_h* memh) = 0;

    // invalidated, if not NULL, is completed once peers can no longer access the memory.
    virtual ucs_status_t dereg(uct_mem_h memh, uct_completion_t* invalidated) = 0;

    // Writes rkey_packed_size bytes. address: of the part that is meant, if the series passes it.
    virtual ucs_status_t pack_rkey(uct_mem_h memh, const void* address, size_t length,
                                   void* buffer) = 0;

    // The defaults below are for domains that do not have the capability.
    virtual ucs_status_t alloc(size_t* length, void** address, ucs_memory_type_t type,
                               uct_mem_h* memh);
    virtual ucs_status_t free(uct_mem_h memh);

    // Nothing if the address is of no type that this domain detects.
    virtual std::optional<MemoryInfo> query(const void* address, size_t length);

    // A new file descriptor that the caller closes, or -1 if this memory has none. Only series that
    // know dmabuf ask for it.
    virtual Dmabuf export_dmabuf(const void* address, size_t length);

  private:
    const bool serves_protocols_v2_;
};

// The domain behind a handle of ours.
MemoryDomain* memory_domain(uct_md_h md);

// For a remote key that a domain of ours does not accept: logs it and returns
// UCS_ERR_INVALID_PARAM.
ucs_status_t refuse_rkey();

} // namespace gdr::abi
