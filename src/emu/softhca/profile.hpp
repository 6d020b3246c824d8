// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What kind of HCA a device is: which verbs it has, and how much of each. A profile is a list of
// names and of keys with values, such as "thor,max_sge=4": a name stands for the list in its row of
// the table in profile.cpp, and what comes later overrules. docs/reference/emulation.md explains
// the keys.
#pragma once

#include "emu/softhca/device.hpp"
#include "emu/softhca/layout.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softhca {

enum class AddressHandles { made, refused, silently_refused };
enum class Atomics { hca, glob, none, refused }; // the last: queue pairs that allow them are, too
enum class Dmabuf { any, by_pcie, none };        // by_pcie: none that is mapped by C2C
enum class ResizeCq { works, is_missing, faults, frees_ring, does_nothing };

struct GidOfProfile {
    bool is_own = true;      // the one that the port has without a profile
    bool is_foreign = false; // of another network namespace
    ibv_gid gid{};
};

// The default is softhca's own: all that it can do.
struct Profile {
    std::string text = "softhca";
    ibv_transport_type transport = IBV_TRANSPORT_IB;
    bool ethernet = false;
    bool grh_required = false;
    bool isolated = false; // reaches nobody, and nobody it
    bool rc = true;
    bool ud = true;
    AddressHandles address_handles = AddressHandles::made;
    Atomics atomics = Atomics::hca;
    std::uint32_t max_srq = kMaxSrqs;
    std::uint32_t max_srq_wr = kMaxQueueDepth;
    bool refuses_srq = false; // though it tells of some
    std::uint32_t max_inline = kMaxInline;
    bool grants_less_inline = false; // than asked for, instead of refusing the queue pair
    std::uint32_t max_sge = kMaxSge;
    std::uint32_t max_qp_wr = kMaxQueueDepth;
    std::uint32_t max_cqe = kMaxCqe;
    std::uint32_t rd_atom = 16;
    std::uint32_t max_msg_sz = kMaxMessage;
    Dmabuf dmabuf = Dmabuf::any;
    bool peermem = true;
    bool relaxed_only = false; // registrations without relaxed ordering are refused
    ResizeCq resize_cq = ResizeCq::works;
    bool negative_errno = false; // from ibv_resize_cq
    bool thread_domain = true;
    bool extended_cq = true;
    bool wr_functions = true;
    bool last_wqe = true; // IBV_EVENT_QP_LAST_WQE_REACHED comes
    std::vector<std::uint16_t> pkeys{0xffff};
    std::uint32_t gid_tbl_len = kGids;
    std::array<GidOfProfile, kGids> gids;
    std::uint32_t speed = 0; // as in ibv_port_attr; 0: of the modelled bandwidth
    std::uint32_t width = 0;
    std::uint32_t vendor = 0x020000; // no vendor's: a locally administered identifier
    std::uint32_t part = 1;
    std::string vpd; // a field of the PCI function's vital product data
};

// Applies a list. Returns what is wrong with it, and has changed some by then; empty if nothing is.
std::string apply(Profile& profile, std::string_view list);

// One key of it; for the variables that say the same of all HCAs.
bool set(Profile& profile, std::string_view key, std::string_view value);

} // namespace softhca
