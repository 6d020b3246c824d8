/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/** @file
 * Conditions as an attribute of UCP's own operations.
 *
 * These are the names that were proposed for UCX itself, on libucx-gdr (ugdr.h). To be included
 * instead of ucp/api/ucp.h, last of all headers, in programs that are written for the proposal:
 *
 * - ucp_request_param_t has a member more, condition, which UCP_OP_ATTR_CONDITION says is set.
 * - ucp_..._nbx: with that, the operation is libucx-gdr's, on the default context
 *   (ugdr_context_set_default()), whose worker has to be the endpoint's; else UCP's as ever. Those
 *   that libucx-gdr has none of answer UCS_ERR_UNSUPPORTED to a condition.
 * - ucp_prepare_transfers, ucp_release_preparations: prepared transfers of ugdr.h.
 * - ucp_request_...: check_status, is_completed, cancel, free and release know requests of both
 *   kinds.
 *
 * All are macros and inline functions: what is linked is libucx-gdr and UCP. Other programs better
 * use ugdr.h, which says what happens when, and what errors there are. Fields newer than UCX 1.13's
 * memh are not there.
 */
#ifndef UCP_CONDITION_H
#define UCP_CONDITION_H

#include "ugdr.h"

#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UCP_OP_ATTR_CONDITION (1u << 31)

typedef ugdr_condition_h ucp_condition_h;

/** @defgroup ucp_conditions Conditions of UCP's operations
 * @{ */

/** When a condition holds. */
typedef enum {
    UCP_CONDITION_CATEGORY_STREAM, /**< context: the stream, which waits for the operations */
    UCP_CONDITION_CATEGORY_GRAPH,  /**< context: a #ucp_condition_graph_t */
    UCP_CONDITION_CATEGORY_KERNEL_TRIGGERED /**< context: a #ugdr_dev_condition_t, filled in */
} ucp_condition_category_t;

/** A graph, and its node. CUDA's nodes exist only in a graph: that has to be given; the node is the
 * answer. */
typedef struct ucp_condition_graph {
    ugdr_cu_graph_t graph;
    ugdr_cu_node_t node;
} ucp_condition_graph_t;

/** What a condition is. */
typedef struct ucp_condition_param {
    ucp_condition_category_t category;
    void* context; /**< as category says */
} ucp_condition_param_t;

/* UCP's, and the condition. */
typedef struct ucp_conditional_param {
    uint32_t op_attr_mask;
    uint32_t flags;
    void* request;
    __typeof__(((ucp_request_param_t*)0)->cb) cb;
    ucp_datatype_t datatype;
    void* user_data;
    void* reply_buffer;
    ucs_memory_type_t memory_type;
    __typeof__(((ucp_request_param_t*)0)->recv_info) recv_info;
    ucp_mem_h memh;
    ucp_condition_h condition;
} ucp_conditional_param_t;

/** Creates a condition on the default context. */
static inline ucs_status_t ucp_create_condition(const ucp_condition_param_t* param,
                                                ucp_condition_h* condition_p)
{
    ugdr_condition_params_t params;
    ugdr_condition_attr_t attr;
    ucs_status_t status;

    memset(&params, 0, sizeof(params));
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY;
    if (param->category == UCP_CONDITION_CATEGORY_STREAM) {
        params.field_mask |= UGDR_CONDITION_PARAM_FIELD_STREAM;
        params.category = UGDR_CONDITION_STREAM;
        params.stream = (ugdr_cu_stream_t)param->context;
        return ugdr_condition_create(ugdr_context_default(), &params, condition_p);
    }
    if (param->category == UCP_CONDITION_CATEGORY_GRAPH) {
        params.field_mask |= UGDR_CONDITION_PARAM_FIELD_GRAPH;
        params.category = UGDR_CONDITION_GRAPH;
        params.graph = ((ucp_condition_graph_t*)param->context)->graph;
        attr.field_mask = UGDR_CONDITION_ATTR_FIELD_NODES;
    } else if (param->category != UCP_CONDITION_CATEGORY_KERNEL_TRIGGERED) {
        return UCS_ERR_INVALID_PARAM;
    } else {
        params.category = UGDR_CONDITION_KERNEL;
        attr.field_mask = UGDR_CONDITION_ATTR_FIELD_DEVICE;
    }
    status = ugdr_condition_create(ugdr_context_default(), &params, condition_p);
    if (status != UCS_OK) {
        return status;
    }
    ugdr_condition_query(*condition_p, &attr);
    if (param->category == UCP_CONDITION_CATEGORY_GRAPH) {
        ((ucp_condition_graph_t*)param->context)->node = attr.trigger_node;
    } else {
        *(ugdr_dev_condition_t*)param->context = attr.device;
    }
    return UCS_OK;
}

