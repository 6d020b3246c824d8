/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/** @file
 * CUDA streams, graphs and kernels trigger UCP operations and wait for them.
 *
 * The CPU does something else meanwhile. A stream reaches a point (ugdr_condition_create()), a
 * thread of the library posts the operations that hang on it (ugdr_tag_send() and the others), and
 * the stream goes on when they are complete (#UGDR_OP_FLAG_STREAM_WAIT, ugdr_stream_wait()). In a
 * graph the same happens at every launch. libucx-gdr works on the application's own worker and
 * endpoints of UCX 1.13 and later, whether that was built with CUDA or not.
 *
 * Neither cuda.h nor the CUDA runtime's headers are needed: cudaStream_t and CUstream are
 * ugdr_cu_stream_t, graphs and their nodes ugdr_cu_graph_t and ugdr_cu_node_t. To be compiled with
 * `$(pkg-config --cflags --libs libucx-gdr) -lucp -lucs`.
 *
 * @par Threads
 * Every function may be called from any thread at any time, but for a context that is being
 * destroyed. Callbacks run in the library's thread (#UGDR_PROGRESS_CALLER: within ugdr_progress()),
 * and may call nothing of this library but ugdr_request_test(), ugdr_request_cancel() and
 * ugdr_request_free(). A call that enqueues to a stream that is full waits for it, as CUDA's own
 * calls do; threads that use other streams do not.
 *
 * @par Errors
 * A function that refuses says why in one line of UCX's log (UCX_LOG_LEVEL), once for each kind of
 * refusal. A handle that is NULL is refused without that line: with UCS_ERR_INVALID_PARAM, where
 * the function has a status. A handle that was destroyed or freed is not recognised, and must not
 * be given. Every function answers UCS_ERR_UNSUPPORTED in a forked child of a process that had a
 * context.
 *
 * @par Environment
 * UGDR_SPIN_US: microseconds that the library's thread spins after the last event before it gives
 * its core away (200); see ugdr_context_create().
 */
#ifndef UGDR_H
#define UGDR_H

#include <ucp/api/ucp.h>

#include "ugdr_types.h"

#define UGDR_API_MAJOR 0
#define UGDR_API_MINOR 6

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ugdr_context* ugdr_context_h;
typedef struct ugdr_condition* ugdr_condition_h;
typedef struct ugdr_request* ugdr_request_h;
typedef struct ugdr_peer* ugdr_peer_h;
typedef struct ugdr_mem* ugdr_mem_h;
typedef struct ugdr_rmem* ugdr_rmem_h;
typedef struct ugdr_device* ugdr_device_h;
typedef struct ugdr_transfer* ugdr_transfer_h;

typedef struct CUstream_st* ugdr_cu_stream_t;
typedef struct CUgraph_st* ugdr_cu_graph_t;
typedef struct CUgraphNode_st* ugdr_cu_node_t;

/** @defgroup ugdr_contexts Contexts: one thread, one worker
 * @{ */

/** Who makes progress. */
typedef enum {
    UGDR_PROGRESS_THREAD, /**< a thread of the library; the default */
    UGDR_PROGRESS_CALLER  /**< whoever calls ugdr_progress(), one thread at a time */
} ugdr_progress_t;

/** What the library's thread does while nothing happens. It sleeps, until the next call of the
 * library, only where nothing is under way. */
typedef enum {
    UGDR_IDLE_ADAPTIVE, /**< spins for UGDR_SPIN_US, then yields between looks, after 10 ms
                             naps for 50 us between them; the default */
    UGDR_IDLE_SPIN,     /**< spins for ever: the shortest latency, a core for itself */
    UGDR_IDLE_YIELD     /**< yields between looks: for machines with fewer cores than threads */
} ugdr_idle_t;

/** Takes or releases the lock. */
typedef void (*ugdr_lock_cb_t)(void* arg);
/** Tells of the first operation that failed. */
typedef void (*ugdr_error_cb_t)(void* arg, ucs_status_t status, const char* what);

/** Fields of #ugdr_context_params_t that are set. */
enum ugdr_context_params_field {
    UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT = UCS_BIT(0), /**< ucp_context */
    UGDR_CONTEXT_PARAM_FIELD_WORKER = UCS_BIT(1),      /**< worker */
    UGDR_CONTEXT_PARAM_FIELD_LOCK = UCS_BIT(2),        /**< lock, unlock, lock_arg */
    UGDR_CONTEXT_PARAM_FIELD_PROGRESS = UCS_BIT(3),    /**< progress */
    UGDR_CONTEXT_PARAM_FIELD_IDLE = UCS_BIT(4),        /**< idle */
    UGDR_CONTEXT_PARAM_FIELD_CPU_SET = UCS_BIT(5),     /**< cpu_set */
    UGDR_CONTEXT_PARAM_FIELD_ERROR_CB = UCS_BIT(6),    /**< error_cb, error_arg */
    UGDR_CONTEXT_PARAM_FIELD_FLAGS = UCS_BIT(7)        /**< flags */
};

/** Flags of a context. */
enum ugdr_context_flags {
    UGDR_CONTEXT_FLAG_NO_DIRECT = UCS_BIT(0) /**< peers are reached without HCAs of the library's
                                                own (@ref ugdr_peers) */
};

