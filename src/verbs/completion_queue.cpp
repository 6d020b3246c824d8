// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creation of completion queues, and polling an extended one.
#include "verbs/completion_queue.hpp"

#include "verbs/error.hpp"

#include <cerrno>
#include <string>

namespace gdr::verbs {

CompletionQueue create_cq(ibv_context* context, unsigned entries, ibv_comp_channel* channel)
{
    CompletionQueue cq(ibv_create_cq(context, static_cast<int>(entries), nullptr, channel, 0));
    if (!cq) {
        throw Error("ibv_create_cq(" + std::to_string(entries) + ")", errno);
    }
    return cq;
}

CompletionQueue create_single_threaded_cq(ibv_context* context, unsigned entries,
                                          ibv_comp_channel* channel)
{
    ibv_cq_init_attr_ex init{};
    init.cqe = entries;
    init.channel = channel;
    init.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    ibv_cq_ex* cq = ibv_create_cq_ex(context, &init);
    if (cq == nullptr) {
        throw Error("ibv_create_cq_ex(" + std::to_string(entries) + ")", errno);
    }
    return CompletionQueue(ibv_cq_ex_to_cq(cq));
}

int poll_extended(ibv_cq* cq, int most, ibv_wc* completions)
{
    auto* extended = reinterpret_cast<ibv_cq_ex*>(cq); // as ibv_cq_ex_to_cq casts it
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(extended, &attributes) != 0) {
        return 0;
    }
    int count = 0;
    do {
        ibv_wc& wc = completions[count];
        wc.status = extended->status;
        wc.wr_id = extended->wr_id;
        if (wc.status == IBV_WC_SUCCESS) [[likely]] {
            wc.opcode = ibv_wc_read_opcode(extended);
            wc.byte_len = ibv_wc_read_byte_len(extended);
            wc.imm_data = ibv_wc_read_imm_data(extended);
            wc.qp_num = ibv_wc_read_qp_num(extended);
            wc.wc_flags = ibv_wc_read_wc_flags(extended);
        }
    } while (++count < most && ibv_next_poll(extended) == 0);
    ibv_end_poll(extended);
    return count;
}

unsigned take_events(ibv_comp_channel* channel, ibv_cq* cq)
{
    ibv_cq* event_cq;
    void* context;
    unsigned events = 0;
    while (ibv_get_cq_event(channel, &event_cq, &context) == 0) {
        ++events;
    }
    if (events > 0) {
        ibv_ack_cq_events(cq, events);
    }
    return events;
}

} // namespace gdr::verbs
