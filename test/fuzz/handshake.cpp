// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Datagrams at an interface's handshake queue pair, from anybody: random bytes, packets without the
// proof, and packets of somebody who was given the address. Between them the interface itself
// connects and disconnects endpoints, and time passes.
#include "target.hpp"
#include "wire.hpp"

#include "rc_support.hpp"

#include "rc/connect/wire.hpp"
#include "rc/iface.hpp"

#include <chrono>
#include <list>
#include <unordered_map>

namespace {

using namespace gdr::rc;
using namespace std::chrono_literals;

constexpr char kMostAccepted[] = "8";
constexpr char kMostOfPeer[] = "4";
constexpr auto kPatience = 6s;     // after which what nobody answers is given up
constexpr unsigned kQuestions = 5; // and so many questions
constexpr HashKey kPeerKey{{1, 2}};
constexpr uint64_t kPeer = 0x5eed;
// Never has the proof; too many bytes away from the peers for the input to make it of one.
constexpr uint64_t kStranger = 0xbad0bad0bad0bad0;
constexpr uint32_t kPeerQpn = 77;

bool is_answer(PacketType type)
{
    switch (type) {
    case PacketType::reply:
    case PacketType::reject:
    case PacketType::farewell_heard:
    case PacketType::confirmation:
        return true;
    default: // said unasked, as time passes
        return false;
    }
}

class Target {
  public:
    void run(FuzzedDataProvider& input)
    {
        while (input.remaining_bytes() > 0) {
            switch (input.ConsumeIntegralInRange(0, 7)) {
            case 0:
                receive_bytes(input);
                break;
            case 1:
                if (endpoints_.size() < 4) {
                    connect(input);
                }
                break;
            case 2:
                if (!endpoints_.empty()) {
                    endpoints_.pop_front();
                    turn();
                }
                break;
            case 3:
                fuzz::pass(
                    input.PickValueInArray<std::chrono::milliseconds>({1ms, 60ms, 900ms, 4s}));
                turn();
                break;
            default:
                receive_packet(input);
            }
        }
        clean_up();
    }

  private:
    void turn()
    {
        fuzz::asynchronous_turns();
        node_.progress();
        fuzz::asynchronous_turns();
        for (const fuzz::Sent& sent : fuzz::take_sent()) {
            if (sent.qp_type == IBV_QPT_UD) {
                const auto& packet = *reinterpret_cast<const Packet*>(sent.data.data());
                fuzz::expect(packet.target != kStranger || !is_answer(packet.type),
                             "an answer to somebody without the address");
            }
        }
        for (const auto& [qpn, credit] : window_credits()) {
            fuzz::expect(credit.name().peer != kStranger,
                         "a queue pair for somebody without the address");
        }
    }

    void deliver(const void* data, size_t length, uint32_t source)
    {
        fuzz::receive_datagram(address_.handshake_qpn, data, length, source);
        turn();
    }

    void receive_bytes(FuzzedDataProvider& input)
    {
        std::string bytes = input.ConsumeRandomLengthString(fuzz::kLongestDatagram);
        uint32_t source = kPeerQpn;
        if (bytes.size() >= sizeof(Packet)) {
            std::memcpy(&source, &bytes[offsetof(Packet, handshake_qpn)], sizeof(source));
        }
        deliver(bytes.data(), bytes.size(), source);
    }

    void connect(FuzzedDataProvider& input)
    {
        rc_test::Address to = node_.address();
        auto& iface = *reinterpret_cast<IfaceAddress*>(to.iface.data());
        iface.handshake_qpn = kPeerQpn;
        iface.incarnation = kPeer + input.ConsumeIntegralInRange(0u, 1u);
        iface.key = kPeerKey;
        endpoints_.emplace_back(node_, to);
        turn();
    }

    void receive_packet(FuzzedDataProvider& input)
    {
        const auto type = static_cast<PacketType>(input.ConsumeIntegralInRange(0, 8));
        const uint64_t peer = kPeer + input.ConsumeIntegralInRange(0u, 3u);
        Packet packet = from_peer(type, peer, input.ConsumeIntegralInRange<uint64_t>(0, 7));
        packet.reason = static_cast<RejectReason>(input.ConsumeIntegralInRange(0, 3));
        packet.max_dest_rd_atomic = input.ConsumeIntegral<uint8_t>();
        packet.qpn = input.ConsumeBool() ? kPeerQpn : input.ConsumeIntegral<uint32_t>();
        packet.psn = input.ConsumeIntegral<uint32_t>();
        packet.handshake_qkey = input.ConsumeIntegral<uint8_t>();
        packet.device.lid = static_cast<uint16_t>(device_.lid + input.ConsumeIntegralInRange(0, 3));
        for (unsigned changes = input.ConsumeIntegralInRange(0u, 3u); changes > 0; --changes) {
            const size_t at = input.ConsumeIntegralInRange<size_t>(0, offsetof(Packet, proof) - 1);
            reinterpret_cast<char*>(&packet)[at] = input.ConsumeIntegral<char>();
        }
        const uint32_t source = packet.handshake_qpn;
        switch (input.ConsumeIntegralInRange(0, 3)) {
        case 0: // does not know it
            packet.source = kStranger;
            packet.proof = input.ConsumeIntegral<uint64_t>();
            // libFuzzer sees what is compared, and puts it into the input.
            packet.proof ^= packet.proof == proof(packet, address_.key);
            break;
        case 1: // of the other direction: a peer that we connect to
            packet.proof = proof(packet, kPeerKey);
            break;
        default:
            packet.proof = proof(packet, address_.key);
        }
        deliver(&packet, sizeof(packet), source);
        fuzz::expect(window_credits().size() <= static_cast<unsigned>(std::atoi(kMostAccepted)),
                     "more is accepted than allowed");
    }

    // One for each connection that was accepted.
    const WindowCredits& window_credits() { return *rc_iface(node_.iface()).window_credits; }

    // From the peer, which knows our address.
    Packet from_peer(PacketType type, uint64_t source, uint64_t connection) const
    {
        Packet packet{};
        packet.magic = kPacketMagic;
        packet.version = kWireVersion;
        packet.type = type;
        packet.source = source;
        packet.target = address_.incarnation;
        packet.connection = connection;
        packet.handshake_qpn = kPeerQpn;
        packet.device = device_;
        return packet;
    }

    // The next input finds the interface as this one found it: nobody answers any more.
    void clean_up()
    {
        endpoints_.clear();
        turn();
        for (unsigned i = 0; i < kQuestions && fuzz::awaits_time(); ++i) {
            fuzz::pass(kPatience);
            turn();
        }
        fuzz::expect(window_credits().size() == 0, "what is of no use any more is kept");
        node_.failures.clear();
    }

    rc_test::Node node_{rc_test::Variables{{"MAX_ACCEPTED", kMostAccepted},
                                           {"MAX_ACCEPTED_OF_PEER", kMostOfPeer},
                                           {"KEEPALIVE_INTERVAL", "1s"},
                                           {"RX_QUEUE_LEN", "128"}}};
    const IfaceAddress address_ = rc_iface(node_.iface()).handshake->address();
    const DeviceAddress device_ = rc_iface(node_.iface()).local.address;
    std::list<rc_test::Endpoint> endpoints_; // to a peer that is not there
};

Target& target()
{
    static auto* const instance = new Target; // its end is not what is tested
    return *instance;
}

} // namespace

int LLVMFuzzerInitialize(int*, char*** argv)
{
    fuzz::start(*argv);
    target();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    FuzzedDataProvider input(data, size);
    target().run(input);
    return 0;
}