/** Which worker the operations use, and how.
 *
 * - worker, made with UCS_THREAD_MODE_MULTI: nothing else is needed.
 * - worker, made with UCS_THREAD_MODE_SERIALIZED: lock and unlock, the application's own lock,
 *   which it holds around each use of the worker. Callbacks run with it held; whoever holds it may
 *   not call ugdr_request_wait().
 * - worker of any mode, #UGDR_PROGRESS_CALLER: the thread that uses the worker progresses both.
 * - ucp_context alone: a worker of the library's own; unless #UGDR_PROGRESS_CALLER is chosen the
 *   context must have been made with mt_workers_shared. See ugdr_worker_address().
 * - neither: ugdr_call() and peers with an HCA (@ref ugdr_peers) alone.
 *
 * Peers without an HCA need ucp_context, beside a worker of it or alone.
 *
 * Others are UCS_ERR_UNSUPPORTED. The worker, its endpoints and the UCP context have to outlive
 * the context. While nothing is under way the library does not progress a worker that it was given.
 */
typedef struct ugdr_context_params {
    uint64_t field_mask; /**< of #ugdr_context_params_field */
    ucp_context_h ucp_context;
    ucp_worker_h worker;
    ugdr_lock_cb_t lock;
    ugdr_lock_cb_t unlock;
    void* lock_arg;
    ugdr_progress_t progress;
    ugdr_idle_t idle;
    const ucs_cpu_set_t* cpu_set; /**< cores for the library's thread; else those of the caller */
    ugdr_error_cb_t error_cb;
    void* error_arg;
    uint64_t flags; /**< of #ugdr_context_flags */
} ugdr_context_params_t;

/** Any function of a UCX, by which the library finds that. */
typedef void (*ugdr_ucx_function_t)(void);

/** Creates a context for one of several UCX in a process.
 *
 * @param api_major, api_minor UGDR_API_MAJOR and UGDR_API_MINOR
 * @param ucx any function of the UCX that worker and ucp_context are of; NULL: the only UCX
 * @retval UCS_ERR_UNSUPPORTED there is no UCX, or the library is of another UGDR_API_MAJOR, or of a
 *     lower UGDR_API_MINOR while that is 0
 */
ucs_status_t ugdr_context_create_version(unsigned api_major, unsigned api_minor,
                                         ugdr_ucx_function_t ucx,
                                         const ugdr_context_params_t* params,
                                         ugdr_context_h* context_p);

/** Creates a context for the UCX that the caller is linked with.
 *
 * An inline function: ugdr_context_create_version() with the header's version and that UCX. */
static inline ucs_status_t ugdr_context_create(const ugdr_context_params_t* params,
                                               ugdr_context_h* context_p)
{
    return ugdr_context_create_version(UGDR_API_MAJOR, UGDR_API_MINOR,
                                       (ugdr_ucx_function_t)ucp_get_version, params, context_p);
}

/** Flags of ugdr_context_destroy(). */
enum ugdr_destroy_flags {
    UGDR_DESTROY_FORCE = UCS_BIT(0) /**< whatever is under way is cancelled, and streams go on */
};

/** Destroys a context.
 *
 * With #UGDR_DESTROY_FORCE every operation that is not complete ends with UCS_ERR_CANCELED and
 * every stream that waits goes on, those that will launch such a graph included; buffers of
 * operations that UCP had begun have to stay until the worker is destroyed. Conditions and requests
 * of the context may be freed afterwards, and nothing else. Makes no call of CUDA, unless prepared
 * transfers receive to a GPU's memory: streams may wait for these.
 *
 * @param flags of #ugdr_destroy_flags
 * @retval UCS_ERR_BUSY a device is open, there are prepared transfers, operations are not complete,
 * streams wait, or a graph or an executable made of one holds a condition; CUDA tells of their end
 * somewhat later than it returns from destroying them
 */
ucs_status_t ugdr_context_destroy(ugdr_context_h context, unsigned flags);

/** Fields of #ugdr_context_attr_t that are asked for. */
enum ugdr_context_attr_field {
    UGDR_CONTEXT_ATTR_FIELD_TRIGGER = UCS_BIT(0),  /**< trigger */
    UGDR_CONTEXT_ATTR_FIELD_COUNTERS = UCS_BIT(1), /**< counters */
    UGDR_CONTEXT_ATTR_FIELD_STATUS = UCS_BIT(2),   /**< status */
    UGDR_CONTEXT_ATTR_FIELD_WORKER = UCS_BIT(3)    /**< worker */
};

/** How streams tell that they have reached a point. */
typedef enum {
    UGDR_TRIGGER_MEMOPS,         /**< stream memory operations: 64-bit words in host memory */
    UGDR_TRIGGER_HOST_FUNCTIONS, /**< cuLaunchHostFunc, where there are none; streams cannot wait */
    UGDR_TRIGGER_NONE            /**< no CUDA, or no context is current */
} ugdr_trigger_t;

/** What a context has done. */
typedef struct ugdr_context_counters {
    uint64_t triggered;     /**< operations whose condition held */
    uint64_t posted;        /**< given to UCP, or whose function was called */
    uint64_t completed;     /**< ended, well or not */
    uint64_t failed;        /**< of these not well, cancelled ones included */
    uint64_t flushes;       /**< of GPUDirect writes, before a stream was released */
    uint64_t crowded_waits; /**< waits of streams, with as many others waiting as there are hardware
                               queues (CUDA_DEVICE_MAX_CONNECTIONS) */
} ugdr_context_counters_t;

/** What ugdr_context_query() tells. */
typedef struct ugdr_context_attr {
    uint64_t field_mask;    /**< of #ugdr_context_attr_field */
    ugdr_trigger_t trigger; /**< on the device of the current CUDA context */
    ugdr_context_counters_t counters;
    ucs_status_t status; /**< of the first operation that failed, not by being cancelled;
                            UCS_OK if none */
    ucp_worker_h worker; /**< the library's own: to be used within ugdr_call() alone, and
                            with UGDR_PROGRESS_CALLER by who calls ugdr_progress() */
} ugdr_context_attr_t;

