// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The emulated HCAs as such: addresses of their ports, and what they tell about themselves.
#pragma once

#include "emu/softhca/verbs_abi.hpp"

#include <cstdint>

namespace softhca {

class Process;

constexpr unsigned kGids = 4; // entries of the GID table, but for empty ones

const char* sysfs_path();
std::uint64_t device_guid(unsigned device); // in network byte order
// All zero for an entry that is not in use.
ibv_gid port_gid(unsigned device, unsigned index);
std::uint16_t port_lid(unsigned device); // 0 on Ethernet

void describe_device(unsigned device, ibv_device_attr& attr);
ibv_port_attr describe_port(Process& self, unsigned device);

} // namespace softhca
