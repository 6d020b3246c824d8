// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/send_credits.hpp"

#include "rc/queues/completion_room.hpp"

#include <algorithm>
#include <cstdint>

namespace gdr::rc {

void SendCredits::open(int most, unsigned queue_length)
{
    most_ = most;
    queue_length_ = static_cast<int>(queue_length);
}

void SendCredits::share_out(size_t endpoints, CompletionRoom& room)
{
    const int shares = std::max(static_cast<int>(endpoints), 1);
    const int64_t all = int64_t{shares} * queue_length_;
    const int more = static_cast<int>(std::min<int64_t>(all, most_)) - taken_;
    if (more > 0 && room.take(static_cast<unsigned>(more))) {
        taken_ += more;
        available_ += more;
    }
    if (taken_ >= all) {
        set_scarce(0);
        share_ = queue_length_;
    } else {
        set_scarce(taken_ / 2);
        share_ = std::max(scarce_ / shares, 1);
    }
}

} // namespace gdr::rc
