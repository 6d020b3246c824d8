// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/transfers/step.hpp"

#include "sync/transfers/sender.hpp"

namespace gdr::sync {

ucs_status_t Step::begin(void* step)
{
    auto& self = *static_cast<Step*>(step);
    self.posted_ = false;
    self.sent_ = 0;
    if (self.repeated) {
        self.iteration = self.kind == Kind::start ? self.transfer->ask() : self.transfer->asked();
    }
    return go_on(step);
}

ucs_status_t Step::go_on(void* step)
{
    auto& self = *static_cast<Step*>(step);
    switch (self.kind) {
    case Kind::start:
        return self.transfer->status() != UCS_OK      ? self.transfer->status()
               : self.transfer->begin(self.iteration) ? UCS_OK
                                                      : UCS_INPROGRESS;
    case Kind::ready:
        return self.make_ready();
    default:
        return self.transfer->test(self.iteration);
    }
}

ucs_status_t Step::make_ready()
{
    auto& sender = static_cast<Sender&>(*transfer);
    if (!posted_) {
        if (sender.status() != UCS_OK) {
            return sender.status();
        }
        if (!sender.begun(iteration)) {
            return UCS_INPROGRESS;
        }
        if (repeated && !sender.claim(iteration, first, count)) {
            return UCS_ERR_INVALID_PARAM;
        }
        sender.send(first, count);
        posted_ = true;
    }
    while (sent_ < count && sender.sent(first + sent_, iteration)) {
        ++sent_;
    }
    return sent_ == count ? UCS_OK : sender.status() != UCS_OK ? sender.status() : UCS_INPROGRESS;
}

} // namespace gdr::sync
