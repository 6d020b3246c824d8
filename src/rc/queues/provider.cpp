// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Tries what a provider library may offer.
#include "rc/queues/provider.hpp"

#include "log/log.hpp"
#include "mlx5/library.hpp"
#include "verbs/error.hpp"

#include <string>
#include <utility>

namespace gdr::rc {
namespace {

// Whether the queues of the HCA can be written and read without its library.
bool can_take_queues(abi::Ternary wanted, const ibv_context& context, bool shares_receives)
{
    if (wanted == abi::Ternary::no) {
        return false;
    }
    const char* obstacle = !mlx5::is_provider_of(context) ? "the HCA's library is not libmlx5"
                           : !shares_receives             ? "the HCA has no shared receive queues"
                                                          : nullptr;
    if (obstacle != nullptr && wanted == abi::Ternary::yes) {
        throw UnmetSetting(std::string("UCX_GDR_RC_MLX5_QUEUES=y: ") + obstacle);
    }
    return obstacle == nullptr;
}

} // namespace

Provider::Provider(ibv_pd* pd, const Settings& settings, bool shares_receives, std::string device)
    : pd_(pd), device_(std::move(device)), single_threaded_cq_(settings.single_threaded_cq),
      wr_functions_(settings.wr_functions),
      takes_queues_(can_take_queues(settings.mlx5_queues, *pd_->context, shares_receives))
{
    take(settings.thread_domain, "THREAD_DOMAIN", "thread domain",
         [this] { thread_domain_.emplace(pd_); });
}

// Whether it is wanted and offered.
bool Provider::take(abi::Ternary wanted, const char* variable, const char* what,
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
            throw UnmetSetting(std::string("UCX_GDR_RC_") + variable + "=y: no " + what + ": " +
                               error.what());
        }
        gdr_log(diag, "%s: no %s: %s", device_.c_str(), what, error.what());
        return false;
    }
}

verbs::CompletionQueue Provider::create_cq(unsigned entries, ibv_comp_channel* channel)
{
    verbs::CompletionQueue cq;
    if (takes_queues_) {
        cq = verbs::create_cq(pd_->context, entries, channel);
        queues_.emplace(cq.get());
        poll_cq_ = mlx5::Queues::poll_cq;
        return cq;
    }
    if (take(single_threaded_cq_, "SINGLE_THREADED_CQ", "completion queue for a single thread",
             [&] { cq = verbs::create_single_threaded_cq(pd_->context, entries, channel); })) {
        poll_cq_ = verbs::poll_extended;
        return cq;
    }
    poll_cq_ = pd_->context->ops.poll_cq;
    return verbs::create_cq(pd_->context, entries, channel);
}

void Provider::choose_posting(const std::function<void(verbs::Posting)>& probe)
{
    if (!takes_queues_ && take(wr_functions_, "WR_FUNCTIONS", "posting by ibv_wr_*",
                               [&] { probe(verbs::Posting::by_functions); })) {
        posting_ = verbs::Posting::by_functions;
    } else {
        probe(verbs::Posting::by_lists);
    }
}

verbs::PostSend Provider::post_send() const
{
    return posting_ == verbs::Posting::by_functions ? verbs::post_by_functions : post_by_lists();
}

verbs::PostSend Provider::post_by_lists() const
{
    return takes_queues_ ? mlx5::Queues::post_send : verbs::post_send_of(*pd_->context);
}

verbs::PostReceives Provider::post_receives() const
{
    return takes_queues_ ? mlx5::Queues::post_srq_recv : pd_->context->ops.post_srq_recv;
}

void Provider::adopt(ibv_srq* srq)
{
    if (takes_queues_) {
        queues_->add(srq);
    }
}

void Provider::adopt(ibv_qp* qp, bool is_in_pd)
{
    if (takes_queues_) {
        queues_->add(qp, is_in_pd && thread_domain_);
    }
}

void Provider::forget(const ibv_qp& qp)
{
    if (takes_queues_) {
        queues_->remove(qp.qp_num);
    }
}

int Provider::request_notification(ibv_cq* cq, unsigned events)
{
    if (takes_queues_) {
        queues_->arm(events);
        return 0;
    }
    return ibv_req_notify_cq(cq, 0);
}

} // namespace gdr::rc
