// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The border between UCX's C calls and the classes of this project, for the trampolines of every
// series: here exceptions end and handles become objects.
#pragma once

#include "abi/component.hpp"
#include "log/log.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace gdr::abi {

// Returns the result of body. An exception becomes an error and one log line with the name of the
// call.
template <class Body>
ucs_status_t guarded(const char* call, Body body) noexcept
{
    try {
        return body();
    } catch (const std::bad_alloc&) {
        gdr_log(error, "%s: out of memory", call);
        return UCS_ERR_NO_MEMORY;
    } catch (const std::exception& error) {
        gdr_log(error, "%s: %s", call, error.what());
        return UCS_ERR_IO_ERROR;
    }
}

// A uct_md_h of ours points to this.
struct Md : BaseMd {
    std::unique_ptr<MemoryDomain> domain;
};

// Lists for UCT, which releases them with free(). An empty list is NULL.
template <class Item>
Item* allocate_list(size_t count)
{
    if (count == 0) {
        return nullptr;
    }
    void* list = std::calloc(count, sizeof(Item));
    if (!list) {
        throw std::bad_alloc();
    }
    return static_cast<Item*>(list);
}

// Copies a name into an array of UCX.
template <size_t size>
void copy_name(char (&to)[size], const std::string& from)
{
    if (from.size() >= size) {
        throw std::length_error("the name " + from + " is too long for UCX");
    }
    std::memcpy(to, from.c_str(), from.size() + 1);
}

// UCT calls these through a series' trampolines.
ucs_status_t query_md_resources(const Component& component, uct_md_resource_desc_t** resources,
                                unsigned* count);
ucs_status_t query_devices(const Transport& transport, uct_md_h md, TlDevice** devices,
                           unsigned* count);
ucs_status_t open_md(const Component& component, BaseMd base, const char* name,
                     const uct_md_config_t* config, uct_md_h* md);
void close_md(uct_md_h md);
ucs_status_t query_md(uct_md_h md, MdAttributes* attributes);
ucs_status_t reg_memory(uct_md_h md, void* address, size_t length, Registration asked,
                        uct_mem_h* memh);
ucs_status_t dereg_memory(uct_md_h md, uct_mem_h memh, uct_completion_t* invalidated);
ucs_status_t alloc_memory(uct_md_h md, size_t* length, void** address, ucs_memory_type_t type,
                          uct_mem_h* memh);
ucs_status_t free_memory(uct_md_h md, uct_mem_h memh);
ucs_status_t query_memory(uct_md_h md, const void* address, size_t length, MemoryInfo* info);
ucs_status_t export_memory(uct_md_h md, const void* address, size_t length, Dmabuf* dmabuf);
ucs_status_t pack_mkey(uct_md_h md, uct_mem_h memh, const void* address, size_t length,
                       void* buffer);
ucs_status_t unpack_mkey(const Component& component, const void* buffer, uct_rkey_t* rkey,
                         void** handle);
ucs_status_t release_mkey(const Component& component, uct_rkey_t rkey, void* handle);

} // namespace gdr::abi