/** Tells what a context does and has done. */
ucs_status_t ugdr_context_query(ugdr_context_h context, ugdr_context_attr_t* attr);

/** Sets the default context, which the operations of ucp_condition.h are on.
 *
 * It is kept until another is set: set NULL before it is destroyed.
 *
 * @param context NULL: none
 */
void ugdr_context_set_default(ugdr_context_h context);

/** Tells the default context.
 *
 * @return the context; NULL: none
 */
ugdr_context_h ugdr_context_default(void);

/** Does what there is to do, and progresses the worker while operations are under way.
 *
 * For #UGDR_PROGRESS_CALLER: otherwise the library's thread does the same.
 *
 * @return how many events it met; 0 with the library's thread
 */
unsigned ugdr_progress(ugdr_context_h context);

/** Tells the address of the library's own worker.
 *
 * Endpoints of it are made and closed in a function for ugdr_call(), with the worker that
 * ugdr_context_query() tells.
 *
 * @param address_p the address, which belongs to the context
 */
ucs_status_t ugdr_worker_address(ugdr_context_h context, const ucp_address_t** address_p,
                                 size_t* length_p);

/** @} */

/** @defgroup ugdr_conditions Conditions: when
 * @{ */

/** When a condition holds. */
typedef enum {
    UGDR_CONDITION_STREAM, /**< all that was enqueued to a stream before has run */
    UGDR_CONDITION_GRAPH,  /**< a node of a graph is reached; at every launch */
    UGDR_CONDITION_KERNEL  /**< a kernel says so; each time it does */
} ugdr_condition_category_t;

/** Fields of #ugdr_condition_params_t that are set. */
enum ugdr_condition_params_field {
    UGDR_CONDITION_PARAM_FIELD_CATEGORY = UCS_BIT(0), /**< category */
    UGDR_CONDITION_PARAM_FIELD_STREAM = UCS_BIT(1),   /**< stream */
    UGDR_CONDITION_PARAM_FIELD_GRAPH = UCS_BIT(2),    /**< graph, dependencies, num_dependencies */
    UGDR_CONDITION_PARAM_FIELD_FLAGS = UCS_BIT(3),    /**< flags; STREAM, GRAPH */
    UGDR_CONDITION_PARAM_FIELD_COUNT = UCS_BIT(4),    /**< count; KERNEL */
    UGDR_CONDITION_PARAM_FIELD_ARRIVALS = UCS_BIT(5)  /**< arrivals; KERNEL */
};

/** Flags of a condition. */
enum ugdr_condition_flags {
    /** GRAPH: a node that triggers and one that waits, behind it, for nodes that run in between;
     * else one node, which ends when the operations have. */
    UGDR_CONDITION_FLAG_SPLIT = UCS_BIT(0),
    /** STREAM: and the stream waits here, until the condition has been destroyed, or recorded
     * again, and all operations that were attached to it are complete. */
    UGDR_CONDITION_FLAG_WAIT = UCS_BIT(1)
};

/** What a condition is. */
typedef struct ugdr_condition_params {
    uint64_t field_mask; /**< of #ugdr_condition_params_field */
    ugdr_condition_category_t category;
    ugdr_cu_stream_t stream;            /**< also 0, whose context has to be current */
    ugdr_cu_graph_t graph;              /**< runs on the GPU of the current context */
    const ugdr_cu_node_t* dependencies; /**< nodes of the graph, which the new one comes behind */
    size_t num_dependencies;
    uint64_t flags;    /**< of #ugdr_condition_flags */
    unsigned count;    /**< separate triggers (partitions), up to 65536; 1 */
    unsigned arrivals; /**< calls of kernels that make one trigger; 1 */
} ugdr_condition_params_t;

/** Creates a condition, to which operations can be attached.
 *
 * #UGDR_CONDITION_STREAM: the point of the stream is that of this call: one call of CUDA. Any
 * number of operations may be attached, now or later; if the condition holds already they start at
 * once. Operations of one stream start in the order of their points, those of one point as they
 * were attached. A stream that is being captured gets a node in the graph instead, which triggers,
 * with no wait; #UGDR_OP_FLAG_STREAM_WAIT, ugdr_stream_wait() and ugdr_stream_wait_all() on it add
 * nodes that wait.
 *
 * With #UGDR_CONDITION_FLAG_WAIT the point and the wait are one call of CUDA instead of two, or one
 * node in a capture, and for all operations of the point together; they do not take
 * #UGDR_OP_FLAG_STREAM_WAIT. The stream stands still until ugdr_condition_destroy() or
 * ugdr_condition_record() says that no more are attached, so that has to follow;
 * #UGDR_DESTROY_FORCE ends the wait, too. In a capture it waits for what is attached when it is
 * launched.
 *
 * #UGDR_CONDITION_GRAPH: adds a node, or two, to a graph. An operation whose condition is in a
 * graph runs once at every launch, in the order of attaching; those attached while they run take
 * part from the next time on. The node is not passed again before they are complete: a launch that
 * comes too early waits there. Executables and clones of a graph share its conditions, and their
 * launches must not overlap; without stream memory operations, launches are counted, and no launch
 * waits. A condition belongs to its graph, and ends, as its operations do, with the last of graph,
 * clones and executables. Waits in graphs hold hardware queues as those of streams do
 * (ugdr_stream_wait()), and nobody counts them.
 *
 * #UGDR_CONDITION_KERNEL: kernels on the GPU of the current context trigger, and wait, by the
 * functions of ugdr_device.cuh, or the ready ones of LIBDIR/ucx-gdr/ugdr_device.ptx. Each trigger
 * has operations of its own, which run once each time, in the order of attaching. More than one
 * arrival takes memory of the GPU: create such conditions before streams wait.
 *
 * @retval UCS_ERR_UNSUPPORTED there is no CUDA, the driver is too old for graphs, or, with
 *     #UGDR_CONDITION_FLAG_WAIT, streams cannot wait (ugdr_stream_wait())
 * @retval UCS_ERR_INVALID_PARAM CUDA does not know the stream, the graph or a node, or the capture
 *     has been invalidated
 */
