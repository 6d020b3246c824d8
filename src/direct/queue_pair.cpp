// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creates and connects queue pairs.
#include "direct/queue_pair.hpp"

#include "verbs/error.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <string>

namespace gdr::direct {
namespace {

constexpr unsigned kDepth = 256;
constexpr uint32_t kWord = sizeof(uint64_t);

// As UCX_GDR_RC_TIMEOUT and UCX_GDR_RC_RETRY_COUNT by default: 1.07 s, seven times.
constexpr uint8_t kAckTimeout = 18;
constexpr uint8_t kRetries = 6;

// Nothing here needs receives.
constexpr uint8_t kRnrRetries = 7;
constexpr uint8_t kRnrTimer = 1;

constexpr uint32_t kSmallestLimit = 1u << 27, kLargestMessage = 1u << 30;

} // namespace

QueuePair::QueuePair(Hca& hca, unsigned number)
    : hca_(&hca), number_(number),
      depth_(std::bit_floor(
          std::min({kDepth, static_cast<unsigned>(hca.device().attributes().max_qp_wr),
                    static_cast<unsigned>(hca.device().attributes().max_cqe)}))),
      largest_(std::clamp(hca.port().attributes.max_msg_sz, kSmallestLimit, kLargestMessage)),
      psn_(std::random_device()() & 0xffffff),
      cq_(verbs::create_cq(hca.device().context(), depth_, nullptr))
{
    const auto create = [&](uint32_t inline_data) {
        ibv_qp_cap capabilities{};
        capabilities.max_send_wr = depth_;
        capabilities.max_send_sge = 1;
        capabilities.max_recv_wr = capabilities.max_recv_sge = 1;
        capabilities.max_inline_data = inline_data;
        qp_ = verbs::create_rc(hca.pd(), cq_.get(), nullptr, hca.path(),
                               hca.device().remote_access(), &capabilities);
        inline_flag_ = capabilities.max_inline_data >= kWord ? unsigned{IBV_SEND_INLINE} : 0;
    };
    try {
        create(kWord);
    } catch (const verbs::Error&) {
        create(0);
    }
}

QueuePairAddress QueuePair::address() const
{
    return {hca_->address(), number_, qp_->qp_num, psn_};
}

void QueuePair::connect(const QueuePairAddress& peer)
{
    verbs::RcAttributes rc{};
    rc.mtu = static_cast<ibv_mtu>(std::min(hca_->address().mtu, peer.port.mtu));
    rc.remote_qpn = peer.qpn;
    rc.remote_psn = peer.psn;
    rc.local_psn = psn_;
    rc.max_rd_atomic = static_cast<uint8_t>(std::min<int>(
        hca_->device().attributes().max_qp_init_rd_atom, peer.port.max_dest_rd_atomic));
    rc.max_dest_rd_atomic = hca_->address().max_dest_rd_atomic;
    rc.timeout = kAckTimeout;
    rc.retry_count = kRetries;
    rc.rnr_retry = kRnrRetries;
    rc.min_rnr_timer = kRnrTimer;
    const char* failed = nullptr;
    if (const int error =
            verbs::connect_rc(qp_.get(), hca_->path(), hca_->destination(peer.port), rc, &failed);
        error != 0) {
        throw verbs::Error(std::string("ibv_modify_qp to ") + failed + " on " + name(), error);
    }
}

} // namespace gdr::direct
