// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Tries what a provider library may offer.
#include "rc/provider.hpp"

#include "abi/host.hpp"
#include "verbs/error.hpp"

#include <utility>

namespace gdr::rc {

Provider::Provider(ibv_pd* pd, const Settings& settings, std::string device)
    : pd_(pd), single_threaded_cq_(settings.single_threaded_cq),
      wr_functions_(settings.wr_functions), device_(std::move(device))
{
    take(settings.thread_domain, "thread domain", [this] { thread_domain_.emplace(pd_); });
}

// Whether it is wanted and offered.
bool Provider::take(abi::Ternary wanted, const char* what,
                    const std::function<void()>& attempt) const
{
    if (wanted == abi::Ternary::no) {
        return false;
    }
    try {
        attempt();
        return true;
    } catch (const verbs::Error& error) {
        if (wanted == abi::Ternary::yes) {
            throw UnmetSetting(std::string("no ") + what + ": " + error.what());
        }
        gdr_log(diag, "%s: no %s: %s", device_.c_str(), what, error.what());
        return false;
    }
}

verbs::CompletionQueue Provider::create_cq(unsigned entries, ibv_comp_channel* channel)
{
    verbs::CompletionQueue cq;
    if (take(single_threaded_cq_, "completion queue for a single thread",
             [&] { cq = verbs::create_single_threaded_cq(pd_->context, entries, channel); })) {
        poll_cq_ = verbs::poll_extended;
        return cq;
    }
    poll_cq_ = pd_->context->ops.poll_cq;
    return verbs::create_cq(pd_->context, entries, channel);
}

void Provider::choose_posting(const std::function<void(verbs::Posting)>& probe)
{
    if (take(wr_functions_, "posting by ibv_wr_*", [&] { probe(verbs::Posting::by_functions); })) {
        posting_ = verbs::Posting::by_functions;
    } else {
        probe(verbs::Posting::by_lists);
    }
}

verbs::PostSend Provider::post_send() const
{
    return posting_ == verbs::Posting::by_functions ? verbs::post_by_functions
                                                    : verbs::post_send_of(*pd_->context);
}

} // namespace gdr::rc
