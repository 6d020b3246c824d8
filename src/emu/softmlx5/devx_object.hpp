// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An object that a program made by DEVX, over a queue pair (or DC target), a completion queue or a
// receive memory pool: as the context has them for the verbs too, an RMP as an SRQ. Or over a list
// of keys, which no verb makes.
#pragma once

#include "emu/softmlx5/cq.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace softmlx5 {

// Memory of the program that objects may use.
struct Umem {
    std::uint64_t start, length;
};

struct DevxObject {
    enum class Kind : std::uint8_t { qp = 1, cq, rmp, key_list };

    struct Subscription {
        std::uint16_t event;
        std::shared_ptr<CompletionChannel> channel;
        std::uint64_t cookie;
    };

    // Unlike those that verbs objects have.
    static std::uint32_t handle_of(Kind kind, std::uint32_t index)
    {
        return static_cast<std::uint32_t>(kind) << 24 | index;
    }

    Kind kind;
    std::uint32_t index = 0; // of softhca's
    std::vector<std::shared_ptr<const Umem>> memory{};
    std::vector<Subscription> subscriptions{};

    void tell(std::uint16_t event)
    {
        for (const Subscription& subscription : subscriptions) {
            if (subscription.event == event) {
                subscription.channel->write({subscription.cookie});
            }
        }
    }
};

} // namespace softmlx5