ucs_status_t ugdr_condition_create(ugdr_context_h context, const ugdr_condition_params_t* params,
                                   ugdr_condition_h* condition_p);

/** Moves a stream's condition to a new point, for operations attached from now on.
 *
 * Like cuEventRecord(). With #UGDR_CONDITION_FLAG_WAIT the stream waits there, too, and the wait at
 * the former point is for what was attached before, also where this fails. */
ucs_status_t ugdr_condition_record(ugdr_condition_h condition, ugdr_cu_stream_t stream);

/** Destroys a condition.
 *
 * Attached operations keep what they need: this may be called right after attaching. But a kernel's
 * condition ends, and with it its operations, once what is under way is complete: to be called
 * after the last kernel that uses it. */
ucs_status_t ugdr_condition_destroy(ugdr_condition_h condition);

/** Fields of #ugdr_condition_attr_t that are asked for. */
enum ugdr_condition_attr_field {
    UGDR_CONDITION_ATTR_FIELD_NODES = UCS_BIT(0), /**< trigger_node, done_node */
    UGDR_CONDITION_ATTR_FIELD_DEVICE =
        UCS_BIT(1), /**< device; KERNEL, else UCS_ERR_INVALID_PARAM */
    UGDR_CONDITION_ATTR_FIELD_CATEGORY = UCS_BIT(2) /**< category */
};

/** What ugdr_condition_query() tells.
 *
 * The nodes of CUDA's are there to add dependencies to: trigger_node comes behind what the
 * operations need, and before done_node what has to be over with them. They are equal without
 * #UGDR_CONDITION_FLAG_SPLIT. Of a captured condition done_node is NULL without
 * #UGDR_CONDITION_FLAG_WAIT, of a stream's both. */
typedef struct ugdr_condition_attr {
    uint64_t field_mask; /**< of #ugdr_condition_attr_field */
    ugdr_cu_node_t trigger_node;
    ugdr_cu_node_t done_node;
    ugdr_dev_condition_t device; /**< for kernels, by value */
    ugdr_condition_category_t category;
} ugdr_condition_attr_t;

/** Tells what a condition is. */
ucs_status_t ugdr_condition_query(ugdr_condition_h condition, ugdr_condition_attr_t* attr);

/** Makes the library forget a stream.
 *
 * To be called before a stream is destroyed where the driver is older than CUDA 12, which has no
 * cuStreamGetId(); later ones need no call.
 *
 * @retval UCS_ERR_BUSY a condition has not held yet, or the stream waits
 */
ucs_status_t ugdr_stream_release(ugdr_context_h context, ugdr_cu_stream_t stream);

/** @} */

/** @defgroup ugdr_operations Operations: what
 *
 * Each function returns as soon as the operation is recorded, in the state UCS_INPROGRESS: what UCP
 * says of it is the status of its request. Buffers, the AM header, rkey and endpoint have to stay
 * until it is complete. request_p may be NULL: nobody will ask; a stream can wait for it all the
 * same. param may be NULL: the operation begins at once.
 *
 * @retval UCS_ERR_INVALID_PARAM the context has no worker, parameters that are none, the condition
 *     is another context's, field_mask is 0 (a field that was set would not count), or has flags or
 *     index without a condition
 *
 * @{ */

/** Fields of #ugdr_op_param_t that are set. */
enum ugdr_op_param_field {
    UGDR_OP_PARAM_FIELD_CONDITION = UCS_BIT(0), /**< condition; absent: at once */
    UGDR_OP_PARAM_FIELD_UCP = UCS_BIT(1),       /**< ucp */
    UGDR_OP_PARAM_FIELD_FLAGS = UCS_BIT(2),     /**< flags */
    UGDR_OP_PARAM_FIELD_INDEX = UCS_BIT(3)      /**< index */
};

/** Flags of an operation. */
enum ugdr_op_flags {
    UGDR_OP_FLAG_STREAM_WAIT = UCS_BIT(0) /**< the condition's stream waits here for completion: one
                                             call of CUDA. Where CUDA refuses it the operation is
                                             cancelled, unless it has begun. Of a condition of
                                             CU_STREAM_PER_THREAD by the same thread alone
                                             (UCS_ERR_INVALID_PARAM) */
};

/** When an operation begins, and how. */
typedef struct ugdr_op_param {
    uint64_t field_mask; /**< of #ugdr_op_param_field */
    ugdr_condition_h condition;
    const ucp_request_param_t* ucp; /**< as UCP's functions take it, and copied. Not with a request
                                       of the caller's nor UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL
                                       (UCS_ERR_INVALID_PARAM), nor fields newer than UCX 1.13's
                                       memh (UCS_ERR_UNSUPPORTED). The callback is called always,
                                       also where UCP completes at once; request is UCP's or NULL,
                                       and not the callback's to free */
    uint64_t flags;                 /**< of #ugdr_op_flags */
    unsigned index;                 /**< which of a kernel's condition's triggers; 0 */
} ugdr_op_param_t;

/** Sends a message with a tag, as ucp_tag_send_nbx() does. */
ucs_status_t ugdr_tag_send(ugdr_context_h context, ucp_ep_h ep, const void* buffer, size_t count,
                           ucp_tag_t tag, const ugdr_op_param_t* param, ugdr_request_h* request_p);

