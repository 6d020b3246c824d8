// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT's operations on memory domains, in any series' layout, forwarded to a MemoryDomain.
#pragma once

#include "abi/trampolines_iface.hpp"

namespace gdr::abi {

inline constexpr uint64_t kMdFlagInvalidate = 1 << 8; // UCT_MD_FLAG_INVALIDATE

template <class L>
uint64_t md_flags(const MdAttributes& attributes)
{
    uint64_t flags = attributes.flags;
    if (flags & kMdFlagInvalidate) {
        flags |= L::kMdFlagsInvalidate;
    }
    if (attributes.memtype_copy) {
        flags |= L::kMdFlagMemtypeCopy;
    }
    return flags;
}

// attr: the structure that holds the limits and memory types.
template <class L, class Attr>
void set_capabilities(const MdAttributes& attributes, Attr* attr)
{
    attr->max_alloc = attributes.max_alloc;
    attr->max_reg = attributes.max_reg;
    attr->flags = md_flags<L>(attributes);
    attr->reg_mem_types = attributes.reg_mem_types;
    attr->detect_mem_types = attributes.detect_mem_types;
    attr->alloc_mem_types = attributes.alloc_mem_types;
    attr->access_mem_types = attributes.access_mem_types;
}

template <class L>
ucs_status_t md_query(uct_md_h md, void* md_attr)
{
    MdAttributes attributes;
    const ucs_status_t status = query_md(md, &attributes);
    if (status != UCS_OK) {
        return status;
    }
    auto* attr = static_cast<typename L::MdAttr*>(md_attr);
    if constexpr (requires { attr->cap; }) {
        *attr = {};
        set_capabilities<L>(attributes, &attr->cap);
    } else {
        const uint64_t asked = attr->field_mask; // UCT reads it again
        *attr = {};
        attr->field_mask = asked;
        set_capabilities<L>(attributes, attr);
        attr->dmabuf_mem_types = attributes.dmabuf_mem_types;
        attr->cache_mem_types = attributes.reg_mem_types & ~attributes.uncached_mem_types;
    }
    if constexpr (requires { attr->reg_alignment; }) {
        attr->reg_alignment = 1;
    }
    attr->reg_cost = {attributes.reg_cost_base, attributes.reg_cost_per_byte};
    attr->rkey_packed_size = attributes.rkey_packed_size;
    std::memset(&attr->local_cpus, 0xff,
                sizeof(attr->local_cpus)); // no CPU is farther than another
    return UCS_OK;
}

inline ucs_status_t mem_alloc(uct_md_h md, size_t* length, void** address, ucs_memory_type_t type,
                              unsigned, const char*, uct_mem_h* memh)
{
    return alloc_memory(md, length, address, type, memh);
}

// UCP names a device only for memory of its own; we use the process's current device.
inline ucs_status_t mem_alloc(uct_md_h md, size_t* length, void** address, ucs_memory_type_t type,
                              ucs_sys_device_t, unsigned, const char*, uct_mem_h* memh)
{
    return alloc_memory(md, length, address, type, memh);
}

// UCP names no access if memory is mapped for any later use.
template <class L>
Registration registration(uint64_t flags)
{
    const uint64_t access = flags & UCT_MD_MEM_ACCESS_ALL;
    constexpr uint64_t kLocal = UCT_MD_MEM_ACCESS_LOCAL_READ | UCT_MD_MEM_ACCESS_LOCAL_WRITE;
    return {.hide_errors = (flags & L::kMemFlagHideErrors) != 0,
            .local = L::kHeedsAccess && access != 0 && (access & ~kLocal) == 0};
}

template <class L>
ucs_status_t mem_reg(uct_md_h md, void* address, size_t length, unsigned flags, uct_mem_h* memh)
{
    return reg_memory(md, address, length, registration<L>(flags), memh);
}

template <class L>
ucs_status_t mem_reg(uct_md_h md, void* address, size_t length, const void* reg_params,
                     uct_mem_h* memh)
{
    const auto* params = static_cast<const typename L::RegParams*>(reg_params);
    const uint64_t flags = params->field_mask & L::kRegFlags ? params->flags : 0;
    return reg_memory(md, address, length, registration<L>(flags), memh);
}

template <class L>
ucs_status_t mem_dereg(uct_md_h md, const typename L::DeregParams* params)
{
    if (!(params->field_mask & L::kDeregMemh) || !params->memh) {
        return UCS_ERR_INVALID_PARAM;
    }
    const bool invalidate =
        (params->field_mask & L::kDeregFlags) && (params->flags & L::kDeregFlagInvalidate);
    if (invalidate && (!(params->field_mask & L::kDeregCompletion) || !params->comp)) {
        return UCS_ERR_INVALID_PARAM;
    }
    return dereg_memory(md, params->memh, invalidate ? params->comp : nullptr);
}

template <class L>
ucs_status_t mem_query(uct_md_h md, const void* address, size_t length, void* mem_attr)
{
    MemoryInfo info;
    const ucs_status_t status = query_memory(md, address, length, &info);
    if (status != UCS_OK) {
        return status;
    }
    auto* attr = static_cast<typename L::MemAttr*>(mem_attr);
    const auto asked = [&](uint64_t field) { return (attr->field_mask & field) != 0; };
    if (asked(L::kMemAttrMemType)) {
        attr->mem_type = info.type;
    }
    if (asked(L::kMemAttrSysDev)) {
        attr->sys_dev = info.sys_device;
    }
    if (asked(L::kMemAttrBaseAddress)) {
        attr->base_address = info.base;
    }
    if (asked(L::kMemAttrAllocLength)) {
        attr->alloc_length = info.length;
    }
    if constexpr (requires { attr->dmabuf_fd; }) {
        // A caller that asks for the file registers the whole allocation, so the file is of that.
        if (asked(L::kMemAttrDmabufFd)) {
            Dmabuf dmabuf;
            const ucs_status_t exported = export_memory(md, info.base, info.length, &dmabuf);
            if (exported != UCS_OK) {
                return exported;
            }
            attr->dmabuf_fd = dmabuf.fd;
            if (asked(L::kMemAttrDmabufOffset)) {
                attr->dmabuf_offset = dmabuf.offset + (static_cast<const char*>(address) -
                                                       static_cast<const char*>(info.base));
            }
        }
    }
    return UCS_OK;
}

inline ucs_status_t mkey_pack(uct_md_h md, uct_mem_h memh, const void*, void* buffer)
{
    return pack_mkey(md, memh, nullptr, 0, buffer);
}

inline ucs_status_t mkey_pack(uct_md_h md, uct_mem_h memh, void* address, size_t length,
                              const void*, void* buffer)
{
    return pack_mkey(md, memh, address, length, buffer);
}

inline ucs_status_t detect_memory_type(uct_md_h md, const void* address, size_t length,
                                       ucs_memory_type_t* type)
{
    MemoryInfo info;
    const ucs_status_t status = query_memory(md, address, length, &info);
    if (status == UCS_OK) {
        *type = info.type;
    }
    return status;
}

template <class L>
constexpr typename L::MdOps make_md_ops()
{
    typename L::MdOps ops{};
    ops.close = close_md;
    ops.query = md_query<L>;
    ops.mem_alloc = mem_alloc;
    ops.mem_free = free_memory;
    ops.mem_advise = unsupported;
    ops.mem_reg = mem_reg<L>;
    ops.mem_dereg = mem_dereg<L>;
    ops.mem_query = mem_query<L>;
    ops.detect_memory_type = detect_memory_type;
    ops.mkey_pack = mkey_pack;
    if constexpr (requires { ops.mem_attach; }) {
        ops.mem_attach = unsupported;
    }
    if constexpr (requires { ops.is_sockaddr_accessible; }) {
        ops.is_sockaddr_accessible = [](uct_md_h, const ucs_sock_addr_t*,
                                        uct_sockaddr_accessibility_t) { return 0; };
    }
    if constexpr (requires { ops.mem_elem_pack; }) {
        ops.mem_elem_pack = unsupported;
    }
    if constexpr (requires { ops.mem_elem_release; }) {
        ops.mem_elem_release = [](uct_md_h, void*) {};
    }
    return ops;
}

template <class L>
inline constexpr typename L::MdOps kMdOps = make_md_ops<L>();

} // namespace gdr::abi
