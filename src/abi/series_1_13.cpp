// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX 1.13: its calls translated into those of our components, and the other way round.
#include "abi/series_1_13.hpp"

#include "abi/border.hpp"
#include "abi/option_fields.hpp"
#include "abi/series.hpp"
#include "abi/uct_calls.hpp"

#include <array>
#include <cassert>
#include <cstring>

extern "C" {
extern ucs_list_link_t uct_components_list;
extern ucs_config_field_t uct_iface_config_table[];
gdr::abi::ComponentRegister uct_component_register;
gdr::abi::TlRegister uct_tl_register;
}

namespace gdr::abi {
namespace ucx_1_13 {
namespace {

// ---- interface

EpOperation operation_of(EpOp operation)
{
    switch (operation) {
    case kEpOpAmShort:
        return EpOperation::am_short;
    case kEpOpAmBcopy:
        return EpOperation::am_bcopy;
    case kEpOpAmZcopy:
        return EpOperation::am_zcopy;
    case kEpOpPutShort:
        return EpOperation::put_short;
    case kEpOpPutBcopy:
        return EpOperation::put_bcopy;
    case kEpOpPutZcopy:
        return EpOperation::put_zcopy;
    case kEpOpGetShort:
        return EpOperation::get_short;
    case kEpOpGetBcopy:
        return EpOperation::get_bcopy;
    case kEpOpGetZcopy:
        return EpOperation::get_zcopy;
    case kEpOpAtomicPost:
        return EpOperation::atomic_post;
    case kEpOpAtomicFetch:
        return EpOperation::atomic_fetch;
    }
    return EpOperation::other;
}

// What the caller left out must not be read.
PerfQuery query_of(const PerfAttr& attr)
{
    PerfQuery query{EpOperation::other, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST,
                    UCS_SYS_DEVICE_ID_UNKNOWN, UCS_SYS_DEVICE_ID_UNKNOWN};
    if (attr.field_mask & kPerfAttrOperation)
        query.operation = operation_of(attr.operation);
    if (attr.field_mask & kPerfAttrLocalMemoryType)
        query.local_memory_type = attr.local_memory_type;
    if (attr.field_mask & kPerfAttrRemoteMemoryType)
        query.remote_memory_type = attr.remote_memory_type;
    if (attr.field_mask & kPerfAttrLocalSysDevice)
        query.local_sys_device = attr.local_sys_device;
    if (attr.field_mask & kPerfAttrRemoteSysDevice)
        query.remote_sys_device = attr.remote_sys_device;
    return query;
}

ucs_status_t estimate_perf(uct_iface_h tl_iface, PerfAttr* attr)
{
    return guarded("estimate_perf", [&] {
        const auto* iface = reinterpret_cast<const Iface*>(tl_iface);
        const PerfEstimate estimate = iface->internal->estimate_perf(tl_iface, query_of(*attr));
        const auto asked = [&](PerfAttrField field) { return (attr->field_mask & field) != 0; };
        if (asked(kPerfAttrSendPreOverhead))
            attr->send_pre_overhead = estimate.send_pre_overhead;
        if (asked(kPerfAttrSendPostOverhead))
            attr->send_post_overhead = estimate.send_post_overhead;
        if (asked(kPerfAttrRecvOverhead))
            attr->recv_overhead = estimate.recv_overhead;
        if (asked(kPerfAttrBandwidth))
            attr->bandwidth = {estimate.bandwidth_dedicated, estimate.bandwidth_shared};
        if (asked(kPerfAttrLatency))
            attr->latency = {estimate.latency, estimate.latency_per_endpoint};
        if (asked(kPerfAttrMaxInflightEps))
            attr->max_inflight_eps = estimate.max_inflight_eps;
        return UCS_OK;
    });
}

void vfs_refresh(uct_iface_h) {}

ucs_status_t ep_query(uct_ep_h, EpAttr*)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t ep_invalidate(uct_ep_h ep, unsigned)
{
    return guarded("ep_invalidate", [&] {
        return reinterpret_cast<const Iface*>(ep->iface)->internal->ep_invalidate(ep);
    });
}

constexpr InternalOpsTable kInternalOps{
    .estimate_perf = estimate_perf,
    .vfs_refresh = vfs_refresh,
    .ep_query = ep_query,
    .ep_invalidate = ep_invalidate,
};

// ---- memory domain

ucs_status_t md_query(uct_md_h md, MdAttr* attr)
{
    MdAttributes attributes;
    const ucs_status_t status = query_md(md, &attributes);
    if (status != UCS_OK)
        return status;
    *attr = {
        .cap =
            {
                .max_alloc = attributes.max_alloc,
                .max_reg = attributes.max_reg,
                .flags = attributes.flags,
                .reg_mem_types = attributes.reg_mem_types,
                .detect_mem_types = attributes.detect_mem_types,
                .alloc_mem_types = attributes.alloc_mem_types,
                .access_mem_types = attributes.access_mem_types,
            },
        .reg_cost = {attributes.reg_cost_base, attributes.reg_cost_per_byte},
        .component_name = {}, // UCT fills it
        .rkey_packed_size = attributes.rkey_packed_size,
        .local_cpus = {},
    };
    std::memset(&attr->local_cpus, 0xff,
                sizeof(attr->local_cpus)); // no CPU is farther than another
    return UCS_OK;
}

ucs_status_t mem_alloc(uct_md_h md, size_t* length, void** address, ucs_memory_type_t type,
                       unsigned, const char*, uct_mem_h* memh)
{
    return alloc_memory(md, length, address, type, memh);
}

ucs_status_t mem_advise(uct_md_h, uct_mem_h, void*, size_t, unsigned)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t mem_reg(uct_md_h md, void* address, size_t length, unsigned flags, uct_mem_h* memh)
{
    return reg_memory(md, address, length, flags & kMemFlagHideErrors, memh);
}

ucs_status_t mem_dereg(uct_md_h md, const DeregParams* params)
{
    if (!(params->field_mask & kDeregMemh) || !params->memh)
        return UCS_ERR_INVALID_PARAM;
    const bool invalidate =
        (params->field_mask & kDeregFlags) && (params->flags & kDeregFlagInvalidate);
    if (invalidate && (!(params->field_mask & kDeregCompletion) || !params->comp))
        return UCS_ERR_INVALID_PARAM;
    return dereg_memory(md, params->memh, invalidate ? params->comp : nullptr);
}

ucs_status_t mem_query(uct_md_h md, const void* address, size_t length, MemAttr* attr)
{
    MemoryInfo info;
    const ucs_status_t status = query_memory(md, address, length, &info);
    if (status != UCS_OK)
        return status;
    if (attr->field_mask & kMemAttrMemType)
        attr->mem_type = info.type;
    if (attr->field_mask & kMemAttrSysDev)
        attr->sys_dev = info.sys_device;
    if (attr->field_mask & kMemAttrBaseAddress)
        attr->base_address = info.base;
    if (attr->field_mask & kMemAttrAllocLength)
        attr->alloc_length = info.length;
    return UCS_OK;
}

ucs_status_t mkey_pack(uct_md_h md, uct_mem_h memh, const MkeyPackParams*, void* buffer)
{
    return pack_mkey(md, memh, buffer);
}

int is_sockaddr_accessible(uct_md_h, const ucs_sock_addr_t*, uct_sockaddr_accessibility_t)
{
    return 0;
}

ucs_status_t detect_memory_type(uct_md_h md, const void* address, size_t length,
                                ucs_memory_type_t* type)
{
    MemoryInfo info;
    const ucs_status_t status = query_memory(md, address, length, &info);
    if (status == UCS_OK)
        *type = info.type;
    return status;
}

constexpr MdOps kMdOps{
    .close = close_md,
    .query = md_query,
    .mem_alloc = mem_alloc,
    .mem_free = free_memory,
    .mem_advise = mem_advise,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .mem_query = mem_query,
    .mkey_pack = mkey_pack,
    .is_sockaddr_accessible = is_sockaddr_accessible,
    .detect_memory_type = detect_memory_type,
};

// ---- component and transports

constexpr size_t kMaxTransports = 2; // of one component

// A component as UCT keeps it, and what it points to.
struct Registered {
    UctComponent uct; // first: UCT hands back its address
    const Component* component;
    std::vector<ConfigField> md_fields;
    std::array<std::vector<ConfigField>, kMaxTransports> tl_fields;
    std::array<Tl, kMaxTransports> tls;
};

const Component& component_of(const void* uct)
{
    return *static_cast<const Registered*>(uct)->component;
}

ucs_status_t component_query_md_resources(UctComponent* uct, uct_md_resource_desc_t** resources,
                                          unsigned* count)
{
    return query_md_resources(component_of(uct), resources, count);
}

ucs_status_t md_open(UctComponent* uct, const char* name, const uct_md_config_t* config,
                     uct_md_h* md)
{
    return open_md(component_of(uct), {&kMdOps, uct}, name, config, md);
}

ucs_status_t cm_open(UctComponent*, uct_worker_h, const uct_cm_config_t*, uct_cm_h*)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t rkey_unpack(UctComponent* uct, const void* buffer, uct_rkey_t* rkey, void** handle)
{
    return unpack_mkey(component_of(uct), buffer, rkey, handle);
}

ucs_status_t rkey_ptr(UctComponent*, uct_rkey_t, void*, uint64_t, void**)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t rkey_release(UctComponent* uct, uct_rkey_t rkey, void* handle)
{
    return release_mkey(component_of(uct), rkey, handle);
}

void md_vfs_init(uct_md_h) {}

// UCT does not tell a transport's calls which transport they are for: each has functions of its
// own.
template <size_t index>
const Transport& transport_of(uct_md_h md)
{
    return component_of(reinterpret_cast<const BaseMd*>(md)->component).transports[index];
}

template <size_t index>
ucs_status_t tl_query_devices(uct_md_h md, TlDevice** devices, unsigned* count)
{
    return query_devices(transport_of<index>(md), md, devices, count);
}

template <size_t index>
ucs_status_t tl_iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                           const uct_iface_config_t* config, uct_iface_h* iface)
{
    return guarded("iface_open", [&] {
        return transport_of<index>(md).iface_open(md, worker, params, config, iface);
    });
}

constexpr std::array kQueryDevices{tl_query_devices<0>, tl_query_devices<1>};
constexpr std::array kIfaceOpen{tl_iface_open<0>, tl_iface_open<1>};
static_assert(kQueryDevices.size() == kMaxTransports && kIfaceOpen.size() == kMaxTransports);

ConfigEntry config_entry(const OptionTable& table, std::vector<ConfigField>& fields)
{
    return {table.name, table.prefix, fields.data(), table.size, {}};
}

bool is_registered(const char* name)
{
    for (ucs_list_link_t* link = uct_components_list.next; link != &uct_components_list;
         link = link->next) {
        const auto* uct = ucs_container_of(link, UctComponent, list);
        if (std::strcmp(uct->name, name) == 0)
            return true;
    }
    return false;
}

bool register_component(const Component& component)
{
    if (is_registered(component.name))
        return false;
    assert(std::strlen(component.name) < sizeof(UctComponent::name));
    assert(component.transports.size() <= kMaxTransports);

    auto* registered = new Registered{}; // UCT has no way to take a component out again
    registered->component = &component;
    registered->md_fields = fields_of<ConfigField>(component.md_options, nullptr);

    UctComponent& uct = registered->uct;
    std::strcpy(uct.name, component.name);
    uct.query_md_resources = component_query_md_resources;
    uct.md_open = md_open;
    uct.cm_open = cm_open;
    uct.rkey_unpack = rkey_unpack;
    uct.rkey_ptr = rkey_ptr;
    uct.rkey_release = rkey_release;
    uct.md_config = config_entry(component.md_options, registered->md_fields);
    uct.cm_config = {"", "", nullptr, 0, {}};
    uct.tl_list = {&uct.tl_list, &uct.tl_list};
    uct.md_vfs_init = md_vfs_init;

    for (size_t i = 0; i < component.transports.size(); ++i) {
        const Transport& transport = component.transports[i];
        std::vector<ConfigField>& fields = registered->tl_fields[i];
        assert(std::strlen(transport.name) < sizeof(Tl::name));
        assert(transport.options.size >= sizeof(IfaceConfig));
        fields = fields_of<ConfigField>(transport.options, uct_iface_config_table);
        Tl& tl = registered->tls[i];
        std::strcpy(tl.name, transport.name);
        tl.query_devices = kQueryDevices[i];
        tl.iface_open = kIfaceOpen[i];
        tl.config = config_entry(transport.options, fields);
        uct_tl_register(&uct, &tl);
    }
    uct_component_register(&uct);
    return true;
}

// ---- process

ucs_status_t read_options(const OptionTable& table, void* storage, bool listed)
{
    std::vector<ConfigField> fields = fields_of<ConfigField>(table, nullptr);
    const auto fill = [&](ConfigField* first) {
        return ucs_config_parser_fill_opts(storage, reinterpret_cast<ucs_config_field_t*>(first),
                                           UCS_DEFAULT_ENV_PREFIX, table.prefix, 0);
    };
    if (!listed)
        return fill(fields.data());

    struct Listed {
        std::vector<ConfigField> fields;
        ConfigEntry entry;
    };
    auto* lasting = new Listed{std::move(fields), {}}; // UCX keeps it
    lasting->entry = config_entry(table, lasting->fields);
    ucs_list_add_tail(&ucs_config_global_list, &lasting->entry.list);
    return fill(lasting->fields.data());
}

// ---- ucx_perftest

template <class Value>
Value value_at(const void* base, size_t offset)
{
    Value value;
    std::memcpy(&value, static_cast<const char*>(base) + offset, sizeof(value));
    return value;
}

unsigned perftest_rank(const void* context)
{
    using GroupIndex = unsigned (*)(void* group);
    const void* rte = value_at<const void*>(context, kPerfContextRte);
    return value_at<GroupIndex>(rte,
                                kPerfRteGroupIndex)(value_at<void*>(context, kPerfContextRteGroup));
}

// The memory domain follows its component, which tells where.
uct_md_h perftest_md(const void* context)
{
    for (const size_t offset : {kPerfContextComponent, kPerfContextComponentAssert}) {
        const auto* candidate = value_at<const UctComponent*>(context, offset);
        for (const ucs_list_link_t* link = uct_components_list.next; link != &uct_components_list;
             link = link->next) {
            if (candidate == ucs_container_of(link, UctComponent, list))
                return value_at<uct_md_h>(context, offset + sizeof(candidate));
        }
    }
    return nullptr;
}

} // namespace
} // namespace ucx_1_13

constinit const Series series_1_13{
    .first = {1, 13},
    .last = {1, 13},
    .base_iface_size = sizeof(BaseIface),
    .base_ep_size = sizeof(BaseEp),
    .internal_ops = &ucx_1_13::kInternalOps,
    .protocols_v2_default = false,
    .register_component = ucx_1_13::register_component,
    .read_options = ucx_1_13::read_options,
    .perftest_rank = ucx_1_13::perftest_rank,
    .perftest_md = ucx_1_13::perftest_md,
};

} // namespace gdr::abi
