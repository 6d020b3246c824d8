// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A process that operations of kernels go to: the lanes to it.
#pragma once

#include "direct/queue_pair.hpp"
#include "sync/rings/lane.hpp"

#include <string>
#include <vector>

#include <ucp/api/ucp.h>

namespace gdr::sync {

class Network;

class Peer {
  public:
    // Makes queue pairs of the HCAs that are nearest to this GPU. Throws std::exception.
    Peer(Network& network, unsigned channels, CUdevice gpu);
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    Network& network() const { return network_; }

    // For the other side's connect().
    const std::vector<uint8_t>& blob() const { return blob_; }

    // Once. Throws std::exception.
    void connect(const void* blob, size_t length);

    // UCS_ERR_NOT_CONNECTED, UCS_OK, or why the first of its lanes failed. Any thread.
    ucs_status_t status() const { return static_cast<ucs_status_t>(status_.load()); }

    const Lanes& lanes() const { return lanes_; }
    ucp_ep_h ep() const { return ep_; }           // nullptr: its lanes are queue pairs
    uint64_t process() const { return process_; } // of the other side: its Network::process()
    size_t hcas() const { return hcas_; }         // of the other side

    unsigned imported = 0; // memories of it

  private:
    std::string obstacle_to(const std::vector<direct::QueuePairAddress>& addresses) const;
    void connect_queue_pairs(const std::vector<direct::QueuePairAddress>& addresses);
    void connect_by_ucp(const void* address);

    Network& network_;
    const unsigned channels_;
    std::vector<direct::QueuePair> queue_pairs_; // until it is connected
    std::vector<uint8_t> blob_;
    ucp_ep_h ep_ = nullptr;
    std::atomic<int> status_{UCS_ERR_NOT_CONNECTED};
    Lanes lanes_;
    uint64_t process_ = 0;
    size_t hcas_ = 0;
};

} // namespace gdr::sync
