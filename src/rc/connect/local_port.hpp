// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The port of an interface as its queue pairs and its peers see it: the path of packets and the
// device address, by the settings and the port's tables.
#pragma once

#include "rc/connect/address.hpp"
#include "rc/queues/settings.hpp"
#include "verbs/device.hpp"
#include "verbs/gid.hpp"

#include <string>

namespace gdr::rc {

// The name by which UCP knows the port: "mlx5_0:1".
std::string port_name(const verbs::Device& device, const verbs::Port& port);

struct LocalPort {
    verbs::GidEntry gid;
    verbs::Path path;
    unsigned paths; // of which UCP may make lanes
    DeviceAddress address;
};

// Throws std::exception: the port has no GID or partition key that can be used.
LocalPort look_at(const verbs::Device& device, ibv_pd* pd, const verbs::Port& port,
                  const Settings& settings);

} // namespace gdr::rc
