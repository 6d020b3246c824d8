// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Tells the other side how to connect, and connects.
#include "sync/network/peer.hpp"

#include "log/log.hpp"
#include "sync/network/blob.hpp"
#include "sync/network/direct_lane.hpp"
#include "sync/network/network.hpp"
#include "sync/network/ucp_lane.hpp"

namespace gdr::sync {
namespace {

// What a peer's blob has first.
struct Introduction {
    uint64_t process;
    uint32_t channels;
    uint32_t hcas;
    uint32_t queue_pairs; // one for each channel and one more, or none
};

} // namespace

Peer::Peer(Network& network, unsigned channels, CUdevice gpu, std::unique_ptr<Mailbox> mailbox_of,
           ugdr_mem* memory)
    : mailbox(std::move(mailbox_of)), mailbox_memory(memory), network_(network), channels_(channels)
{
    direct::Hcas& hcas = network.hcas();
    const std::vector<unsigned> nearest = hcas.nearest(gpu);
    BlobWriter writer(BlobKind::peer);
    for (unsigned i = 0; i < channels + 1 && !nearest.empty(); ++i) {
        const unsigned number = nearest[i % nearest.size()];
        queue_pairs_.emplace_back(hcas[number], number);
    }
    writer.add(Introduction{network.process(), channels, static_cast<uint32_t>(hcas.size()),
                            static_cast<uint32_t>(queue_pairs_.size())});
    for (const direct::QueuePair& queue_pair : queue_pairs_) {
        writer.add(queue_pair.address());
    }
    const std::vector<uint8_t> address =
        network.ucp() != nullptr ? network.ucp()->worker_address() : std::vector<uint8_t>();
    writer.add_counted(address.data(), address.size());
    writer.add_counted(memory->blob.data(), memory->blob.size());
    blob_ = writer.finished();
}

std::vector<uint8_t> Peer::connect(const void* blob, size_t length)
{
    BlobReader reader("ugdr_peer_connect", blob, length, BlobKind::peer);
    if (status() != UCS_ERR_NOT_CONNECTED) {
        reader.refuse(UCS_ERR_INVALID_PARAM, "the peer is connected");
    }
    const auto introduction = reader.take<Introduction>();
    if (introduction.channels != channels_) {
        reader.refuse(UCS_ERR_INVALID_PARAM,
                      "the other side has " + std::to_string(introduction.channels) +
                          " channels, this one " + std::to_string(channels_));
    }
    if (introduction.queue_pairs != 0 && introduction.queue_pairs != channels_ + 1) {
        reader.refuse(UCS_ERR_INVALID_PARAM, "the blob contradicts itself");
    }
    const auto addresses = reader.take_values<direct::QueuePairAddress>(introduction.queue_pairs);
    for (const direct::QueuePairAddress& address : addresses) {
        if (address.hca >= introduction.hcas) {
            reader.refuse(UCS_ERR_INVALID_PARAM, "the blob contradicts itself");
        }
    }
    const BlobReader::Piece worker = reader.take_counted(),
                            far_mailbox_blob = reader.take_counted();
    const auto* const of_mailbox = static_cast<const uint8_t*>(far_mailbox_blob.data);
    std::vector<uint8_t> to_import(of_mailbox, of_mailbox + far_mailbox_blob.length);
    const std::string obstacle = obstacle_to(addresses);
    if (!obstacle.empty() && (network_.ucp() == nullptr || worker.length == 0)) {
        reader.refuse(UCS_ERR_UNREACHABLE,
                      obstacle +
                          "; and UCP cannot be used, for which both sides need a UCP context "
                          "(UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT)");
    }
    process_ = introduction.process;
    hcas_ = introduction.hcas;
    if (obstacle.empty()) {
        connect_queue_pairs(addresses);
    } else {
        gdr_log(diag, "UCP carries what kernels send to a peer: %s", obstacle.c_str());
        connect_by_ucp(worker.data);
    }
    return to_import;
}

// Why queue pairs cannot be connected; empty if they can.
std::string Peer::obstacle_to(const std::vector<direct::QueuePairAddress>& addresses) const
{
    if (queue_pairs_.empty()) {
        return "this side uses no HCA: " + network_.hcas().obstacle();
    }
    if (addresses.empty()) {
        return "the other side uses no HCA";
    }
    for (size_t i = 0; i < addresses.size(); ++i) {
        if (!queue_pairs_[i].speaks_with(addresses[i])) {
            return "the HCAs of the two sides speak different protocols (InfiniBand, RoCE version "
                   "1, version 2)";
        }
    }
    return {};
}

void Peer::connect_queue_pairs(const std::vector<direct::QueuePairAddress>& addresses)
{
    std::vector<std::unique_ptr<Lane>> lanes;
    status_ = UCS_OK;
    try {
        for (unsigned i = 0; i < addresses.size(); ++i) {
            lanes.push_back(
                std::make_unique<DirectLane>(std::move(queue_pairs_[i]), addresses[i], status_));
        }
    } catch (...) {
        status_ = UCS_ERR_CONNECTION_RESET; // some queue pairs are used up
        throw;
    }
    set(std::move(lanes));
}

void Peer::connect_by_ucp(const void* address)
{
    std::vector<std::unique_ptr<Lane>> lanes;
    ep_ = network_.ucp()->connect(address);
    for (unsigned i = 0; i < channels_ + 1; ++i) {
        lanes.push_back(std::make_unique<UcpLane>(network_.ucp()->engine(), ep_, status_));
    }
    status_ = UCS_OK;
    set(std::move(lanes));
}

void Peer::set(std::vector<std::unique_ptr<Lane>> lanes)
{
    queue_pairs_.clear();
    transfers_lane_ = std::move(lanes.back());
    lanes.pop_back();
    lanes_.set(std::move(lanes));
}

} // namespace gdr::sync
