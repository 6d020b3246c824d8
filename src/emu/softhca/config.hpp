// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softhca's environment variables. They are read once, at the first use of the library; a value
// that is not understood is reported in one line on stderr and the default is used.
//
//   SOFTHCA_FABRIC=NAME         processes of one user with the same NAME reach each other;
//                               letters, digits, '.', '_' and '-', 64 at most (default "default";
//                               with rules in SOFTHCA_FAULTS one for those who have the same rules)
//   SOFTHCA_DEVICES=N           number of HCAs, 1 to 8, named softhca0, softhca1, ... (default 1)
//   SOFTHCA_PORTS=N             ports of each HCA of softmlx5, 1 or 2 (default 1); softhca's have
//   one SOFTHCA_PROFILE=LIST        what kind of HCA it is, see profile.hpp; several, for each HCA
//   in
//                               turn, separated by semicolons, of which the last is that of all
//                               further ones (default softhca). SOFTHCA_LINK_LAYER,
//                               _GPU_DIRECT, _GRH and _EXTENDED overrule it
//   GDR_MACHINE=DIRECTORY       a dump of "ucx-gdr doctor": its HCAs, with their names, in the
//   place
//                               of SOFTHCA_DEVICES and _PROFILE
//   SOFTHCA_LINK_LAYER=LAYER    infiniband or ethernet, RoCE v2 (default infiniband)
//   SOFTHCA_GPU_DIRECT=LIST     the ways in which the HCA takes device memory, out of dmabuf
//                               (ibv_reg_dmabuf_mr) and peermem (ibv_reg_mr on a device address),
//                               separated by a comma; "none" for neither (default dmabuf,peermem)
//   SOFTHCA_MEMLOCK=MODE        enforce: RLIMIT_MEMLOCK limits the registered host memory, as with
//                               a real HCA, also for root; off: it does not, since softhca locks
//                               nothing (default off)
//   SOFTHCA_COPY_ON_FORK=MODE   yes: as since Linux 5.12; no: as before, forks take registered
//                               memory from the HCA, see fork.hpp (default yes)
//   SOFTHCA_GRH=LIST            one value, or one for each HCA in turn, separated by commas, of
//                               which the last is that of all further ones: optional, or required
//                               as by an InfiniBand VF, whose port tells so, takes no address
//                               without a GRH and is reached by none (default optional)
//   SOFTHCA_EXTENDED=LIST       the verbs that not all HCAs have and this one offers, out of
//                               thread_domain (ibv_alloc_td, ibv_alloc_parent_domain), cq
//                               (ibv_create_cq_ex), wr (ibv_wr_*) and resize_cq (ibv_resize_cq),
//                               separated by commas; "none" for none of them (default all)
//   SOFTHCA_DEVICE_COPY=WAY     alias: the memory of the emulated GPU is copied through its alias,
//                               that of a real one by the CUDA driver; driver: all by the driver;
//                               staged: by the driver and through host memory, each process its
//                               own, which waits for no kernel (default alias)
//   SOFTHCA_PROCESSORS=WHICH    where the HCA's own threads run: any: on all processors that the
//                               process may use, also where the program keeps to some of them;
//                               program: on those of the thread that needed them (default any)
//   SOFTHCA_STATS=1             a process prints its softhca_counters() to stderr as it ends
// The wire of each port, none modelled by default; one value, or one for each HCA in turn,
// separated by commas, of which the last is that of all further ones; 0: not modelled:
//   SOFTHCA_LATENCY_US=LIST     microseconds from one port to another
//   SOFTHCA_BANDWIDTH_GBPS=LIST gigabits of payload in a second, in each direction
//   SOFTHCA_MESSAGE_RATE=LIST   messages that a port sends in a second, at most
#pragma once

#include "emu/softhca/profile.hpp"

#include <array>
#include <string>

namespace softhca {

// As in the environment; 0: not modelled.
struct PortSettings {
    double latency_us = 0;
    double bandwidth_gbps = 0;
    double message_rate = 0;
};

struct Config {
    std::string fabric;
    unsigned devices = 1;
    unsigned ports_each = 1;
    bool memlock_enforced = false;
    bool copy_on_fork = true;
    bool copy_by_driver = false;
    bool copy_staged = false;
    bool on_programs_processors = false;
    bool stats = false;
    std::array<std::string, kMaxDevices> names; // "softhca0"
    std::array<Profile, kMaxDevices> profiles;
    std::array<PortSettings, kMaxDevices> ports;
};

const Config& config();

inline const Profile& profile_of(unsigned device)
{
    return config().profiles[device];
}

} // namespace softhca