/** Destroys a condition. */
static inline void ucp_destroy_condition(ucp_condition_h condition)
{
    ugdr_condition_destroy(condition);
}

/** @} */

/** @defgroup ucp_preparations Preparations: what is the same for each transfer
 * @{ */

/** What is prepared: one side's buffer. */
typedef struct ucp_preparation_param {
    ugdr_transfer_side_t side;
    void* buffer;
    size_t length;       /**< the same on both sides */
    unsigned partitions; /**< equal parts, on both sides alike or not */
    ucp_tag_t tag;       /**< of both sides, and in their processes of this pair alone */
} ucp_preparation_param_t;

/** A transfer that was prepared, for the functions of ugdr.h (@ref ugdr_transfers), and what it
 * goes over. */
typedef struct ucp_preparation {
    ugdr_transfer_h transfer;
    ugdr_peer_h peer;
} ucp_preparation_t;

/** Prepares transfers between two buffers, on the default context.
 *
 * Both sides have to call it, in different threads: it waits for the other side. Messages with tags
 * that begin with 0x75676472 and end with the lower half of the tag are its own meanwhile.
 *
 * @param ep leads to the other side, and is of the default context's worker
 * @param memh not needed: the library registers the memory by itself
 */
static inline ucs_status_t ucp_prepare_transfers(ucp_ep_h ep, ucp_mem_h memh,
                                                 const ucp_preparation_param_t* param,
                                                 ucp_preparation_t* preparation_p)
{
    struct {
        size_t length;
        char bytes[8184];
    } cards[2];
    const ugdr_context_h context = ugdr_context_default();
    const ucp_tag_t tag = ((ucp_tag_t)0x75676472 << 32) | (param->tag & 0xffffffff);
    ugdr_transfer_params_t params;
    ugdr_request_h requests[2];
    const void* blob = 0;
    ucs_status_t status;
    int turn;

    (void)memh;
    memset(preparation_p, 0, sizeof(*preparation_p));
    memset(cards, 0, sizeof(cards));
    status = ugdr_peer_create(context, 0, &preparation_p->peer);
    if (status != UCS_OK) {
        return status;
    }
    status = ugdr_peer_export(preparation_p->peer, &blob, &cards[0].length);
    if (status == UCS_OK && cards[0].length > sizeof(cards[0].bytes)) {
        status = UCS_ERR_NO_RESOURCE;
    }
    if (status == UCS_OK) {
        memcpy(cards[0].bytes, blob, cards[0].length);
    }
    /* The second time: both are connected. */
    for (turn = 0; turn < 2 && status == UCS_OK; ++turn) {
        status = ugdr_tag_recv(context, &cards[1], sizeof(cards[1]), tag, ~(ucp_tag_t)0, 0,
                               &requests[0]);
        if (status != UCS_OK) {
            break;
        }
        status = ugdr_tag_send(context, ep, &cards[0], sizeof(cards[0]), tag, 0, &requests[1]);
        if (status == UCS_OK) {
            status = ugdr_request_wait(requests[1]);
            ugdr_request_free(requests[1]);
        }
        if (status != UCS_OK) {
            ugdr_request_cancel(requests[0]);
        }
        if (ugdr_request_wait(requests[0]) != UCS_OK && status == UCS_OK) {
            status = ugdr_request_test(requests[0]);
        }
        ugdr_request_free(requests[0]);
        if (status == UCS_OK && turn == 0) {
            status = ugdr_peer_connect(preparation_p->peer, cards[1].bytes, cards[1].length);
        }
    }
    if (status == UCS_OK) {
        memset(&params, 0, sizeof(params));
        params.field_mask = UGDR_TRANSFER_PARAM_FIELD_PEER | UGDR_TRANSFER_PARAM_FIELD_BUFFER |
                            UGDR_TRANSFER_PARAM_FIELD_PARTITIONS | UGDR_TRANSFER_PARAM_FIELD_TAG;
        params.peer = preparation_p->peer;
        params.buffer = param->buffer;
        params.length = param->length;
        params.partitions = param->partitions;
        params.tag = param->tag;
        status = ugdr_transfer_create(context, param->side, &params, &preparation_p->transfer);
    }
    if (status == UCS_OK) {
        do {
            ugdr_progress(context);
            status = ugdr_transfer_test_match(preparation_p->transfer);
        } while (status == UCS_INPROGRESS);
        if (status != UCS_OK) {
            ugdr_transfer_destroy(preparation_p->transfer);
        }
    }
    if (status != UCS_OK) {
        ugdr_peer_destroy(preparation_p->peer);
    }
    return status;
}

