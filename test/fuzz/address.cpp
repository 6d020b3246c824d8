// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Addresses of peers, as UCP hands them to is_reachable(): of any transport called "gdr", of any
// length. The input says how much of a right address is kept.
#include "target.hpp"

#include "copy/address.hpp"
#include "rc/connect/address.hpp"

#include <algorithm>

namespace {

using namespace gdr::rc;

constexpr uint32_t kSegmentSize = 8192;
constexpr uint16_t kPkey = 0x8001;

DeviceAddress local_device(Link link)
{
    DeviceAddress device{kAddressTag, kWireVersion, link, IBV_MTU_4096, 7, kPkey, {0xfe, 0x80}, 0};
    if (link == Link::roce_v2) {
        std::memset(device.gid, 0, 10);
        std::memset(device.gid + 10, 0xff, 6);
    }
    return device;
}

// A right address, some bytes of which the input changes, as long as it has to be: one of a foreign
// transport may end behind its tag.
template <typename Address>
std::unique_ptr<char[]> changed(Address address, FuzzedDataProvider& input)
{
    auto* bytes = reinterpret_cast<char*>(&address);
    for (unsigned changes = input.ConsumeIntegralInRange(0u, 3u); changes > 0; --changes) {
        size_t at = input.ConsumeIntegralInRange<size_t>(0, sizeof(address) - 1);
        bytes[at] = input.ConsumeIntegral<char>();
    }
    size_t length = address.tag != kAddressTag        ? sizeof(address.tag)
                    : address.version != kWireVersion ? offsetof(Address, version) + 1
                                                      : sizeof(address);
    auto exact = std::make_unique<char[]>(length);
    std::copy_n(bytes, length, exact.get());
    return exact;
}

void judge_rc(FuzzedDataProvider& input)
{
    DeviceAddress local =
        local_device(input.PickValueInArray({Link::infiniband, Link::roce_v1, Link::roce_v2}));
    IfaceAddress iface{};
    iface.tag = kAddressTag;
    iface.version = kWireVersion;
    iface.segment_size = kSegmentSize;
    const bool with_device = input.ConsumeBool(), with_iface = input.ConsumeBool();
    auto device_bytes = changed(local, input);
    auto iface_bytes = changed(iface, input);
    auto* device = with_device ? reinterpret_cast<DeviceAddress*>(device_bytes.get()) : nullptr;
    auto* peer = with_iface ? reinterpret_cast<IfaceAddress*>(iface_bytes.get()) : nullptr;
    if (unreachable_reason(local, kSegmentSize, device, peer) != nullptr) {
        return;
    }
    if (peer != nullptr) {
        fuzz::expect(peer->tag == kAddressTag && peer->version == kWireVersion &&
                         peer->segment_size == kSegmentSize,
                     "a foreign interface address is taken");
    }
    if (device != nullptr) {
        fuzz::expect(device->tag == kAddressTag && device->version == kWireVersion &&
                         device->link == local.link && device->mtu >= IBV_MTU_256 &&
                         device->mtu <= IBV_MTU_4096,
                     "a foreign device address is taken");
        gdr::verbs::Destination reached = destination(local, *device);
        const bool global = local.link != Link::infiniband || device->grh_required != 0;
        fuzz::expect(reached.lid == device->lid && reached.global == global,
                     "a destination is not the address's");
    }
}

void judge_copy(FuzzedDataProvider& input)
{
    static const gdr::copy::Address own = gdr::copy::make_address();
    const bool ours = input.ConsumeBool();
    const size_t length = ours ? sizeof(own) : sizeof(own.tag);
    auto address = fuzz::exactly(length, input);
    if (ours) {
        std::memcpy(address.get(), &own.tag, sizeof(own.tag));
    } else if (std::memcmp(address.get(), &own.tag, sizeof(own.tag)) == 0) {
        return; // the tag is that of whole addresses
    }
    fuzz::expect(gdr::copy::same_address(own, address.get()) ==
                     (ours && std::memcmp(address.get(), &own, sizeof(own)) == 0),
                 "another copy interface's address is taken");
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    FuzzedDataProvider input(data, size);
    if (input.ConsumeBool()) {
        judge_rc(input);
    } else {
        judge_copy(input);
    }
    return 0;
}