/** Receives a message by its tag, as ucp_tag_recv_nbx() does.
 *
 * What was received: recv_info.tag_info of the UCP parameters, valid at completion. */
ucs_status_t ugdr_tag_recv(ugdr_context_h context, void* buffer, size_t count, ucp_tag_t tag,
                           ucp_tag_t tag_mask, const ugdr_op_param_t* param,
                           ugdr_request_h* request_p);

/** Sends an active message, as ucp_am_send_nbx() does. */
ucs_status_t ugdr_am_send(ugdr_context_h context, ucp_ep_h ep, unsigned id, const void* header,
                          size_t header_length, const void* buffer, size_t count,
                          const ugdr_op_param_t* param, ugdr_request_h* request_p);

/** Writes to a peer's memory, as ucp_put_nbx() does. */
ucs_status_t ugdr_put(ugdr_context_h context, ucp_ep_h ep, const void* buffer, size_t count,
                      uint64_t remote_addr, ucp_rkey_h rkey, const ugdr_op_param_t* param,
                      ugdr_request_h* request_p);

/** Reads a peer's memory, as ucp_get_nbx() does. */
ucs_status_t ugdr_get(ugdr_context_h context, ucp_ep_h ep, void* buffer, size_t count,
                      uint64_t remote_addr, ucp_rkey_h rkey, const ugdr_op_param_t* param,
                      ugdr_request_h* request_p);

/** Changes a peer's memory atomically, as ucp_atomic_op_nbx() does. */
ucs_status_t ugdr_atomic(ugdr_context_h context, ucp_ep_h ep, ucp_atomic_op_t opcode,
                         const void* buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                         const ugdr_op_param_t* param, ugdr_request_h* request_p);

/** Flushes an endpoint, as ucp_ep_flush_nbx() does. */
ucs_status_t ugdr_ep_flush(ugdr_context_h context, ucp_ep_h ep, const ugdr_op_param_t* param,
                           ugdr_request_h* request_p);

/** Flushes the worker, as ucp_worker_flush_nbx() does. */
ucs_status_t ugdr_worker_flush(ugdr_context_h context, const ugdr_op_param_t* param,
                               ugdr_request_h* request_p);

/** Begins an operation of the application's own, or tests it. May not wait for the GPU. */
typedef ucs_status_t (*ugdr_call_cb_t)(void* arg);

/** Calls functions of the application's own in the library's thread.
 *
 * The context needs no worker for that.
 *
 * @param start is called when the condition holds
 * @param test is called again and again while it or start answers UCS_INPROGRESS; may be NULL where
 *     start never does
 */
ucs_status_t ugdr_call(ugdr_context_h context, ugdr_call_cb_t start, ugdr_call_cb_t test, void* arg,
                       const ugdr_op_param_t* param, ugdr_request_h* request_p);

/** @} */

/** @defgroup ugdr_completion Completion
 * @{ */

/** Tells the status of an operation.
 *
 * @return UCS_INPROGRESS, or the status that it ended with. Of an operation that a graph or kernels
 *     trigger UCS_INPROGRESS before its first run, and while it runs, else the status of its last
 *     run; UCS_ERR_CANCELED if it never ran and its condition has ended
 */
ucs_status_t ugdr_request_test(ugdr_request_h request);

/** Waits in the calling thread while an operation is in progress.
 *
 * With #UGDR_PROGRESS_CALLER it makes progress.
 *
 * @return as ugdr_request_test()
 */
ucs_status_t ugdr_request_wait(ugdr_request_h request);

/** Cancels an operation.
 *
 * @retval UCS_OK an operation whose condition has not held ends with UCS_ERR_CANCELED, a receive
 *     under way is cancelled if that is still possible; one that is complete stays as it is. In a
 *     graph always: the operation takes part no more; a receive under way is cancelled, others end
 *     as they do
 * @retval UCS_ERR_BUSY another that is under way cannot be cancelled
 */
ucs_status_t ugdr_request_cancel(ugdr_request_h request);

/** Frees a request.
 *
 * It may be in progress: what it is needed for goes on. */
void ugdr_request_free(ugdr_request_h request);

/** Makes a stream wait until operations are complete, whatever their status.
 *
 * One call of CUDA for any number. The requests may be freed at once. A stream that is being
 * captured gets a node that waits at every launch, for operations of the same capture.
 *
 * As long as a stream waits it holds one of the GPU's hardware queues, of which there are
 * CUDA_DEVICE_MAX_CONNECTIONS (environment variable of CUDA; 8 by default, at most 32). One stream
 * more that waits gets stuck behind the first, and so does a program in which that one depends on
 * it. This is warned about, and counted (crowded_waits of ugdr_context_query()).
 *
 * @retval UCS_ERR_UNSUPPORTED there are no stream memory operations, or the GPU neither sees nor
 *     flushes what HCAs write
 * @retval UCS_ERR_INVALID_PARAM an operation is in a graph, and the stream is not of the same
 *     capture; or the stream is being captured, and an operation of none or of another is not
 *     complete
 */
ucs_status_t ugdr_stream_wait(ugdr_context_h context, ugdr_cu_stream_t stream,
                              const ugdr_request_h* requests, size_t count);

/** Makes a stream wait for all operations attached so far to conditions on it.
 *
 * As ugdr_stream_wait(); in a capture, for those captured with it. */
ucs_status_t ugdr_stream_wait_all(ugdr_context_h context, ugdr_cu_stream_t stream);

/** @} */

