// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The rules of faults that happen on purpose. SOFTHCA_FAULTS holds them, or the path of a file with
// them, which has a slash in it. Rules are separated by line ends and semicolons; '#' starts a
// comment.
//
//   RULE    = [softhcaN] [qp K] ACTION | [softhcaN] SLOWNESS
//   ACTION  = error STATUS at N   the Nth send work request is not executed and completes with
//                                 STATUS
//           | delay US at N       the Nth completes, for both sides, US microseconds later
//           | drop at N           from the Nth on the queue pairs are unreachable, and reach nobody
//           | kill at N           the process dies when it posts the Nth
//           | down MS at N        the port is down for MS milliseconds from the Nth on
//           | down MS at start    the port is down for MS milliseconds when the process opens its
//                                 first device
//           | cut at N            the Nth, a SEND, breaks off behind its first packet: it takes a
//                                 receive and ends here as if the peer no longer answered
//           | endless at N        the queue pair of the Nth never gives up repeating
//           | device_fatal at N   at the Nth the HCA fails: IBV_EVENT_DEVICE_FATAL, and nothing of
//                                 this process completes on it any more
//           | cq_err at N         the completion queue of the Nth fails: IBV_EVENT_CQ_ERR, and
//                                 nothing of its queue pair completes any more
//           | srq_err at N        the same for its shared receive queue: IBV_EVENT_SRQ_ERR
//           | rnr N               the first N messages to each RC queue pair find it not ready
//   SLOWNESS = modify US          each ibv_modify_qp takes US microseconds more
//           | unresolved K US     the address of softhcaK cannot be resolved, which takes US
//                                 microseconds each time: as RoCE's in the kernel. softhcaK itself
//                                 finds it
//           | unusable K          no address handle can be made with the port's GID of index K
//   STATUS  = the name of an ibv_wc_status in small letters without IBV_WC_, as in rem_access_err
//
// A rule is for the queue pairs of this process on that HCA, or on any; for all of them together or
// for the Kth that was created. Work requests are counted from 1 over all that the rule is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace softhca {

struct FaultRule {
    enum class Action {
        error,
        delay,
        drop,
        kill,
        down,
        cut,
        endless,
        device_fatal,
        cq_err,
        srq_err,
        rnr,
        modify,
        unresolved,
        unusable
    };

    int device = -1;      // -1: any
    std::uint32_t qp = 0; // 0: all
    Action action{};
    std::uint32_t amount = 0; // status, microseconds, milliseconds, messages
    unsigned neighbour = 0;   // an HCA
    unsigned gid = 0;         // an index
    std::uint64_t at = 0;     // 0: not tied to a work request

    bool is_of_a_work_request() const
    {
        return action != Action::rnr && action != Action::modify && action != Action::unresolved &&
               action != Action::unusable;
    }
    bool concerns(unsigned other_device, std::uint32_t number) const
    {
        return (device < 0 || static_cast<unsigned>(device) == other_device) &&
               (qp == 0 || qp == number);
    }
};

struct FaultRules {
    std::string text; // as the user wrote it
    std::vector<FaultRule> rules;
};

// Read once; what is no rule is named on standard error.
const FaultRules& fault_rules();

} // namespace softhca
