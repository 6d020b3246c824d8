// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an HCA and its port are: addresses, limits, speed; see device.hpp.
#include "emu/softhca/device.hpp"
#include "config.h"

#include "emu/softhca/config.hpp"
#include "emu/softhca/fabric.hpp"
#include "emu/softhca/fabric_file.hpp"
#include "emu/softhca/faults.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <endian.h>

namespace softhca {
namespace {

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

void describe_device(unsigned device, ibv_device_attr& attr)
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

ibv_port_attr describe_port(Process& self, unsigned device)
{
    ibv_port_attr full = {};
    const Profile& profile = profile_of(device);
    const bool down = is_down(self, device);
    full.state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    full.max_mtu = full.active_mtu = IBV_MTU_4096;
    full.gid_tbl_len = number(profile.gid_tbl_len);
    full.max_msg_sz = profile.max_msg_sz;
    full.pkey_tbl_len = static_cast<std::uint16_t>(profile.pkeys.size());
    full.lid = port_lid(device);
    full.sm_lid = profile.ethernet ? 0 : 1;
    full.max_vl_num = 1;
    full.subnet_timeout = 18;
    fill_speed(config().ports[device].bandwidth_gbps, profile, full);
    full.phys_state = down ? 2 : 5; // polling, link up
    full.flags = profile.grh_required ? IBV_QPF_GRH_REQUIRED : 0;
    full.link_layer = profile.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    return full;
}

} // namespace softhca
