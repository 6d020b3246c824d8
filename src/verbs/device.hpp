// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An HCA: found by name, opened, with its attributes and those of its ports.
#pragma once

#include "verbs/handles.hpp"
#include "verbs/sysfs.hpp"

#include <string>
#include <vector>

namespace gdr::verbs {

// Names of the HCAs of this machine that speak InfiniBand or RoCE (those of other transports are
// left out), in the order of libibverbs. Empty without hardware, drivers or permission; reason, if
// not NULL, then says which.
std::vector<std::string> device_names(std::string* reason = nullptr);

// Whether the kernel knows RDMA devices, of whatever kind, or a library stands for some: without a
// look at them, and without libibverbs in the process.
bool may_have_devices();

struct Port {
    uint8_t number;
    ibv_port_attr attributes;
    bool ethernet;
    double bandwidth; // data rate after encoding, bytes per second

    // InfiniBand VFs: it is addressed by GID too, each address handle has a GRH.
    bool grh_required() const { return (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0; }
    bool active() const { return attributes.state == IBV_PORT_ACTIVE; }
};

// One opened HCA. Immutable after construction: may be read by any thread.
class Device {
  public:
    // Throws Error.
    explicit Device(const std::string& name);

    const std::string& name() const { return name_; }
    ibv_context* context() const { return context_.get(); }
    const ibv_device_attr& attributes() const { return attributes_; }
    const std::vector<Port>& ports() const { return ports_; }

    // What queue pairs and regions may allow peers: WRITE, READ, and atomics where the HCA has
    // them. mlx5's driver refuses queue pairs that ask for atomics that are not there.
    int remote_access() const;

    // Whether ibv_resize_cq can be tried on a completion queue that is to live on. bnxt_re's
    // library frees the queue where its kernel driver resizes none, mlx4's fails in some releases,
    // qedr's did nothing: only what is known to be good, by its vendor.
    bool resizes_completion_queues() const;

    // Of an HCA that a library stands for nothing is there.
    const Sysfs& sysfs() const { return sysfs_; }

    // Whether the kernel and the provider know dmabuf regions at all: a registration of no file
    // answers EBADF where they do. cause receives the reason where they do not.
    bool supports_dmabuf(ibv_pd* pd, std::string* cause) const;

  private:
    std::string name_;
    Context context_;
    Sysfs sysfs_;
    ibv_device_attr attributes_{};
    std::vector<Port> ports_;
};

} // namespace gdr::verbs