/** Releases what was prepared, on each side after its last transfer.
 *
 * @retval UCS_ERR_BUSY a transfer is not complete
 */
static inline ucs_status_t ucp_release_preparations(ucp_preparation_t* preparation)
{
    const ucs_status_t status = ugdr_transfer_destroy(preparation->transfer);

    return status == UCS_OK ? ugdr_peer_destroy(preparation->peer) : status;
}

/** @} */

/* ---- inside ---------------------------------------------------------------------------------- */

/* UCP's requests are aligned; ours have this bit. */
static inline ugdr_request_h ucp_conditional_request(void* request)
{
    const uintptr_t bits = (uintptr_t)request;
    return (bits & 1) != 0 ? (ugdr_request_h)(bits - 1) : (ugdr_request_h)0;
}

static inline ucs_status_ptr_t ucp_conditional_result(ucs_status_t status, ugdr_request_h request)
{
    return status == UCS_OK ? (ucs_status_ptr_t)((uintptr_t)request | 1) : UCS_STATUS_PTR(status);
}

/* What UCP knows of it. */
static inline ucp_request_param_t ucp_conditional_plain(const ucp_conditional_param_t* param)
{
    ucp_request_param_t plain;

    memset(&plain, 0, sizeof(plain));
    plain.op_attr_mask = param->op_attr_mask & ~UCP_OP_ATTR_CONDITION;
    plain.flags = param->flags;
    plain.request = param->request;
    plain.cb = param->cb;
    plain.datatype = param->datatype;
    plain.user_data = param->user_data;
    plain.reply_buffer = param->reply_buffer;
    plain.memory_type = param->memory_type;
    plain.recv_info = param->recv_info;
    plain.memh = param->memh;
    return plain;
}

static inline ugdr_op_param_t ucp_conditional_op(const ucp_conditional_param_t* param,
                                                 const ucp_request_param_t* plain)
{
    ugdr_op_param_t op;
    ugdr_condition_attr_t attr;

    memset(&op, 0, sizeof(op));
    op.field_mask =
        UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_UCP | UGDR_OP_PARAM_FIELD_FLAGS;
    op.condition = param->condition;
    op.ucp = plain;
    attr.field_mask = UGDR_CONDITION_ATTR_FIELD_CATEGORY;
    ugdr_condition_query(param->condition, &attr);
    op.flags = attr.category == UGDR_CONDITION_STREAM ? UGDR_OP_FLAG_STREAM_WAIT : 0;
    return op;
}

/* ours: the call of libucx-gdr, with &op and &request; its: of UCP, with &plain. */
#define UCP_CONDITIONAL_CALL(_param, _ours, _its)                                                  \
    const ucp_request_param_t plain = ucp_conditional_plain(_param);                               \
    if (((_param)->op_attr_mask & UCP_OP_ATTR_CONDITION) != 0) {                                   \
        const ugdr_op_param_t op = ucp_conditional_op(_param, &plain);                             \
        ugdr_request_h request = 0;                                                                \
        const ucs_status_t status = _ours;                                                         \
        return ucp_conditional_result(status, request);                                            \
    }                                                                                              \
    return _its

static inline ucs_status_ptr_t ucp_conditional_tag_send_nbx(ucp_ep_h ep, const void* buffer,
                                                            size_t count, ucp_tag_t tag,
                                                            const ucp_conditional_param_t* param)
{
    UCP_CONDITIONAL_CALL(
        param, ugdr_tag_send(ugdr_context_default(), ep, buffer, count, tag, &op, &request),
        ucp_tag_send_nbx(ep, buffer, count, tag, &plain));
}

