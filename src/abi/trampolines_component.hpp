// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT's calls of components and transports, in any series' layout, and the registration of a
// component.
#pragma once

#include "abi/left_out.hpp"
#include "abi/option_fields.hpp"
#include "abi/trampolines_md.hpp"
#include "abi/uct_calls.hpp"

#include <array>
#include <cassert>

extern "C" {
gdr::abi::ComponentRegister uct_component_register;
gdr::abi::TlRegister uct_tl_register;
}

namespace gdr::abi {

inline constexpr size_t kMaxTransports = 2; // of one component

// A component as UCT keeps it, and what it points to.
template <class L>
struct Registered {
    typename L::UctComponent uct; // first: UCT hands back its address
    const Component* component;
    std::vector<typename L::ConfigField> md_fields;
    std::array<std::vector<typename L::ConfigField>, kMaxTransports> tl_fields;
    std::array<typename L::Tl, kMaxTransports> tls;
};

template <class L>
const Component& component_of(const void* uct)
{
    return *static_cast<const Registered<L>*>(uct)->component;
}

template <class L>
ucs_status_t component_query_md_resources(void* uct, uct_md_resource_desc_t** resources,
                                          unsigned* count)
{
    return query_md_resources(component_of<L>(uct), resources, count);
}

template <class L>
ucs_status_t md_open(void* uct, const char* name, const uct_md_config_t* config, uct_md_h* md)
{
    return open_md(component_of<L>(uct), {&kMdOps<L>, uct}, name, config, md);
}

template <class L>
ucs_status_t rkey_unpack(void* uct, const void* buffer, uct_rkey_t* rkey, void** handle)
{
    return unpack_mkey(component_of<L>(uct), buffer, rkey, handle);
}

template <class L>
ucs_status_t rkey_unpack(void* uct, const void* buffer, const void*, uct_rkey_t* rkey,
                         void** handle)
{
    return unpack_mkey(component_of<L>(uct), buffer, rkey, handle);
}

template <class L>
ucs_status_t rkey_release(void* uct, uct_rkey_t rkey, void* handle)
{
    return release_mkey(component_of<L>(uct), rkey, handle);
}

// The parameters are a mask of fields; none are defined yet.
inline ucs_status_t rkey_compare(void*, uct_rkey_t first, uct_rkey_t second, const void* params,
                                 int* result)
{
    const auto* fields = static_cast<const uint64_t*>(params);
    if (result == nullptr || (fields != nullptr && *fields != 0)) {
        return UCS_ERR_INVALID_PARAM;
    }
    *result = first < second ? -1 : first > second;
    return UCS_OK;
}

// UCT does not pass the transport to these calls, so each transport has functions of its own.
template <class L, size_t index>
const Transport& transport_of(uct_md_h md)
{
    return component_of<L>(reinterpret_cast<const BaseMd*>(md)->component).transports[index];
}

template <class L, size_t index>
ucs_status_t tl_query_devices(uct_md_h md, TlDevice** devices, unsigned* count)
{
    return query_devices(transport_of<L, index>(md), md, devices, count);
}

template <class L, size_t index>
ucs_status_t tl_iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                           const uct_iface_config_t* config, uct_iface_h* iface)
{
    if (is_left_out(md)) {
        return UCS_ERR_UNSUPPORTED;
    }
    return guarded("iface_open", [&] {
        return transport_of<L, index>(md).iface_open(md, worker, params, config, iface);
    });
}

template <class L>
typename L::ConfigEntry config_entry(const OptionTable& table,
                                     std::vector<typename L::ConfigField>& fields)
{
    typename L::ConfigEntry entry{};
    entry.name = table.name;
    entry.prefix = table.prefix;
    entry.table = fields.data();
    entry.size = table.size;
    return entry;
}

// UCX's ucs_container_of() uses a null pointer to the member, which is undefined for a member of a
// base class.
template <class L>
const typename L::UctComponent* listed_component(const ucs_list_link_t* link)
{
    static const typename L::UctComponent model{};
    const auto offset =
        reinterpret_cast<const char*>(&model.list) - reinterpret_cast<const char*>(&model);
    return reinterpret_cast<const typename L::UctComponent*>(reinterpret_cast<const char*>(link) -
                                                             offset);
}

template <class L>
bool is_registered(const char* name)
{
    for (ucs_list_link_t* link = ucx().components->next; link != ucx().components;
         link = link->next) {
        const auto* uct = listed_component<L>(link);
        if (std::strcmp(uct->name, name) == 0) {
            return true;
        }
    }
    return false;
}

template <class L>
void set_calls(typename L::UctComponent& uct)
{
    uct.query_md_resources = component_query_md_resources<L>;
    uct.md_open = md_open<L>;
    uct.cm_open = unsupported;
    uct.rkey_unpack = rkey_unpack<L>;
    uct.rkey_ptr = unsupported;
    uct.rkey_release = rkey_release<L>;
    if constexpr (requires { uct.rkey_compare; }) {
        uct.rkey_compare = rkey_compare;
    }
    uct.md_vfs_init = [](uct_md_h) {};
}

template <class L>
bool register_component(const Component& component)
{
    static constexpr std::array kQueryDevices{tl_query_devices<L, 0>, tl_query_devices<L, 1>};
    static constexpr std::array kIfaceOpen{tl_iface_open<L, 0>, tl_iface_open<L, 1>};
    static_assert(kQueryDevices.size() == kMaxTransports && kIfaceOpen.size() == kMaxTransports);

    if (is_registered<L>(component.name)) {
        return false;
    }
    assert(component.transports.size() <= kMaxTransports);

    auto* registered = new Registered<L>{}; // UCT cannot unregister a component
    registered->component = &component;
    registered->md_fields = fields_of<typename L::ConfigField>(component.md_options, nullptr);

    typename L::UctComponent& uct = registered->uct;
    copy_name(uct.name, component.name);
    set_calls<L>(uct);
    uct.md_config = config_entry<L>(component.md_options, registered->md_fields);
    uct.cm_config.name = uct.cm_config.prefix = "";
    uct.tl_list = {&uct.tl_list, &uct.tl_list};

    for (size_t i = 0; i < component.transports.size(); ++i) {
        const Transport& transport = component.transports[i];
        std::vector<typename L::ConfigField>& fields = registered->tl_fields[i];
        assert(transport.options.size >= sizeof(IfaceConfig));
        fields = fields_of<typename L::ConfigField>(transport.options, ucx().iface_options);
        typename L::Tl& tl = registered->tls[i];
        copy_name(tl.name, transport.name);
        tl.query_devices = kQueryDevices[i];
        tl.iface_open = kIfaceOpen[i];
        tl.config = config_entry<L>(transport.options, fields);
        uct_tl_register(&uct, &tl);
    }
    uct_component_register(&uct);
    return true;
}

} // namespace gdr::abi
