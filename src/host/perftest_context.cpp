// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// None of this is on the way of a transfer: a test asks once, and for each buffer.
#include "host/perftest_context.hpp"

#include "abi/series.hpp"
#include "cuda/readable.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <dlfcn.h>
#include <link.h>

namespace gdr::host::perftest {
namespace {

constexpr size_t kMostMemoryTypes = 64; // UCX keeps sets of them in a word

template <class Value>
std::optional<Value> value_at(const void* base, size_t offset)
{
    const auto* const place = static_cast<const char*>(base) + offset;
    if (base == nullptr || !cuda::readable(place, sizeof(Value))) {
        return std::nullopt;
    }
    Value value;
    std::memcpy(&value, place, sizeof(value));
    return value;
}

// Whether the address is in an executable segment of the program or a library.
bool is_code(const void* address)
{
    struct Search {
        uintptr_t wanted;
        bool found;
    } search{reinterpret_cast<uintptr_t>(address), false};
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* argument) {
            auto& asked = *static_cast<Search*>(argument);
            asked.found = std::any_of(
                info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum, [&](const auto& segment) {
                    return segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
                           asked.wanted - (info->dlpi_addr + segment.p_vaddr) < segment.p_memsz;
                });
            return asked.found ? 1 : 0;
        },
        &search);
    return search.found;
}

size_t size_of_object(const void* address)
{
    Dl_info info;
    void* symbol = nullptr; // ElfW(Sym)
    const bool known = dladdr1(address, &info, &symbol, RTLD_DL_SYMENT) != 0;
    return known && symbol != nullptr ? static_cast<const ElfW(Sym)*>(symbol)->st_size : 0;
}

bool allocates_host_memory(const void* allocator)
{
    const auto found = value_at<abi::PerftestAllocator>(allocator, 0);
    if (!found || found->mem_type != UCS_MEMORY_TYPE_HOST) {
        return false;
    }
    const std::array calls{
        reinterpret_cast<const void*>(found->init), reinterpret_cast<const void*>(found->uct_alloc),
        reinterpret_cast<const void*>(found->uct_free),
        reinterpret_cast<const void*>(found->memcpy), reinterpret_cast<const void*>(found->memset)};
    return std::ranges::all_of(calls, [](const void* call) { return is_code(call); });
}

bool is_component(const void* candidate)
{
    uct_component_h* components = nullptr;
    unsigned count = 0;
    if (uct_query_components(&components, &count) != UCS_OK) {
        return false;
    }
    const bool found = std::find(components, components + count, candidate) != components + count;
    uct_release_component_list(components);
    return found;
}

} // namespace

bool is_table(const void* table)
{
    const size_t size = size_of_object(table);
    if (size % sizeof(void*) != 0 || size / sizeof(void*) <= UCS_MEMORY_TYPE_CUDA_MANAGED ||
        size / sizeof(void*) > kMostMemoryTypes) {
        return false;
    }
    const void* const host = static_cast<const void* const*>(table)[UCS_MEMORY_TYPE_HOST];
    return host == nullptr || allocates_host_memory(host);
}

std::optional<unsigned> rank(const void* context)
{
    using GroupIndex = unsigned (*)(void* group);
    const abi::PerftestOffsets& offsets = abi::series().perftest;
    const auto group = value_at<void*>(context, offsets.rte_group);
    const auto rte = value_at<const void*>(context, offsets.rte);
    const auto index = rte ? value_at<GroupIndex>(*rte, offsets.group_index) : std::nullopt;
    if (!group || !index || !is_code(reinterpret_cast<const void*>(*index))) {
        return std::nullopt;
    }
    return (*index)(*group);
}

uct_md_h memory_domain(const void* context)
{
    const abi::PerftestOffsets& offsets = abi::series().perftest;
    for (const size_t offset : {offsets.component, offsets.component_assert}) {
        const auto component = value_at<const void*>(context, offset);
        const auto md = value_at<uct_md_h>(context, offset + sizeof(void*));
        const auto base = md ? value_at<abi::BaseMd>(*md, 0) : std::nullopt;
        if (component && base && base->component == *component && is_component(*component)) {
            return *md;
        }
    }
    return nullptr;
}

} // namespace gdr::host::perftest