static inline ucs_status_ptr_t ucp_conditional_tag_recv_nbx(ucp_worker_h worker, void* buffer,
                                                            size_t count, ucp_tag_t tag,
                                                            ucp_tag_t tag_mask,
                                                            const ucp_conditional_param_t* param)
{
    UCP_CONDITIONAL_CALL(
        param, ugdr_tag_recv(ugdr_context_default(), buffer, count, tag, tag_mask, &op, &request),
        ucp_tag_recv_nbx(worker, buffer, count, tag, tag_mask, &plain));
}

static inline ucs_status_ptr_t ucp_conditional_am_send_nbx(ucp_ep_h ep, unsigned id,
                                                           const void* header, size_t header_length,
                                                           const void* buffer, size_t count,
                                                           const ucp_conditional_param_t* param)
{
    UCP_CONDITIONAL_CALL(param,
                         ugdr_am_send(ugdr_context_default(), ep, id, header, header_length, buffer,
                                      count, &op, &request),
                         ucp_am_send_nbx(ep, id, header, header_length, buffer, count, &plain));
}

static inline ucs_status_ptr_t ucp_conditional_put_nbx(ucp_ep_h ep, const void* buffer,
                                                       size_t count, uint64_t remote_addr,
                                                       ucp_rkey_h rkey,
                                                       const ucp_conditional_param_t* param)
{
    UCP_CONDITIONAL_CALL(
        param,
        ugdr_put(ugdr_context_default(), ep, buffer, count, remote_addr, rkey, &op, &request),
        ucp_put_nbx(ep, buffer, count, remote_addr, rkey, &plain));
}

static inline ucs_status_ptr_t ucp_conditional_get_nbx(ucp_ep_h ep, void* buffer, size_t count,
                                                       uint64_t remote_addr, ucp_rkey_h rkey,
                                                       const ucp_conditional_param_t* param)
{
    UCP_CONDITIONAL_CALL(
        param,
        ugdr_get(ugdr_context_default(), ep, buffer, count, remote_addr, rkey, &op, &request),
        ucp_get_nbx(ep, buffer, count, remote_addr, rkey, &plain));
}

static inline ucs_status_ptr_t ucp_conditional_ep_flush_nbx(ucp_ep_h ep,
                                                            const ucp_conditional_param_t* param)
{
    UCP_CONDITIONAL_CALL(param, ugdr_ep_flush(ugdr_context_default(), ep, &op, &request),
                         ucp_ep_flush_nbx(ep, &plain));
}

static inline ucs_status_ptr_t ucp_conditional_atomic_op_nbx(ucp_ep_h ep, ucp_atomic_op_t opcode,
                                                             const void* buffer, size_t count,
                                                             uint64_t remote_addr, ucp_rkey_h rkey,
                                                             const ucp_conditional_param_t* param)
{
    UCP_CONDITIONAL_CALL(param,
                         ugdr_atomic(ugdr_context_default(), ep, opcode, buffer, count, remote_addr,
                                     rkey, &op, &request),
                         ucp_atomic_op_nbx(ep, opcode, buffer, count, remote_addr, rkey, &plain));
}

static inline ucs_status_ptr_t
ucp_conditional_worker_flush_nbx(ucp_worker_h worker, const ucp_conditional_param_t* param)
{
    UCP_CONDITIONAL_CALL(param, ugdr_worker_flush(ugdr_context_default(), &op, &request),
                         ucp_worker_flush_nbx(worker, &plain));
}

/* its: of UCP, with &plain; none of libucx-gdr. */
#define UCP_UNCONDITIONAL_CALL(_param, _its)                                                       \
    const ucp_request_param_t plain = ucp_conditional_plain(_param);                               \
    if (((_param)->op_attr_mask & UCP_OP_ATTR_CONDITION) != 0)                                     \
        return UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED);                                                \
    return _its

static inline ucs_status_ptr_t ucp_conditional_ep_close_nbx(ucp_ep_h ep,
                                                            const ucp_conditional_param_t* param)
{
    UCP_UNCONDITIONAL_CALL(param, ucp_ep_close_nbx(ep, &plain));
}

