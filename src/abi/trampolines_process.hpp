// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX's parser of variables, its structure for memory types, and ucx_perftest's context, in any
// series' layout.
#pragma once

#include "abi/trampolines_component.hpp"

namespace gdr::abi {

// Fills storage from an entry's fields.
template <class L>
ucs_status_t fill_options(typename L::ConfigEntry& entry, void* storage)
{
    auto* fill = reinterpret_cast<typename L::FillOptions*>(ucx().fill_options);
    if constexpr (std::is_invocable_v<typename L::FillOptions, void*, void*, const char*, int>) {
        return fill(storage, &entry, UCS_DEFAULT_ENV_PREFIX, 0);
    } else {
        return fill(storage, entry.table, UCS_DEFAULT_ENV_PREFIX, entry.prefix, 0);
    }
}

template <class L>
ucs_status_t read_options(const OptionTable& table, void* storage, bool listed)
{
    auto fields = fields_of<typename L::ConfigField>(table, nullptr);
    if (!listed) {
        typename L::ConfigEntry entry = config_entry<L>(table, fields);
        return fill_options<L>(entry, storage);
    }

    struct Listed {
        std::vector<typename L::ConfigField> fields;
        typename L::ConfigEntry entry;
    };
    auto* lasting = new Listed{std::move(fields), {}}; // UCX keeps it
    lasting->entry = config_entry<L>(table, lasting->fields);
    ucs_list_add_tail(ucx().option_tables, &lasting->entry.list);
    return fill_options<L>(lasting->entry, storage);
}

template <class L>
void tell_memory(const MemoryInfo& memory, void* info)
{
    typename L::LookedUp told{};
    told.type = memory.type;
    told.sys_dev = memory.sys_device;
    told.base_address = memory.base;
    told.alloc_length = memory.length;
    *static_cast<typename L::LookedUp*>(info) = told;
}

template <class Value>
Value value_at(const void* base, size_t offset)
{
    Value value;
    std::memcpy(&value, static_cast<const char*>(base) + offset, sizeof(value));
    return value;
}

template <class L>
unsigned perftest_rank(const void* context)
{
    using GroupIndex = unsigned (*)(void* group);
    const void* rte = value_at<const void*>(context, L::kPerfContextRte);
    return value_at<GroupIndex>(rte, L::kPerfRteGroupIndex)(
        value_at<void*>(context, L::kPerfContextRteGroup));
}

// The memory domain follows its component, whose offset depends on the build.
template <class L>
uct_md_h perftest_md(const void* context)
{
    for (const size_t offset : {L::kPerfContextComponent, L::kPerfContextComponentAssert}) {
        const auto* candidate = value_at<const void*>(context, offset);
        for (const ucs_list_link_t* link = ucx().components->next; link != ucx().components;
             link = link->next) {
            if (candidate == listed_component<L>(link)) {
                return value_at<uct_md_h>(context, offset + sizeof(candidate));
            }
        }
    }
    return nullptr;
}

} // namespace gdr::abi
