// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The emulated HCAs as such: names and addresses of their ports.
#pragma once

#include "emu/softhca/verbs_abi.hpp"

#include <cstdint>

namespace softhca {

constexpr unsigned kGids = 4; // entries of the GID table, but for empty ones

const char* sysfs_path();
std::uint64_t device_guid(unsigned device); // in network byte order
// All zero for an entry that is not in use.
ibv_gid port_gid(unsigned device, unsigned index);
std::uint16_t port_lid(unsigned device); // 0 on Ethernet

} // namespace softhca
