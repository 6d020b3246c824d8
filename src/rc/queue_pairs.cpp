// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/queue_pairs.hpp"

#include "verbs/error.hpp"

#include <utility>

namespace gdr::rc {

// Only a queue pair shows how much fits into a work request.
QueuePairs::QueuePairs(Provider& provider, ReceiveQueues& receives, const Setup& setup,
                       uint32_t wanted)
    : provider_(provider), receives_(receives), setup_(setup)
{
    provider_.choose_posting(
        [this, wanted](verbs::Posting posting) { max_inline_ = find_max_inline(wanted, posting); });
}

verbs::QueuePair QueuePairs::make() const
{
    uint32_t inline_data = max_inline_;
    verbs::QueuePair made = create(&inline_data, provider_.posting());
    receives_.supply(made.get(), Side::active);
    provider_.adopt(made.get(), true);
    return made;
}

verbs::QueuePair QueuePairs::create(uint32_t* inline_data, verbs::Posting posting) const
{
    ibv_qp_cap capabilities{};
    // One more, because an emulated atomic posts its next step before the credit of the last has
    // returned.
    capabilities.max_send_wr = setup_.work_requests + 1;
    capabilities.max_send_sge = setup_.pieces;
    capabilities.max_inline_data = *inline_data;
    receives_.ask_for(capabilities, Side::active);
    verbs::QueuePair made =
        verbs::create_rc(provider_.pd(), setup_.cq, receives_.srq(), setup_.path,
                         setup_.remote_access, &capabilities, posting);
    *inline_data = capabilities.max_inline_data;
    return made;
}

uint32_t QueuePairs::find_max_inline(uint32_t wanted, verbs::Posting posting) const
{
    while (true) {
        try {
            uint32_t granted = wanted;
            create(&granted, posting);
            return granted < kSmallestInline ? 0 : granted;
        } catch (const verbs::Error&) {
            if (wanted == 0) {
                throw;
            }
            wanted = wanted / 2 < kSmallestInline ? 0 : wanted / 2;
        }
    }
}

} // namespace gdr::rc
