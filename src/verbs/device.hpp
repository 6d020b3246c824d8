// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An HCA, opened by name, with its attributes and those of its ports.
#pragma once

#include "verbs/handles.hpp"
#include "verbs/sysfs.hpp"

#include <string>
#include <vector>

namespace gdr::verbs {

// Names of the machine's InfiniBand and RoCE devices, in the order of libibverbs; devices of other
// transports are left out. Empty if hardware, drivers or permissions are missing; reason, if not
// NULL, then says which.
std::vector<std::string> device_names(std::string* reason = nullptr);

// Whether the kernel knows RDMA devices of any kind, or a preloaded library provides some. It
// neither opens a device nor loads libibverbs.
bool may_have_devices();

struct Port {
    uint8_t number;
    ibv_port_attr attributes;
    bool ethernet;
    double bandwidth; // data rate after encoding, bytes per second

    // InfiniBand VFs are addressed by GID too, so each address handle needs a GRH.
    bool grh_required() const { return (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0; }
    bool active() const { return attributes.state == IBV_PORT_ACTIVE; }
};

// One opened HCA. Immutable after construction: any thread may read it.
class Device {
  public:
    // Throws Error.
    explicit Device(const std::string& name);

    const std::string& name() const { return name_; }
    ibv_context* context() const { return context_.get(); }
    const ibv_device_attr& attributes() const { return attributes_; }
    const std::vector<Port>& ports() const { return ports_; }

    // Access that queue pairs and regions may grant to peers: WRITE, READ, and atomics if the HCA
    // has them. mlx5's driver refuses queue pairs that ask for missing atomics.
    int remote_access() const;

    // Whether ibv_resize_cq can be tried on a completion queue that must survive a failure.
    // bnxt_re's library frees the queue if its kernel driver cannot resize it, mlx4's fails in some
    // releases, and qedr's did nothing. So only vendors known to be good are allowed.
    bool resizes_completion_queues() const;

    // Nothing exists there for an HCA that a preloaded library provides.
    const Sysfs& sysfs() const { return sysfs_; }

    // Whether the kernel and the provider support dmabuf regions at all: registering an invalid
    // file fails with EBADF if they do. If not, cause receives the reason.
    bool supports_dmabuf(ibv_pd* pd, std::string* cause) const;

  private:
    std::string name_;
    Context context_;
    Sysfs sysfs_;
    ibv_device_attr attributes_{};
    std::vector<Port> ports_;
};

} // namespace gdr::verbs
