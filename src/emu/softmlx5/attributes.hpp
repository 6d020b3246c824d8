// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The attributes of a method of the ioctl.
#pragma once

#include "emu/softmlx5/command.hpp"

#include <cstring>

namespace softmlx5 {

template <class Header>
auto find(Header& header, unsigned id) -> decltype(&header.attrs[0])
{
    for (unsigned i = 0; i < header.num_attrs; ++i) {
        if (header.attrs[i].attr_id == id) {
            return &header.attrs[i];
        }
    }
    return nullptr;
}

// Short inputs stand in the attribute itself.
inline Command::In input(const ib_uverbs_ioctl_hdr& header, unsigned id)
{
    const ib_uverbs_attr* attribute = find(header, id);
    if (attribute == nullptr) {
        return {};
    }
    const bool is_short = attribute->len <= sizeof attribute->data;
    return {is_short ? &attribute->data : reinterpret_cast<const void*>(attribute->data),
            attribute->len};
}

inline Command::Out output(ib_uverbs_ioctl_hdr& header, unsigned id)
{
    ib_uverbs_attr* attribute = find(header, id);
    if (attribute == nullptr) {
        return {};
    }
    attribute->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    return {reinterpret_cast<void*>(attribute->data), attribute->len};
}

template <class Value>
Value value(const ib_uverbs_ioctl_hdr& header, unsigned id)
{
    Value result = {};
    const Command::In from = input(header, id);
    if (from.length != 0) {
        std::memcpy(&result, from.start, std::min(from.length, sizeof result));
    }
    return result;
}

template <class Value>
void answer(ib_uverbs_ioctl_hdr& header, unsigned id, const Value& value)
{
    const Command::Out to = output(header, id);
    std::memcpy(to.start, &value, std::min(to.length, sizeof value));
}

// An object's handle, which both sides write into the attribute.
inline std::uint32_t handle(const ib_uverbs_ioctl_hdr& header, unsigned id)
{
    const ib_uverbs_attr* attribute = find(header, id);
    return attribute == nullptr ? softhca::kNone : static_cast<std::uint32_t>(attribute->data);
}
inline void answer_handle(ib_uverbs_ioctl_hdr& header, unsigned id, std::uint64_t value)
{
    if (ib_uverbs_attr* attribute = find(header, id)) {
        attribute->data = value;
    }
}

} // namespace softmlx5
