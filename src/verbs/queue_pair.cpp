// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creation of queue pairs and their state transitions.
#include "verbs/queue_pair.hpp"

#include "verbs/error.hpp"
#include "verbs/posting.hpp"

#include <cerrno>
#include <string>

namespace gdr::verbs {
namespace {

constexpr uint32_t kUdPsn = 0;

QueuePair create(ibv_pd* pd, ibv_cq* cq, ibv_srq* srq, ibv_qp_type type, ibv_qp_cap* capabilities,
                 Posting posting)
{
    const bool by_functions = posting == Posting::by_functions;
    ibv_qp_init_attr_ex init{};
    init.send_cq = cq;
    init.recv_cq = cq;
    init.srq = srq;
    init.cap = *capabilities;
    init.qp_type = type;
    init.sq_sig_all = 0;
    init.pd = pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (by_functions) {
        init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = kSendOperations;
    }
    QueuePair qp(ibv_create_qp_ex(pd->context, &init));
    if (!qp) {
        throw Error("ibv_create_qp(" + std::string(type == IBV_QPT_RC ? "RC" : "UD") +
                        (by_functions ? ", for ibv_wr_*" : "") + ", max_send_wr " +
                        std::to_string(capabilities->max_send_wr) + ", max_inline_data " +
                        std::to_string(capabilities->max_inline_data) + ") on " +
                        ibv_get_device_name(pd->context->device),
                    errno);
    }
    if (by_functions && static_cast<void*>(ibv_qp_to_qp_ex(qp.get())) != qp.get()) {
        throw Error("ibv_qp_to_qp_ex", EOPNOTSUPP); // post_by_functions() only casts
    }
    *capabilities = init.cap;
    return qp;
}

void modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask, const char* state)
{
    if (int error = ibv_modify_qp(qp, &attributes, mask); error != 0) {
        throw Error(std::string("ibv_modify_qp to ") + state + " on " +
                        ibv_get_device_name(qp->context->device),
                    error);
    }
}

// From RESET to RTS.
void start_ud(ibv_qp* qp, const Path& path, uint32_t qkey)
{
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = path.pkey_index;
    attributes.port_num = path.port;
    attributes.qkey = qkey;
    modify(qp, attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT");
    attributes.qp_state = IBV_QPS_RTR;
    modify(qp, attributes, IBV_QP_STATE, "RTR");
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = kUdPsn;
    modify(qp, attributes, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

} // namespace

ibv_ah_attr address_vector(const Path& path, const Destination& destination)
{
    ibv_ah_attr vector{};
    vector.dlid = destination.lid;
    vector.sl = path.service_level;
    vector.port_num = path.port;
    vector.is_global = destination.global;
    if (destination.global) {
        vector.grh.dgid = destination.gid;
        vector.grh.sgid_index = path.gid_index;
        vector.grh.hop_limit = path.hop_limit;
        vector.grh.traffic_class = path.traffic_class;
    }
    return vector;
}

QueuePair create_rc(ibv_pd* pd, ibv_cq* cq, ibv_srq* srq, const Path& path, int remote_access,
                    ibv_qp_cap* capabilities, Posting posting)
{
    QueuePair qp = create(pd, cq, srq, IBV_QPT_RC, capabilities, posting);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = path.pkey_index;
    attributes.port_num = path.port;
    attributes.qp_access_flags = static_cast<unsigned>(remote_access);
    modify(qp.get(), attributes,
           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
    return qp;
}

int connect_rc(ibv_qp* qp, const Path& path, const Destination& destination, const RcAttributes& rc,
               const char** failed)
{
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = rc.mtu;
    attributes.dest_qp_num = rc.remote_qpn;
    attributes.rq_psn = rc.remote_psn;
    attributes.max_dest_rd_atomic = rc.max_dest_rd_atomic;
    attributes.min_rnr_timer = rc.min_rnr_timer;
    attributes.ah_attr = address_vector(path, destination);
    *failed = "RTR";
    if (int error =
            ibv_modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        error != 0) {
        return error;
    }

    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = rc.local_psn;
    attributes.timeout = rc.timeout;
    attributes.retry_cnt = rc.retry_count;
    attributes.rnr_retry = rc.rnr_retry;
    attributes.max_rd_atomic = rc.max_rd_atomic;
    *failed = "RTS";
    return ibv_modify_qp(qp, &attributes,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

QueuePair create_ud(ibv_pd* pd, ibv_cq* cq, const Path& path, uint32_t qkey,
                    ibv_qp_cap* capabilities)
{
    QueuePair qp = create(pd, cq, nullptr, IBV_QPT_UD, capabilities, Posting::by_lists);
    start_ud(qp.get(), path, qkey);
    return qp;
}

void restart_ud(ibv_qp* qp, const Path& path, uint32_t qkey)
{
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RESET;
    modify(qp, attributes, IBV_QP_STATE, "RESET");
    start_ud(qp, path, qkey);
}

void to_error(ibv_qp* qp)
{
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    (void)ibv_modify_qp(qp, &attributes,
                        IBV_QP_STATE); // fails only if the QP is beyond ERR already
}

void to_reset(ibv_qp* qp)
{
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RESET;
    (void)ibv_modify_qp(qp, &attributes, IBV_QP_STATE); // fails only if the HCA is gone
}

} // namespace gdr::verbs
