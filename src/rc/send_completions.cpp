// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/send_completions.hpp"

namespace gdr::rc {
namespace {

// This may have been its last work request.
void finish_closing(Endpoint& ep)
{
    if (!ep.has_outstanding() || ep.failure != UCS_OK) {
        delete &ep;
    } else {
        ep.signal_last();
    }
}

} // namespace

void handle_sent_slow(Endpoint& ep, uint64_t wr_id, ucs_status_t status)
{
    if (ep.failure == UCS_OK || !not_after(number_of(wr_id), ep.completed)) {
        ep.attention |= Endpoint::kCompleting;
        finish_up_to(ep, wr_id, status);
        handle_sent_end(ep, wr_id, status);
    } else if (ep.closing) { // a later completion was reported before this one
        finish_closing(ep);
    }
}

void handle_sent_end(Endpoint& ep, uint64_t wr_id, ucs_status_t status)
{
    count_up_to(ep, wr_id);
    if (!ep.flush_waiters.empty()) {
        ep.notify_flush_waiters(status);
    }
    ep.update_attention();
    if (ep.closing) {
        finish_closing(ep);
    }
}

} // namespace gdr::rc
