// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/connect/handshake_sender.hpp"

#include <algorithm>

namespace gdr::rc {
namespace {

// InfiniBand's code of the shortest RNR delay that is at least so long.
uint8_t rnr_timer(double seconds)
{
    static constexpr double milliseconds[] = {
        655.36, 0.01,  0.02,  0.03,  0.04,  0.06,   0.08,   0.12,   0.16,   0.24,  0.32,
        0.48,   0.64,  0.96,  1.28,  1.92,  2.56,   3.84,   5.12,   7.68,   10.24, 15.36,
        20.48,  30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
    for (uint8_t code = 1; code < 32; ++code) {
        if (milliseconds[code] * 1e-3 >= seconds) {
            return code;
        }
    }
    return 31;
}

} // namespace

HandshakeSender::HandshakeSender(const HandshakeSetup& setup, HandshakeChannel& channel)
    : setup_(setup), channel_(channel)
{
    setup_.iface.handshake_qpn = channel.qpn();
}

int HandshakeSender::connect(ibv_qp* qp, const DeviceAddress& peer, const Packet& packet,
                             uint32_t local_psn, const char** failed) const
{
    const Settings& settings = *setup_.settings;
    verbs::RcAttributes rc{};
    rc.mtu = std::min(setup_.mtu, static_cast<ibv_mtu>(peer.mtu));
    rc.remote_qpn = packet.qpn;
    rc.remote_psn = packet.psn;
    rc.local_psn = local_psn;
    rc.max_rd_atomic =
        static_cast<uint8_t>(std::min<unsigned>(setup_.max_rd_atomic, packet.max_dest_rd_atomic));
    rc.max_dest_rd_atomic = static_cast<uint8_t>(setup_.max_dest_rd_atomic);
    rc.timeout = ack_timeout(settings);
    rc.retry_count = static_cast<uint8_t>(settings.retry_count);
    rc.rnr_retry = static_cast<uint8_t>(settings.rnr_retry_count);
    rc.min_rnr_timer = rnr_timer(settings.rnr_timeout);
    return verbs::connect_rc(qp, setup_.path, destination(setup_.device, peer), rc, failed);
}

Packet HandshakeSender::packet(PacketType type, uint64_t target, uint64_t connection) const
{
    Packet packet{};
    packet.magic = kPacketMagic;
    packet.version = kWireVersion;
    packet.type = type;
    packet.max_dest_rd_atomic = static_cast<uint8_t>(setup_.max_dest_rd_atomic);
    packet.source = setup_.iface.incarnation;
    packet.target = target;
    packet.connection = connection;
    packet.handshake_qpn = setup_.iface.handshake_qpn;
    packet.handshake_qkey = setup_.iface.handshake_qkey;
    packet.device = setup_.device;
    return packet;
}

void HandshakeSender::send(Packet packet, const HashKey& key, const DeviceAddress& device,
                           uint32_t qpn, uint32_t qkey)
{
    packet.proof = proof(packet, key);
    channel_.send(packet, destination(setup_.device, device), qpn, qkey);
}

} // namespace gdr::rc
