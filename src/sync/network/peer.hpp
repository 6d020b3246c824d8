// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A process that operations of kernels and prepared transfers go to: the lanes to it.
#pragma once

#include "direct/queue_pair.hpp"
#include "sync/network/mailbox.hpp"
#include "sync/rings/lane.hpp"

#include <string>
#include <vector>

#include <ucp/api/ucp.h>

struct ugdr_mem;
struct ugdr_rmem;

namespace gdr::sync {

class Network;

class Peer {
  public:
    // The mailbox is made available to the other side by this memory. Makes queue pairs of the HCAs
    // that are nearest to this GPU. Throws std::exception.
    Peer(Network& network, unsigned channels, CUdevice gpu, std::unique_ptr<Mailbox> mailbox,
         ugdr_mem* memory);
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    Network& network() const { return network_; }

    // For the other side's connect().
    const std::vector<uint8_t>& blob() const { return blob_; }

    // Once. Returns what is to be imported of the other side's mailbox. Throws std::exception.
    std::vector<uint8_t> connect(const void* blob, size_t length);

    // UCS_ERR_NOT_CONNECTED, UCS_OK, or why the first of its lanes failed. Any thread.
    ucs_status_t status() const { return static_cast<ucs_status_t>(status_.load()); }

    const Lanes& lanes() const { return lanes_; }
    Lane& transfers_lane() const { return *transfers_lane_; } // of prepared transfers
    ucp_ep_h ep() const { return ep_; }                       // nullptr: its lanes are queue pairs
    uint64_t process() const { return process_; } // of the other side: its Network::process()
    size_t hcas() const { return hcas_; }         // of the other side

    const std::unique_ptr<Mailbox> mailbox;
    ugdr_mem* const mailbox_memory;
    ugdr_rmem* far_mailbox = nullptr; // once it is connected

    unsigned imported = 0;                  // memories of it
    std::atomic<unsigned> transfers{0};     // prepared ones
    std::shared_ptr<void> correspondence{}; // about these

  private:
    std::string obstacle_to(const std::vector<direct::QueuePairAddress>& addresses) const;
    void connect_queue_pairs(const std::vector<direct::QueuePairAddress>& addresses);
    void connect_by_ucp(const void* address);
    void set(std::vector<std::unique_ptr<Lane>> lanes);

    Network& network_;
    const unsigned channels_;
    std::vector<direct::QueuePair> queue_pairs_; // until it is connected: one for each lane
    std::vector<uint8_t> blob_;
    ucp_ep_h ep_ = nullptr;
    std::atomic<int> status_{UCS_ERR_NOT_CONNECTED};
    Lanes lanes_;
    std::unique_ptr<Lane> transfers_lane_;
    uint64_t process_ = 0;
    size_t hcas_ = 0;
};

} // namespace gdr::sync
