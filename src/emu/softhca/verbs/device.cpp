// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The list of devices, opening them, and what the query verbs tell about device and port.
#include "emu/softhca/device.hpp"
#include "emu/softhca/config.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/verbs/extended.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <arpa/inet.h>

namespace softhca {
namespace {

// libraries look behind ibv_device for a provider's data: zeroes there say that none is known.
struct Device {
    ibv_device base;
    unsigned char padding[512];
};

ibv_node_type node_type(ibv_transport_type transport)
{
    switch (transport) {
    case IBV_TRANSPORT_IB:
        return IBV_NODE_CA;
    case IBV_TRANSPORT_IWARP:
        return IBV_NODE_RNIC;
    default:
        return IBV_NODE_UNSPECIFIED;
    }
}

Device* devices()
{
    static Device* const list = [] {
        static Device all[kMaxDevices];
        for (unsigned i = 0; i < config().devices; ++i) {
            ibv_device& device = all[i].base;
            device.transport_type = profile_of(i).transport;
            device.node_type = node_type(device.transport_type);
            const char* name = config().names[i].c_str();
            std::snprintf(device.name, sizeof device.name, "%s", name);
            std::snprintf(device.dev_name, sizeof device.dev_name, "%s", name);
            std::snprintf(device.dev_path, sizeof device.dev_path, "/sys/class/infiniband_verbs/%s",
                          name);
            std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "%s/class/infiniband/%s",
                          sysfs_path(), name);
        }
        return all;
    }();
    return list;
}

unsigned index_of(const ibv_device* device)
{
    return static_cast<unsigned>(reinterpret_cast<const Device*>(device) - devices());
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t size)
{
    if ((input != nullptr && input->comp_mask != 0) || size < sizeof attr->orig_attr) {
        return EINVAL;
    }
    ibv_device_attr_ex full = {};
    describe_device(context_of(context).device, full.orig_attr);
    full.phys_port_cnt_ex = 1;
    std::memset(static_cast<void*>(attr), 0, size);
    std::memcpy(static_cast<void*>(attr), &full, std::min(size, sizeof full));
    return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t size)
{
    if (port != 1) {
        return EINVAL;
    }
    const ibv_port_attr full =
        describe_port(*context_of(context).process, context_of(context).device);
    std::memset(static_cast<void*>(attr), 0, size);
    std::memcpy(static_cast<void*>(attr), &full, std::min(size, sizeof full));
    return 0;
}

ibv_context* open(ibv_device* device)
{
    Context& context = open_context(index_of(device));
    const Profile& profile = profile_of(context.device);
    verbs_context& verbs = context.verbs;
    verbs.query_port = query_port;
    verbs.query_device_ex = query_device_ex;
    verbs.create_qp_ex = create_qp_ex;
    if (profile.extended_cq) {
        verbs.create_cq_ex = create_cq_ex;
    }
    if (profile.thread_domain) {
        verbs.alloc_td = alloc_td;
        verbs.dealloc_td = dealloc_td;
        verbs.alloc_parent_domain = alloc_parent_domain;
    }
    verbs.sz = sizeof verbs;
    ibv_context& base = verbs.context;
    base.device = device;
    base.ops.poll_cq = poll_cq;
    base.ops.req_notify_cq = req_notify_cq;
    base.ops.post_send = post_send;
    base.ops.post_recv = post_recv;
    base.ops.post_srq_recv = post_srq_recv;
    base.ops.alloc_mw = alloc_mw;
    base.ops.bind_mw = bind_mw;
    base.ops.dealloc_mw = dealloc_mw;
    base.abi_compat = __VERBS_ABI_IS_EXTENDED;
    return &base;
}

// Of any index of the table.
ibv_gid gid_or_none(unsigned device, unsigned index)
{
    return index < kGids ? port_gid(device, index) : ibv_gid{};
}

} // namespace
} // namespace softhca

using namespace softhca;

extern "C" {

ibv_device** ibv_get_device_list(int* count)
{
    const unsigned number = config().devices;
    auto** list = static_cast<ibv_device**>(std::calloc(number + 1, sizeof(ibv_device*)));
    if (list == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    for (unsigned i = 0; i < number; ++i) {
        list[i] = &devices()[i].base;
    }
    if (count != nullptr) {
        *count = static_cast<int>(number);
    }
    return list;
}

void ibv_free_device_list(ibv_device** list)
{
    std::free(list);
}

const char* ibv_get_device_name(ibv_device* device)
{
    return device->name;
}

__be64 ibv_get_device_guid(ibv_device* device)
{
    return device_guid(index_of(device));
}

int ibv_get_device_index(ibv_device* device)
{
    return static_cast<int>(index_of(device));
}

ibv_context* ibv_open_device(ibv_device* device)
{
    try {
        return open(device);
    } catch (const std::system_error& error) {
        std::fprintf(stderr, "softhca: cannot open %s: %s\n", device->name, error.what());
        errno = error.code().value();
    } catch (const std::bad_alloc&) {
        errno = ENOMEM;
    }
    return nullptr;
}

int ibv_close_device(ibv_context* base)
{
    close_context(context_of(base));
    return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attr)
{
    describe_device(context_of(context).device, *attr);
    return 0;
}

int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attr)
{
    // Programs built before flags and port_cap_flags2 were added expect the part before them.
    return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                      offsetof(ibv_port_attr, flags));
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid)
{
    const unsigned device = context_of(context).device;
    if (port != 1 || index < 0 || index >= static_cast<int>(profile_of(device).gid_tbl_len)) {
        errno = EINVAL;
        return -1;
    }
    *gid = gid_or_none(device, static_cast<unsigned>(index));
    return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t size)
{
    const Profile& profile = profile_of(context_of(context).device);
    if (port != 1 || index >= profile.gid_tbl_len || flags != 0 || size < sizeof *entry) {
        return EINVAL;
    }
    const ibv_gid gid = gid_or_none(context_of(context).device, index);
    if (gid.global.interface_id == 0 && gid.global.subnet_prefix == 0) {
        return ENODATA;
    }
    *entry = {};
    entry->gid = gid;
    entry->gid_index = index;
    entry->port_num = port;
    entry->gid_type = profile.ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t count,
                             std::uint32_t flags, std::size_t size)
{
    std::size_t found = 0;
    for (unsigned index = 0; index < profile_of(context_of(context).device).gid_tbl_len; ++index) {
        ibv_gid_entry entry;
        const int error = _ibv_query_gid_ex(context, 1, index, &entry, flags, size);
        if (error == ENODATA) {
            continue;
        }
        if (error != 0 || found == count) {
            return error != 0 ? -error : -EINVAL;
        }
        std::memcpy(reinterpret_cast<char*>(entries) + found++ * size, &entry, sizeof entry);
    }
    return static_cast<ssize_t>(found);
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey)
{
    const auto& pkeys = profile_of(context_of(context).device).pkeys;
    if (port != 1 || index < 0 || static_cast<std::size_t>(index) >= pkeys.size()) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htons(pkeys[static_cast<std::size_t>(index)]);
    return 0;
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey)
{
    const auto& pkeys = profile_of(context_of(context).device).pkeys;
    const auto found = std::find(pkeys.begin(), pkeys.end(), ntohs(pkey));
    if (port != 1 || found == pkeys.end()) {
        errno = EINVAL;
        return -1;
    }
    return static_cast<int>(found - pkeys.begin());
}

} // extern "C"
