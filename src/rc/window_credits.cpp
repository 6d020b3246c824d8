// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/window_credits.hpp"

#include "log/log.hpp"
#include "rc/connect/wire.hpp"
#include "rc/work_requests.hpp"
#include "verbs/error.hpp"

#include <arpa/inet.h>
#include <utility>

namespace gdr::rc {
namespace {

const char* device_of(const WindowCredit& credit)
{
    return ibv_get_device_name(credit.qp()->context->device);
}

} // namespace

uint64_t WindowCredit::wr_id() const
{
    return kSendBit | kAcceptedBit | uint64_t{qp_->qp_num} << kGenerationShift;
}

void WindowCredits::add(ibv_qp* qp, const ConnectionName& name)
{
    accepted_.insert_or_assign(qp->qp_num, WindowCredit(qp, name));
}

void WindowCredits::forget(uint32_t qpn)
{
    if (auto found = accepted_.find(qpn); found != accepted_.end()) {
        credits_.give_back(found->second.in_flight_);
        std::erase(waiting_, &found->second);
        accepted_.erase(found);
        grant_waiting();
    }
}

WindowCredit* WindowCredits::find(uint32_t qpn)
{
    auto found = accepted_.find(qpn);
    return found != accepted_.end() ? &found->second : nullptr;
}

void WindowCredits::request(WindowCredit& credit)
{
    ++credit.due_;
    grant(credit);
}

void WindowCredits::grant(WindowCredit& credit)
{
    while (credit.due_ > 0 && !credit.failed_) {
        if (credit.in_flight_ == static_cast<int>(kMostGrants)) {
            gdr_log(error,
                    "%s: a connection is closed: its peer asks for more windows than it can have "
                    "filled, as no UCX with gdr does",
                    device_of(credit));
            fail(credit);
            return;
        }
        if (credits_.available() <= -static_cast<int>(kGrantRoom)) {
            waiting_.push_back(&credit); // the next completion of a grant makes room
            return;
        }
        ibv_send_wr wr{};
        wr.wr_id = credit.wr_id();
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.imm_data = htonl(kWindowGrant);
        ibv_send_wr* refused;
        if (int error = post_send_(credit.qp_, &wr, &refused); error != 0) {
            gdr_log(error, "%s: a connection ends: the HCA takes no window grant: %s",
                    device_of(credit), verbs::errno_text(error).c_str());
            fail(credit);
            return;
        }
        --credit.due_;
        ++credit.in_flight_;
        credits_.take(1);
    }
}

void WindowCredits::sent(uint64_t wr_id, ibv_wc_status status)
{
    WindowCredit* const credit = find(static_cast<uint32_t>(wr_id >> kGenerationShift));
    if (credit == nullptr) {
        return; // gone, its credits are back
    }
    --credit->in_flight_;
    credits_.give_back(1);
    if (status != IBV_WC_SUCCESS && fail(*credit)) {
        gdr_log(diag, "%s: a peer could not be granted a window: %s: %s", device_of(*credit),
                ibv_wc_status_str(status), verbs::completion_cause(status));
    }
    grant_waiting();
}

bool WindowCredits::fail(WindowCredit& credit)
{
    if (std::exchange(credit.failed_, true)) {
        return false;
    }
    handshake_.accepted_failed(credit.name_);
    return true;
}

void WindowCredits::grant_waiting()
{
    for (WindowCredit* credit : std::exchange(waiting_, {})) {
        grant(*credit);
    }
}

} // namespace gdr::rc