static inline ucs_status_ptr_t
ucp_conditional_am_recv_data_nbx(ucp_worker_h worker, void* data, void* buffer, size_t count,
                                 const ucp_conditional_param_t* param)
{
    UCP_UNCONDITIONAL_CALL(param, ucp_am_recv_data_nbx(worker, data, buffer, count, &plain));
}

static inline ucs_status_ptr_t
ucp_conditional_tag_send_sync_nbx(ucp_ep_h ep, const void* buffer, size_t count, ucp_tag_t tag,
                                  const ucp_conditional_param_t* param)
{
    UCP_UNCONDITIONAL_CALL(param, ucp_tag_send_sync_nbx(ep, buffer, count, tag, &plain));
}

static inline ucs_status_ptr_t
ucp_conditional_tag_msg_recv_nbx(ucp_worker_h worker, void* buffer, size_t count,
                                 ucp_tag_message_h message, const ucp_conditional_param_t* param)
{
    UCP_UNCONDITIONAL_CALL(param, ucp_tag_msg_recv_nbx(worker, buffer, count, message, &plain));
}

static inline ucs_status_ptr_t ucp_conditional_stream_send_nbx(ucp_ep_h ep, const void* buffer,
                                                               size_t count,
                                                               const ucp_conditional_param_t* param)
{
    UCP_UNCONDITIONAL_CALL(param, ucp_stream_send_nbx(ep, buffer, count, &plain));
}

static inline ucs_status_ptr_t ucp_conditional_stream_recv_nbx(ucp_ep_h ep, void* buffer,
                                                               size_t count, size_t* length,
                                                               const ucp_conditional_param_t* param)
{
    UCP_UNCONDITIONAL_CALL(param, ucp_stream_recv_nbx(ep, buffer, count, length, &plain));
}

static inline ucs_status_t ucp_conditional_check_status(void* request)
{
    ugdr_request_h ours = ucp_conditional_request(request);
    return ours != 0 ? ugdr_request_test(ours) : ucp_request_check_status(request);
}

static inline int ucp_conditional_is_completed(void* request)
{
    return ucp_conditional_check_status(request) != UCS_INPROGRESS;
}

static inline void ucp_conditional_cancel(ucp_worker_h worker, void* request)
{
    ugdr_request_h ours = ucp_conditional_request(request);
    if (ours != 0) {
        ugdr_request_cancel(ours);
    } else {
        ucp_request_cancel(worker, request);
    }
}

static inline void ucp_conditional_free(void* request)
{
    ugdr_request_h ours = ucp_conditional_request(request);
    if (ours != 0) {
        ugdr_request_free(ours);
    } else {
        ucp_request_free(request);
    }
}

#define ucp_request_param_t ucp_conditional_param_t
#define ucp_tag_send_nbx ucp_conditional_tag_send_nbx
#define ucp_tag_recv_nbx ucp_conditional_tag_recv_nbx
#define ucp_am_send_nbx ucp_conditional_am_send_nbx
#define ucp_put_nbx ucp_conditional_put_nbx
#define ucp_get_nbx ucp_conditional_get_nbx
#define ucp_ep_flush_nbx ucp_conditional_ep_flush_nbx
#define ucp_atomic_op_nbx ucp_conditional_atomic_op_nbx
#define ucp_worker_flush_nbx ucp_conditional_worker_flush_nbx
#define ucp_ep_close_nbx ucp_conditional_ep_close_nbx
#define ucp_am_recv_data_nbx ucp_conditional_am_recv_data_nbx
#define ucp_tag_send_sync_nbx ucp_conditional_tag_send_sync_nbx
#define ucp_tag_msg_recv_nbx ucp_conditional_tag_msg_recv_nbx
#define ucp_stream_send_nbx ucp_conditional_stream_send_nbx
#define ucp_stream_recv_nbx ucp_conditional_stream_recv_nbx
#define ucp_request_check_status ucp_conditional_check_status
#define ucp_request_cancel ucp_conditional_cancel
#define ucp_request_free ucp_conditional_free
#define ucp_request_is_completed ucp_conditional_is_completed
#define ucp_request_release ucp_conditional_free

#ifdef __cplusplus
}
#endif

#endif
