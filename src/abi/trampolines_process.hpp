// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX's parser of variables, and its structure for memory types, in any series' layout.
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

} // namespace gdr::abi
