// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Remote keys from peers, as UCP hands them to the components that unpack them.
#include "target.hpp"

#include "copy/component.hpp"
#include "rc/component/component.hpp"
#include "rc/remote_key.hpp"

#include <algorithm>

namespace {

using namespace gdr;

void unpack_changed(FuzzedDataProvider& input)
{
    mem::Region region{};
    region.kind = input.PickValueInArray({mem::MemoryKind::host, mem::MemoryKind::device});
    region.rkey = input.ConsumeIntegral<uint32_t>();
    auto packed = std::make_unique<rc::PackedRemoteKey>();
    rc::pack(region, packed.get());
    auto* bytes = reinterpret_cast<char*>(packed.get());
    for (unsigned changes = input.ConsumeIntegralInRange(0u, 4u); changes > 0; --changes) {
        bytes[input.ConsumeIntegralInRange<size_t>(0, sizeof(*packed) - 1)] =
            input.ConsumeIntegral<char>();
    }
    uct_rkey_t key = 0;
    void* handle = nullptr;
    if (rc::component().unpack_rkey(packed.get(), &key, &handle) != UCS_OK) {
        return;
    }
    fuzz::expect(packed->magic == rc::kRemoteKeyMagic && packed->reserved == 0,
                 "a damaged key is taken");
    fuzz::expect(rc::memory_kind(key) <= 1, "a kind of memory that does not exist");
    fuzz::expect(rc::verbs_rkey(key) == packed->rkey, "another key than was packed");
    mem::Region unpacked{};
    unpacked.kind = static_cast<mem::MemoryKind>(rc::memory_kind(key));
    unpacked.rkey = rc::verbs_rkey(key);
    rc::PackedRemoteKey again{};
    rc::pack(unpacked, &again);
    fuzz::expect(std::memcmp(&again, packed.get(), sizeof(again)) == 0,
                 "two packed forms of one key");
    rc::component().release_rkey(key, handle);
}

void unpack_bytes(FuzzedDataProvider& input)
{
    auto packed = fuzz::exactly(sizeof(rc::PackedRemoteKey), input);
    uct_rkey_t key = 0;
    void* handle = nullptr;
    if (rc::component().unpack_rkey(packed.get(), &key, &handle) == UCS_OK) {
        rc::component().release_rkey(key, handle);
    }
    // The copy interface packs nothing.
    fuzz::expect(copy::component().unpack_rkey(packed.get(), &key, &handle) == UCS_OK,
                 "an empty key is refused");
    copy::component().release_rkey(key, handle);
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    FuzzedDataProvider input(data, size);
    if (input.ConsumeBool()) {
        unpack_changed(input);
    } else {
        unpack_bytes(input);
    }
    return 0;
}