/** @defgroup ugdr_peers Peers and memories: for what kernels initiate, and prepared transfers
 *
 * A peer is a context of another process, or of this one, that kernels' operations and prepared
 * transfers go to. Both
 * sides create a peer, exchange what ugdr_peer_export() gives, by whatever means they have, and
 * connect. Memory that operations use is mapped by its owner; the other side imports what
 * ugdr_mem_export() gives. Kernels name memory by ids.
 *
 * The connections are queue pairs of the library's own, of the HCAs nearest to the GPU of the
 * current CUDA context. The HCAs are opened by the first of these calls, and memory is registered
 * with all of them; libibverbs has to be there. HCAs that do not take the memory of that GPU are
 * left out. Peers, memories and what was imported end with their context at the latest.
 *
 * Where a side has no HCA, or #UGDR_CONTEXT_FLAG_NO_DIRECT, UCP carries the operations, if both
 * sides have #UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT: slower, and a side that is a target has to
 * progress its worker. Then a thread that holds the context's lock may not call these functions.
 *
 * @{ */

/** Fields of #ugdr_peer_params_t that are set. */
enum ugdr_peer_params_field {
    UGDR_PEER_PARAM_FIELD_CHANNELS = UCS_BIT(0) /**< channels */
};

/** What a peer is. */
typedef struct ugdr_peer_params {
    uint64_t field_mask; /**< of #ugdr_peer_params_field */
    unsigned channels;   /**< separate connections, 1 to 64; 4. Operations of one channel are in
                            order. The same on both sides */
} ugdr_peer_params_t;

/** Makes the near end of connections to another context.
 *
 * @param params NULL: none is set
 */
ucs_status_t ugdr_peer_create(ugdr_context_h context, const ugdr_peer_params_t* params,
                              ugdr_peer_h* peer_p);

/** Gives what the other side needs for ugdr_peer_connect().
 *
 * @param blob_p bytes, which belong to the peer
 */
ucs_status_t ugdr_peer_export(ugdr_peer_h peer, const void** blob_p, size_t* length_p);

/** Connects to the other side, once.
 *
 * The other side has to connect, too, before anything is sent to it: let a message or a barrier say
 * so. What is sent earlier is late by a second, and fails after seven.
 *
 * @param blob of the other side's ugdr_peer_export()
 * @retval UCS_ERR_INVALID_PARAM the bytes are no such blob, or cut off; the other side has another
 *     number of channels; the peer is connected
 * @retval UCS_ERR_UNSUPPORTED the blob is of another version
 * @retval UCS_ERR_UNREACHABLE a side uses no HCA, or the HCAs speak different protocols, and a side
 *     has no UCP context
 */
ucs_status_t ugdr_peer_connect(ugdr_peer_h peer, const void* blob, size_t length);

/** Tells the state of a peer.
 *
 * @retval UCS_OK this side is connected
 * @retval UCS_ERR_NOT_CONNECTED ugdr_peer_connect() has not been called
 * @retval UCS_ERR_ENDPOINT_TIMEOUT the peer does not answer any more
 * @retval UCS_ERR_CONNECTION_RESET an operation was refused there, which ends its channel, or the
 *     peer has closed
 */
ucs_status_t ugdr_peer_test(ugdr_peer_h peer);

/** Ends the connections.
 *
 * @retval UCS_ERR_BUSY memories of the peer are imported, or prepared transfers go to it
 */
ucs_status_t ugdr_peer_destroy(ugdr_peer_h peer);

/** Makes memory of this process available to kernels' operations, of this side and of peers.
 *
 * Host memory, or GPU memory that is not managed. The pages around it are registered: who has the
 * blob may read and write them.
 *
 * @retval UCS_ERR_IO_ERROR an HCA does not take the memory; without an HCA, what UCP says
 */
ucs_status_t ugdr_mem_map(ugdr_context_h context, void* address, size_t length, ugdr_mem_h* mem_p);

/** Takes memory back, before it is freed.
 *
 * @retval UCS_ERR_BUSY operations of kernels use it
 */
ucs_status_t ugdr_mem_unmap(ugdr_mem_h mem);

/** Gives what peers need for ugdr_rmem_import().
 *
 * @param blob_p bytes, which belong to the memory
 */
ucs_status_t ugdr_mem_export(ugdr_mem_h mem, const void** blob_p, size_t* length_p);

/** Tells the number by which kernels name the memory.
 *
 * @return the id; 0: mem is NULL
 */
uint32_t ugdr_mem_id(ugdr_mem_h mem);

/** Makes memory of a connected peer available to kernels' operations.
 *
 * Memory of this process, and memory of another on this host that CUDA IPC opens (cudaMalloc,
 * cuMemAlloc) and that has atomic operations with the GPU of the current context (the same GPU or
 * NVLink), is mapped, unless UCX_GDR_IPC=n: kernels of that context then use it by their own loads
 * and stores. That waits for kernels of this process that run, so call it before kernels wait for
 * anything. Words of such memory are to be added to by this way alone: additions by an HCA are not
 * atomic towards those of GPUs.
 *
 * @param blob of the peer's ugdr_mem_export()
 * @retval UCS_ERR_INVALID_PARAM the bytes are no such blob, cut off, or of another context than the
 *     peer's
 * @retval UCS_ERR_NOT_CONNECTED the peer is not connected
 */
ucs_status_t ugdr_rmem_import(ugdr_peer_h peer, const void* blob, size_t length,
                              ugdr_rmem_h* rmem_p);

/** Forgets memory of a peer.
 *
 * Waits for kernels of this process that run, where the memory is mapped. No kernel uses it any
 * more.
 *
 * @retval UCS_ERR_BUSY operations of kernels use it
 */
ucs_status_t ugdr_rmem_release(ugdr_rmem_h rmem);

/** Tells the number by which kernels name the memory.
 *
 * @return the id; 0: rmem is NULL
 */
uint32_t ugdr_rmem_id(ugdr_rmem_h rmem);

/** @} */

