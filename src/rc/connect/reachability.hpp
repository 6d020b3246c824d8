// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which peers an interface reaches. UCP asks about each address of a peer before it chooses lanes,
// and silently drops addresses that are not reached. So the reason is logged here.
#pragma once

#include "rc/connect/address.hpp"
#include "rc/queues/settings.hpp"
#include "verbs/gid.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace gdr::rc {

class Reachability {
  public:
    // For the port with this name, address and GID. UCP asks the interfaces of one worker about the
    // same peers.
    Reachability(std::string port, const DeviceAddress& local, const verbs::GidEntry& gid,
                 RouteCheck check, const void* worker);
    ~Reachability();
    Reachability(const Reachability&) = delete;
    Reachability& operator=(const Reachability&) = delete;

    // own: the interface's address. The first question about a peer's port may ask the kernel, and
    // logs why the port is not reached. Neither is on the data path.
    bool reaches(const IfaceAddress& own, const DeviceAddress* device, const IfaceAddress* iface);

  private:
    using PeerPort = std::array<std::byte, sizeof(DeviceAddress)>;

    struct Judgement {
        std::optional<bool> has_route; // nothing: not asked yet
        bool logged = false;           // why it is not reached
    };

    bool has_route(const DeviceAddress& device) const;
    void log_unreachable(const DeviceAddress& device, const std::string& reason);

    const std::string port_;
    const DeviceAddress local_;
    const verbs::GidEntry gid_;
    const RouteCheck check_;
    const void* const worker_;
    std::map<PeerPort, Judgement> judged_;
};

} // namespace gdr::rc
