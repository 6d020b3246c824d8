// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The list of devices, opening them, and what the query verbs tell about device and port.
#include "emu/softhca/device.hpp"
#include "config.h"

#include "emu/softhca/config.hpp"
#include "emu/softhca/fabric_file.hpp"
#include "emu/softhca/faults.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/verbs/extended.hpp"
#include "emu/softhca/wire.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <system_error>

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <net/if.h>

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
            std::snprintf(device.name, sizeof device.name, "softhca%u", i);
            std::snprintf(device.dev_name, sizeof device.dev_name, "softhca%u", i);
            std::snprintf(device.dev_path, sizeof device.dev_path,
                          "/sys/class/infiniband_verbs/softhca%u", i);
            std::snprintf(device.ibdev_path, sizeof device.ibdev_path,
                          "%s/class/infiniband/softhca%u", sysfs_path(), i);
        }
        return all;
    }();
    return list;
}

unsigned index_of(const ibv_device* device)
{
    return static_cast<unsigned>(reinterpret_cast<const Device*>(device) - devices());
}

constexpr std::uint32_t kGuidVendor = 0x020000; // no vendor's: locally administered

// Tells the fabrics of different users and names apart.
std::uint32_t fabric_hash()
{
    std::uint32_t hash = 2166136261u;
    for (char c : fabric_path()) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    }
    return hash;
}

ibv_atomic_cap atomic_cap(Atomics atomics)
{
    return atomics == Atomics::hca    ? IBV_ATOMIC_HCA
           : atomics == Atomics::glob ? IBV_ATOMIC_GLOB
                                      : IBV_ATOMIC_NONE;
}

// Limits are ints in verbs, and never too large for them here.
int number(std::uint32_t limit)
{
    return static_cast<int>(limit);
}

void fill_device(unsigned device, ibv_device_attr& attr)
{
    const Profile& profile = profile_of(device);
    attr = {};
    std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s %.40s", PACKAGE_VERSION,
                  profile.text.c_str());
    attr.node_guid = device_guid(device);
    attr.sys_image_guid = device_guid(device);
    attr.max_mr_size = ~0ull;
    attr.page_size_cap = 4096;
    attr.vendor_id = profile.vendor;
    attr.vendor_part_id = profile.part;
    attr.max_qp = kMaxQps;
    attr.max_qp_wr = number(profile.max_qp_wr);
    attr.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT |
                            IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_CURR_QP_STATE_MOD |
                            IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    attr.max_sge = number(profile.max_sge);
    attr.max_sge_rd = number(profile.max_sge);
    attr.max_cq = kMaxCqs;
    attr.max_cqe = number(profile.max_cqe);
    attr.max_mr = attr.max_mw = kMaxMrs; // of both together
    attr.max_pd = 1 << 20;
    attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = number(profile.rd_atom);
    attr.max_res_rd_atom = attr.max_qp_rd_atom * attr.max_qp;
    attr.atomic_cap = atomic_cap(profile.atomics);
    attr.max_mcast_grp = attr.max_mcast_qp_attach = kMaxMulticastMembers;
    attr.max_total_mcast_qp_attach = kMaxMulticastMembers;
    attr.max_ah = 1 << 20;
    attr.max_srq = number(profile.max_srq);
    attr.max_srq_wr = profile.max_srq == 0 ? 0 : number(profile.max_srq_wr);
    attr.max_srq_sge = profile.max_srq == 0 ? 0 : number(profile.max_sge);
    attr.max_pkeys = static_cast<std::uint16_t>(profile.pkeys.size());
    attr.local_ca_ack_delay = 15;
    attr.phys_port_cnt = 1;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t size)
{
    if ((input != nullptr && input->comp_mask != 0) || size < sizeof attr->orig_attr) {
        return EINVAL;
    }
    ibv_device_attr_ex full = {};
    fill_device(context_of(context).device, full.orig_attr);
    full.phys_port_cnt_ex = 1;
    std::memset(static_cast<void*>(attr), 0, size);
    std::memcpy(static_cast<void*>(attr), &full, std::min(size, sizeof full));
    return 0;
}

// active_speed has 8 bits and active_speed_ex, in later headers, the rest of them.
void set_speed(std::uint32_t speed, auto& port)
{
    port.active_speed = static_cast<std::uint8_t>(std::min<std::uint32_t>(speed, 128)); // NDR
    if constexpr (requires { port.active_speed_ex; }) {
        port.active_speed_ex = speed;
    }
}