/** @defgroup ugdr_devices Devices: kernels that initiate operations
 *
 * A GPU whose kernels put, get and signal by themselves, by the functions of ugdr_initiate.cuh, to
 * memory of peers.
 *
 * @{ */

/** Fields of #ugdr_device_params_t that are set. */
enum ugdr_device_params_field {
    UGDR_DEVICE_PARAM_FIELD_CHANNELS = UCS_BIT(0), /**< channels */
    UGDR_DEVICE_PARAM_FIELD_ENTRIES = UCS_BIT(1),  /**< entries */
    UGDR_DEVICE_PARAM_FIELD_THREADS = UCS_BIT(2)   /**< threads */
};

/** What a device has. */
typedef struct ugdr_device_params {
    uint64_t field_mask; /**< of #ugdr_device_params_field */
    unsigned channels;   /**< independent rings, a power of two up to 64; 4. A channel goes over the
                            peers' channels of the same number: they need as many */
    unsigned entries;    /**< of each ring, a power of two from 16 to 65536; 1024: operations under
                            way, before kernels that post have to wait */
    unsigned threads;    /**< of the library that serve the rings, up to the number of channels; 1:
                            that of the context alone, who calls ugdr_progress() with
                            #UGDR_PROGRESS_CALLER. The others are idle as that is */
} ugdr_device_params_t;

/** Lets kernels of the current CUDA context's GPU initiate operations.
 *
 * Takes memory of the host and of the GPU, so it is to be called before streams wait. Kernels
 * should be loaded by then (CUDA_MODULE_LOADING=EAGER): one that waits can keep others from it. As
 * long as a device is open the library's threads do not sleep for good: a GPU cannot wake them.
 *
 * @param params NULL: none is set
 * @retval UCS_ERR_BUSY the context has a device: one at a time
 * @retval UCS_ERR_UNSUPPORTED there is no CUDA, or kernels of the GPU do not see what HCAs write
 *     while they run, and it has no flush
 */
ucs_status_t ugdr_device_open(ugdr_context_h context, const ugdr_device_params_t* params,
                              ugdr_device_h* device_p);

/** Closes a device, after the last kernel that uses it.
 *
 * #UGDR_DESTROY_FORCE closes the context's: kernels that wait go on, with UCS_ERR_CANCELED.
 *
 * @retval UCS_ERR_BUSY operations are not complete
 */
ucs_status_t ugdr_device_close(ugdr_device_h device);

/** Gives what kernels need for the functions of ugdr_initiate.cuh, by value. */
ucs_status_t ugdr_device_handle(ugdr_device_h device, ugdr_dev_t* handle_p);

/** Makes a team, whose members' kernels meet by ugdr_dev_barrier().
 *
 * Each member calls it with a memory of its own, of #UGDR_TEAM_WORDS words that are 0, on its GPU,
 * and with those of the others, imported. The memories stay with their caller.
 *
 * @param rank of this member, from 0 to size - 1
 * @param signals this member's memory
 * @param remote_signals size entries: the others' memories. Those of the ranks 1, 2, 4, ... behind
 *     this one, modulo size, are used, the others may be NULL
 * @retval UCS_ERR_INVALID_PARAM the memory is too short, or one that is used is NULL
 */
ucs_status_t ugdr_team_handle(ugdr_mem_h signals, const ugdr_rmem_h* remote_signals, unsigned rank,
                              unsigned size, ugdr_dev_team_t* handle_p);

/** @} */

/** @defgroup ugdr_transfers Prepared transfers: what is the same in each iteration
 *
 * A buffer of one side goes to a buffer of the other, again and again. Memory, keys and the
 * counterpart are settled once. In an iteration the receiver says that its buffer may be written,
 * which is one word, and the sender says which of its partitions are ready: each is written as soon
 * as both have. Behind the data comes a word, by which the receiver's CPU, streams and kernels see
 * what has arrived; no thread of the receiver takes part.
 *
 * A buffer is cut into equal partitions, on both sides alike or not. Iterations follow each other:
 * one can be started when the one before is complete on this side. The functions that take a
 * condition do the same where that holds, in the library's thread: once for a point of a stream,
 * each time for a graph, a capture or a kernel. Those functions are to be called in the order in
 * which the conditions hold.
 *
 * A failure, as of a peer that dies, ends the transfer: what waits for it goes on, and all its
 * functions tell the status. A side that waits notices a dead peer within ten seconds.
 *
 * A thread that holds the context's lock may not create, match or destroy transfers.
 *
 * @{ */

/** Fields of #ugdr_transfer_params_t that are set. */
enum ugdr_transfer_params_field {
    UGDR_TRANSFER_PARAM_FIELD_PEER = UCS_BIT(0),       /**< peer; is needed */
    UGDR_TRANSFER_PARAM_FIELD_BUFFER = UCS_BIT(1),     /**< buffer and length; are needed */
    UGDR_TRANSFER_PARAM_FIELD_PARTITIONS = UCS_BIT(2), /**< partitions */
    UGDR_TRANSFER_PARAM_FIELD_TAG = UCS_BIT(3),        /**< tag */
    UGDR_TRANSFER_PARAM_FIELD_ARRIVALS = UCS_BIT(4)    /**< arrivals */
};

/** A side of a transfer. */
typedef enum {
    UGDR_TRANSFER_SEND, /**< its buffer is read */
    UGDR_TRANSFER_RECV  /**< its buffer is written */
} ugdr_transfer_side_t;

/** What carries a transfer. */
typedef enum {
    UGDR_ENGINE_DIRECT, /**< a queue pair of the library's own */
    UGDR_ENGINE_UCP     /**< UCP: a side has no HCA (@ref ugdr_peers) */
} ugdr_engine_t;

/** What a transfer is. */
typedef struct ugdr_transfer_params {
    uint64_t field_mask; /**< of #ugdr_transfer_params_field */
    ugdr_peer_h peer;    /**< the other side; connected */
    void* buffer;        /**< of the host, or of the GPU of the current CUDA context; not managed */
    size_t length;       /**< in bytes, the same on both sides; a multiple of partitions */
    unsigned partitions; /**< equal parts, up to 65536; 1 */
    uint64_t tag;        /**< of both sides; 0 */
    unsigned arrivals;   /**< calls of ugdr_dev_ready() that make one partition ready; 1 */
} ugdr_transfer_params_t;

/** Creates one side of a transfer.
 *
 * It has to be matched before it can be started. The two sides find each other by the tag: of
 * several with the same tag the first of one side and the first of the other, and so on. Streams
 * and kernels can look at a host buffer's arrivals if a CUDA context is current here. To be called
 * before streams wait.
 *
 * @retval UCS_ERR_NOT_CONNECTED the peer is not connected
 * @retval UCS_ERR_NO_RESOURCE there are 1,024 transfers that send to the peer
 * @retval UCS_ERR_IO_ERROR an HCA does not take the memory
 */
ucs_status_t ugdr_transfer_create(ugdr_context_h context, ugdr_transfer_side_t side,
                                  const ugdr_transfer_params_t* params,
                                  ugdr_transfer_h* transfer_p);

/** Tells whether the other side has been found. To be called until it has.
 *
 * @retval UCS_OK it has
 * @retval UCS_INPROGRESS not yet
 * @retval UCS_ERR_INVALID_PARAM the two sides have different lengths
 */
ucs_status_t ugdr_transfer_test_match(ugdr_transfer_h transfer);

/** Destroys one side of a transfer.
 *
 * The other side may not start it any more. One that was not matched may be destroyed, too; then
 * its tag must not be used again with the peer.
 *
 * @retval UCS_ERR_BUSY an iteration is not complete, or has been started on a condition that has
 *     not held
 */
ucs_status_t ugdr_transfer_destroy(ugdr_transfer_h transfer);

/** Tells what carries a transfer. */
ucs_status_t ugdr_transfer_engine(ugdr_transfer_h transfer, ugdr_engine_t* engine_p);

/** Starts an iteration.
 *
 * Receiver: the buffer may be written from now on. Sender: partitions may be made ready.
 *
 * @retval UCS_ERR_BUSY the last iteration is not complete
 * @retval UCS_ERR_NOT_CONNECTED the transfer is not matched
 */
ucs_status_t ugdr_transfer_start(ugdr_transfer_h transfer);

/** Starts an iteration where a condition holds, and the last one is complete.
 *
 * In a graph or for a kernel at each time. Where kernels look at arrivals behind it the condition
 * has to be one that waits.
 */
ucs_status_t ugdr_transfer_start_on(ugdr_transfer_h transfer, ugdr_condition_h condition);

/** Waits until the receiver has started the sender's iteration. Partitions that become ready from
 * then on are written at once. */
ucs_status_t ugdr_transfer_prepare(ugdr_transfer_h transfer);

/** Makes a partition ready, once in each iteration: it will be written.
 *
 * @retval UCS_ERR_INVALID_PARAM no iteration has begun, the partition has been made ready, or there
 *     is no such
 */
ucs_status_t ugdr_transfer_ready(ugdr_transfer_h transfer, unsigned partition);

/** Makes partitions ready where a condition holds.
 *
 * A condition that waits waits until they may be written to again.
 *
 * @retval UCS_ERR_INVALID_PARAM as ugdr_transfer_ready(); in a graph or for a kernel that is the
 *     status of the operation
 */
ucs_status_t ugdr_transfer_ready_on(ugdr_transfer_h transfer, unsigned first, unsigned count,
                                    ugdr_condition_h condition);

/** Tells the receiver whether one of its partitions has arrived.
 *
 * @param arrived_p 1 or 0
 */
ucs_status_t ugdr_transfer_arrived(ugdr_transfer_h transfer, unsigned partition, int* arrived_p);

/** Tells whether the last iteration is complete: all has arrived, or may be written to again.
 *
 * @retval UCS_OK it is, or none was started
 * @retval UCS_INPROGRESS it is not
 */
ucs_status_t ugdr_transfer_test(ugdr_transfer_h transfer);

/** Waits in the calling thread until the last iteration is complete.
 *
 * With #UGDR_PROGRESS_CALLER it makes progress. */
ucs_status_t ugdr_transfer_wait(ugdr_transfer_h transfer);

/** Makes a stream wait until the last iteration is complete, or has failed.
 *
 * The receiver's stream looks at the word that the sender writes: one call of CUDA, and no thread
 * takes part. The library's thread ends the wait where the stream is being captured, for the
 * sender, after ugdr_transfer_start_on() a condition that holds more than once, and for GPUs that
 * do not see what HCAs write. Such waits hold hardware queues (ugdr_stream_wait()).
 *
 * @retval UCS_ERR_UNSUPPORTED streams of the GPU cannot wait
 */
ucs_status_t ugdr_transfer_wait_on(ugdr_transfer_h transfer, ugdr_cu_stream_t stream);

/** Gives what kernels need for the functions of ugdr_transfer.cuh, by value.
 *
 * For the current CUDA context's GPU. To be called before streams wait.
 *
 * @retval UCS_ERR_UNSUPPORTED no CUDA context was current when a receiver was created, or kernels
 *     do not see what an HCA writes while they run
 */
ucs_status_t ugdr_transfer_device(ugdr_transfer_h transfer, ugdr_dev_transfer_t* device_p);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