// Width and speed that make up the modelled bandwidth; 200 Gb/s where none do. Those of a profile
// in their place.
void fill_speed(double gbps, const Profile& profile, ibv_port_attr& port)
{
    constexpr struct {
        double gbps;
        std::uint8_t width, speed;
    } standard[] = {
        // Widths: 1 is 1x, 2 is 4x. Speeds: 1 is SDR, then DDR, QDR, FDR10 (8), FDR, EDR, HDR, NDR.
        // SDR to QDR carry 8 bits of data in 10.
        {2.5, 1, 1}, {5, 1, 2},   {10, 1, 8},  {14, 1, 16},  {20, 2, 2},   {25, 1, 32},
        {40, 2, 8},  {50, 1, 64}, {56, 2, 16}, {100, 2, 32}, {200, 2, 64}, {400, 2, 128},
    };
    port.active_width = 2;
    port.active_speed = 64;
    for (const auto& entry : standard) {
        if (entry.gbps == gbps) {
            port.active_width = entry.width;
            port.active_speed = entry.speed;
        }
    }
    if (profile.width != 0) {
        port.active_width = static_cast<std::uint8_t>(profile.width);
    }
    if (profile.speed != 0) {
        set_speed(profile.speed, port);
    }
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t size)
{
    if (port != 1) {
        return EINVAL;
    }
    ibv_port_attr full = {};
    const Profile& profile = profile_of(context_of(context).device);
    const bool down = is_down(*context_of(context).process, context_of(context).device);
    full.state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    full.max_mtu = full.active_mtu = IBV_MTU_4096;
    full.gid_tbl_len = number(profile.gid_tbl_len);
    full.max_msg_sz = profile.max_msg_sz;
    full.pkey_tbl_len = static_cast<std::uint16_t>(profile.pkeys.size());
    full.lid = port_lid(context_of(context).device);
    full.sm_lid = profile.ethernet ? 0 : 1;
    full.max_vl_num = 1;
    full.subnet_timeout = 18;
    fill_speed(config().ports[context_of(context).device].bandwidth_gbps, profile, full);
    full.phys_state = down ? 2 : 5; // polling, link up
    full.flags = profile.grh_required ? IBV_QPF_GRH_REQUIRED : 0;
    full.link_layer = profile.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    std::memset(static_cast<void*>(attr), 0, size);
    std::memcpy(static_cast<void*>(attr), &full, std::min(size, sizeof full));
    return 0;
}

ibv_context* open(ibv_device* device)
{
    auto context = std::make_unique<Context>();
    context->process = &Process::join();
    context->device = index_of(device);
    Process& self = *context->process;
    Arena& arena = self.arena();
    context->async.open();
    // Programs that share a device with another process hand on a duplicate; nobody talks to it.
    context->command_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    context->index = self.context_indices.allocate();
    if (context->index == kNone) {
        context->close();
        throw std::bad_alloc();
    }
    const Profile& profile = profile_of(context->device);
    std::snprintf(arena.profiles[context->device], sizeof arena.profiles[0], "%s",
                  profile.text.c_str());
    arena.port_lid[context->device] = profile.isolated ? kNoLid : port_lid(context->device);
    arena.ports[context->device] = port_model(context->device);
    for (unsigned i = 0; i < kGids; ++i) {
        const ibv_gid gid = profile.isolated ? ibv_gid{} : port_gid(context->device, i);
        std::memcpy(arena.gids[context->device][i], gid.raw, sizeof gid.raw);
    }
    verbs_context& verbs = context->verbs;
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
    base.cmd_fd = context->command_fd;
    base.async_fd = context->async.read_fd;
    base.num_comp_vectors = 1;
    pthread_mutex_init(&base.mutex, nullptr);
    base.abi_compat = __VERBS_ABI_IS_EXTENDED;
    const SharedGuard guard(arena.contexts_lock, self.token());
    arena.contexts[context->index] = {context->async.write_end, context->device};
    return &context.release()->verbs.context;
}

// Of any index of the table.
ibv_gid gid_or_none(unsigned device, unsigned index)
{
    return index < kGids ? port_gid(device, index) : ibv_gid{};
}

} // namespace

// As rdma-core, so that a program, or a test, finds a directory of the HCA's where it puts one.
const char* sysfs_path()
{
    const char* const chosen = secure_getenv("SYSFS_PATH");
    return chosen != nullptr ? chosen : "/sys";
}

std::uint64_t device_guid(unsigned device)
{
    return htobe64(std::uint64_t{kGuidVendor} << 40 | std::uint64_t{fabric_hash()} << 16 |
                   (device + 1));
}

std::uint16_t port_lid(unsigned device)
{
    return profile_of(device).ethernet ? 0 : static_cast<std::uint16_t>(device + 1);
}

ibv_gid port_gid(unsigned device, unsigned index)
{
    const GidOfProfile& chosen = profile_of(device).gids[index];
    if (!chosen.is_own) {
        return chosen.gid;
    }
    ibv_gid gid = {};
    if (index == 0) {
        gid.global.subnet_prefix = htobe64(0xfe80'0000'0000'0000ull);
        gid.global.interface_id = device_guid(device);
    } else if (index == 1 && profile_of(device).ethernet) {
        const std::uint32_t address =
            htonl(10u << 24 | (fabric_hash() & 0xffff) << 8 | (device + 1));
        gid.raw[10] = gid.raw[11] = 0xff;
        std::memcpy(gid.raw + 12, &address, sizeof address);
    }
    return gid;
}

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
    Context& context = context_of(base);
    if (!is_stale(base)) {
        Process& self = *context.process;
        const SharedGuard guard(self.arena().contexts_lock, self.token());
        self.arena().contexts[context.index] = {};
        self.context_indices.release(context.index);
    }
    context.close();
    delete &context;
    return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attr)
{
    fill_device(context_of(context).device, *attr);
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
    if (port != 1 || index < 0 || index >= number(profile_of(device).gid_tbl_len)) {
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
