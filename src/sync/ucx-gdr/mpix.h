/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/** @file
 * MPI in the order of CUDA streams, with any MPI.
 *
 * MPICH's names and signatures: a communicator gets a CUDA stream, and what is enqueued on it
 * begins when the stream gets there; the stream goes on when it is complete. The CPU does something
 * else meanwhile. And messages in partitions, which kernels send and see arrive.
 *
 * Open MPI has nothing of this, and stock MPICH dies of a CUDA stream. So these are functions of
 * this header, compiled with the program and its mpi.h, on libucx-gdr's thread (ugdr_call()), which
 * calls MPI. Where mpi.h declares the same names, macros put these in their place: include this
 * header after mpi.h. To be compiled with `mpicc $(pkg-config --cflags --libs libucx-gdr)`. Buffers
 * may be what MPI takes: with ucx-gdr also GPU memory.
 *
 * @par Threads
 * MPI has to be initialised with MPI_THREAD_MULTIPLE: the library's thread, one in each process,
 * calls it, too. A thread that waits in MPI (MPI_Recv()) keeps it from that: Open MPI lets go of
 * its lock for moments alone. Have streams wait, or call MPI_Test() and yield.
 *
 * @par Errors
 * A function that refuses says why in one line on stderr, calls the error handler of its
 * communicator (MPI_COMM_WORLD where there is none), and returns MPI_ERR_OTHER. An operation that
 * fails later calls the error handler that MPI chooses, in the library's thread: the default one
 * ends the job. With MPI_ERRORS_RETURN, for MPICH also on MPI_COMM_WORLD and MPI_COMM_SELF, the
 * stream goes on, the status has the error in MPI_ERROR, and MPIX_Stream_free() returns the first
 * one. Arguments are looked at when the stream gets there.
 *
 * @par Captured streams
 * In a stream that is being captured every function enqueues to the graph, and its message is sent,
 * or received, at each launch. Requests have to be waited for in the same capture. Graphs are
 * launched for the last time before MPIX_Stream_free().
 */
#ifndef UGDR_MPIX_H
#define UGDR_MPIX_H

#include <mpi.h>

#include "ugdr.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MPICH 4.1 and later declare these. */
#undef MPIX_STREAM_NULL
#define MPIX_STREAM_NULL ((MPIX_Stream)0)
#define MPIX_Stream gdr_MPIX_Stream
#define MPIX_Info_set_hex gdr_MPIX_Info_set_hex
#define MPIX_Stream_create gdr_MPIX_Stream_create
#define MPIX_Stream_free gdr_MPIX_Stream_free
#define MPIX_Stream_comm_create gdr_MPIX_Stream_comm_create
#define MPIX_Comm_get_stream gdr_MPIX_Comm_get_stream
#define MPIX_Send_enqueue gdr_MPIX_Send_enqueue
#define MPIX_Recv_enqueue gdr_MPIX_Recv_enqueue
#define MPIX_Isend_enqueue gdr_MPIX_Isend_enqueue
#define MPIX_Irecv_enqueue gdr_MPIX_Irecv_enqueue
#define MPIX_Wait_enqueue gdr_MPIX_Wait_enqueue
#define MPIX_Waitall_enqueue gdr_MPIX_Waitall_enqueue
#define MPIX_Allreduce_enqueue gdr_MPIX_Allreduce_enqueue

#define MPIX_REQUEST_NULL ((MPIX_Request)0)

#ifdef __cplusplus
extern "C" {
#endif

/* A CUDA stream. */
typedef struct gdr_mpix_stream* MPIX_Stream;
/* A transfer in partitions. */
typedef struct gdr_mpix_transfer* MPIX_Request;
/* The same as kernels have it, passed to them by value. */
typedef ugdr_dev_condition_t MPIX_Prequest;

/* ---- inside: what a process has ---------------------------------------------------------------
 */

typedef enum { GDR_MPIX_SEND, GDR_MPIX_RECV, GDR_MPIX_ALLREDUCE } gdr_mpix_kind_t;

typedef struct gdr_mpix_op {
    struct gdr_mpix_op* next; /* of those whose handle the program has, or of a stream's captured */
    struct gdr_mpix_op* next_captured;
    gdr_mpix_kind_t kind;
    const void* from;
    void* to;
    int count;
    MPI_Datatype type;
    int type_held;
    int peer;
    int tag;
    MPI_Op op;
    MPI_Comm comm;

    MPIX_Stream stream;
    int captured;           /* begins at every launch */
    MPI_Request under_way;  /* in the library's thread */
    ugdr_request_h request; /* for streams to wait for */
    int has_handle;
    MPI_Request handle; /* a generalized request, the program's */
    int complete;
    int waited; /* by the stream: nobody else completes the handle */
    int error;
    MPI_Status result;
    MPI_Status* status; /* the program's, or NULL */
} gdr_mpix_op_t;

struct gdr_mpix_stream {
    ugdr_cu_stream_t handle;
    int references; /* the program's, and one of each communicator */
    long pending;   /* operations under way, but for captured ones */
    int error;      /* the first */
    gdr_mpix_op_t* captured;
};

/* The attribute of a communicator. */
typedef struct gdr_mpix_comm {
    MPIX_Stream stream;
    MPI_Comm setups;     /* a message with the sender's tag for each transfer in partitions */
    MPI_Comm partitions; /* their messages */
    long long next_number;
} gdr_mpix_comm_t;

typedef struct gdr_mpix_process {
    pthread_mutex_t lock; /* MPI may hold its own around it */
    pthread_cond_t idle;  /* a stream has no operation under way */
    pthread_mutex_t beginning;
    ugdr_context_h context;
    int has_keyvals;
    int comm_keyval;
    int end_keyval;
    gdr_mpix_op_t* requests;
} gdr_mpix_process_t;

/* One for all that is compiled with this header. */
extern gdr_mpix_process_t gdr_mpix_process;
__attribute__((weak)) gdr_mpix_process_t gdr_mpix_process = {PTHREAD_MUTEX_INITIALIZER,
                                                             PTHREAD_COND_INITIALIZER,
                                                             PTHREAD_MUTEX_INITIALIZER,
                                                             NULL,
                                                             0,
                                                             0,
                                                             0,
                                                             NULL};

static inline void gdr_mpix_lock(void)
{
    pthread_mutex_lock(&gdr_mpix_process.lock);
}

static inline void gdr_mpix_unlock(void)
{
    pthread_mutex_unlock(&gdr_mpix_process.lock);
}

static inline int gdr_mpix_refuse(MPI_Comm comm, const char* function, const char* why)
{
    fprintf(stderr, "ucx-gdr: %s: %s\n", function, why);
    MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

#define GDR_MPIX_NO_MEMORY "there is no memory"

/* MPI_Finalize() is about to begin. */
static inline int gdr_mpix_end(MPI_Comm comm, int keyval, void* value, void* state)
{
    (void)comm, (void)keyval, (void)value, (void)state;
    ugdr_context_destroy(gdr_mpix_process.context, UGDR_DESTROY_FORCE);
    gdr_mpix_process.context = NULL;
    return MPI_SUCCESS;
}

static inline void gdr_mpix_drop(MPIX_Stream stream)
{
    int last;

    gdr_mpix_lock();
    last = --stream->references == 0;
    gdr_mpix_unlock();
    if (last) {
        free(stream);
    }
}

static inline void gdr_mpix_wait_idle(MPIX_Stream stream)
{
    gdr_mpix_lock();
    while (stream->pending != 0) {
        pthread_cond_wait(&gdr_mpix_process.idle, &gdr_mpix_process.lock);
    }
    gdr_mpix_unlock();
}

/* A communicator is freed. */
static inline int gdr_mpix_end_comm(MPI_Comm comm, int keyval, void* value, void* state)
{
    gdr_mpix_comm_t* own = (gdr_mpix_comm_t*)value;

    (void)comm, (void)keyval, (void)state;
    if (own->stream != NULL) {
        gdr_mpix_wait_idle(own->stream);
        gdr_mpix_drop(own->stream);
    }
    MPI_Comm_free(&own->setups);
    MPI_Comm_free(&own->partitions);
    free(own);
    return MPI_SUCCESS;
}

static inline void gdr_mpix_make_keyvals(void)
{
    pthread_mutex_lock(&gdr_mpix_process.beginning);
    if (!gdr_mpix_process.has_keyvals) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, gdr_mpix_end_comm,
                               &gdr_mpix_process.comm_keyval, NULL);
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, gdr_mpix_end, &gdr_mpix_process.end_keyval,
                               NULL);
        gdr_mpix_process.has_keyvals = 1;
    }
    pthread_mutex_unlock(&gdr_mpix_process.beginning);
}

static inline gdr_mpix_comm_t* gdr_mpix_comm_of(MPI_Comm comm)
{
    void* value = NULL;
    int found = 0;

    gdr_mpix_make_keyvals();
    MPI_Comm_get_attr(comm, gdr_mpix_process.comm_keyval, &value, &found);
    return found ? (gdr_mpix_comm_t*)value : NULL;
}

/* Why there is no context, or NULL. */
static inline const char* gdr_mpix_need_context(void)
{
    ugdr_context_params_t params;
    ucs_status_t status = UCS_OK;
    int level;

    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) {
        return "MPI was initialised without MPI_THREAD_MULTIPLE, and libucx-gdr's thread calls it, "
               "too: begin the program with MPI_Init_thread()";
    }
    gdr_mpix_make_keyvals();
    pthread_mutex_lock(&gdr_mpix_process.beginning);
    if (gdr_mpix_process.context == NULL) {
        memset(&params, 0, sizeof(params));
        status = ugdr_context_create_version(UGDR_API_MAJOR, UGDR_API_MINOR, NULL, &params,
                                             &gdr_mpix_process.context);
        if (status == UCS_OK) {
            MPI_Comm_set_attr(MPI_COMM_SELF, gdr_mpix_process.end_keyval, NULL);
        }
    }
    pthread_mutex_unlock(&gdr_mpix_process.beginning);
    return status == UCS_OK ? NULL
                            : "libucx-gdr makes no context, and its own line says why; where there "
                              "is none, no UCX is loaded: link the program with -lucp";
}

/* ---- inside: an operation ---------------------------------------------------------------------
 */

static inline void gdr_mpix_release_type(gdr_mpix_op_t* op)
{
    if (op->type_held) {
        MPI_Type_free(&op->type);
    }
}

static inline void gdr_mpix_free_op(gdr_mpix_op_t* op)
{
    gdr_mpix_release_type(op);
    free(op);
}

static inline void gdr_mpix_tell_status(const gdr_mpix_op_t* op, MPI_Status* status)
{
    *status = op->result;
    status->MPI_ERROR = op->error;
}

/* In the library's thread, as all up to gdr_mpix_begin(). */
static inline ucs_status_t gdr_mpix_finish(gdr_mpix_op_t* op, int error)
{
    const MPIX_Stream stream = op->stream;
    MPI_Request handle = op->handle;
    int waited;

    gdr_mpix_lock();
    op->error = error;
    op->complete = 1;
    waited = op->waited;
    if (stream->error == MPI_SUCCESS) {
        stream->error = error;
    }
    if (op->status != NULL) {
        gdr_mpix_tell_status(op, op->status);
    }
    gdr_mpix_unlock();
    if (!op->captured) {
        if (!op->has_handle) {
            gdr_mpix_free_op(op);
        } else {
            gdr_mpix_release_type(op);
            MPI_Grequest_complete(handle);
            if (waited) {
                MPI_Wait(&handle, MPI_STATUS_IGNORE);
            }
        }
        gdr_mpix_lock(); /* whoever waits for this may end MPI */
        if (--stream->pending == 0) {
            pthread_cond_broadcast(&gdr_mpix_process.idle);
        }
        gdr_mpix_unlock();
    }
    return error == MPI_SUCCESS ? UCS_OK : UCS_ERR_IO_ERROR;
}

static inline ucs_status_t gdr_mpix_test(void* argument)
{
    gdr_mpix_op_t* op = (gdr_mpix_op_t*)argument;
    int done = 0;
    const int error = MPI_Test(&op->under_way, &done, &op->result);

    return error == MPI_SUCCESS && !done ? UCS_INPROGRESS : gdr_mpix_finish(op, error);
}

static inline ucs_status_t gdr_mpix_begin(void* argument)
{
    gdr_mpix_op_t* op = (gdr_mpix_op_t*)argument;
    int error = MPI_SUCCESS;

    switch (op->kind) {
    case GDR_MPIX_SEND:
        error =
            MPI_Isend(op->from, op->count, op->type, op->peer, op->tag, op->comm, &op->under_way);
        break;
    case GDR_MPIX_RECV:
        error = MPI_Irecv(op->to, op->count, op->type, op->peer, op->tag, op->comm, &op->under_way);
        break;
    case GDR_MPIX_ALLREDUCE:
        error =
            MPI_Iallreduce(op->from, op->to, op->count, op->type, op->op, op->comm, &op->under_way);
        break;
    }
    return error == MPI_SUCCESS ? gdr_mpix_test(op) : gdr_mpix_finish(op, error);
}

/* Of the generalized request, whose error nobody is told twice. */
static inline int gdr_mpix_query_handle(void* argument, MPI_Status* status)
{
    const gdr_mpix_op_t* op = (const gdr_mpix_op_t*)argument;

    *status = op->result;
    return op->waited ? MPI_SUCCESS : op->error;
}

static inline int gdr_mpix_cancel_handle(void* argument, int complete)
{
    (void)argument, (void)complete;
    return MPI_SUCCESS;
}

/* May not call MPI. */
static inline int gdr_mpix_free_handle(void* argument)
{
    gdr_mpix_op_t* op = (gdr_mpix_op_t*)argument;
    gdr_mpix_op_t** at;

    gdr_mpix_lock();
    for (at = &gdr_mpix_process.requests; *at != NULL; at = &(*at)->next) {
        if (*at == op) {
            *at = op->next;
            break;
        }
    }
    gdr_mpix_unlock();
    if (!op->captured) {
        ugdr_request_free(op->request);
        free(op);
    }
    return MPI_SUCCESS;
}

static inline gdr_mpix_op_t gdr_mpix_wanted(gdr_mpix_kind_t kind, int count, MPI_Datatype type,
                                            int peer, int tag, MPI_Comm comm)
{
    gdr_mpix_op_t op;

    memset(&op, 0, sizeof(op));
    op.kind = kind;
    op.count = count;
    op.type = type;
    op.peer = peer;
    op.tag = tag;
    op.comm = comm;
    return op;
}

/* The program may free its type meanwhile. */
static inline int gdr_mpix_hold_type(gdr_mpix_op_t* op)
{
    const MPI_Datatype type = op->type;
    int integers, addresses, types, combiner;
    int error = MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);

    if (error == MPI_SUCCESS && combiner != MPI_COMBINER_NAMED) {
        error = MPI_Type_dup(type, &op->type);
        op->type_held = error == MPI_SUCCESS;
    }
    return error;
}

/* The place where the stream is. */
static inline ucs_status_t gdr_mpix_point(ugdr_cu_stream_t stream, int waits,
                                          ugdr_condition_h* condition_p)
{
    ugdr_condition_params_t params;

    memset(&params, 0, sizeof(params));
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM |
                        UGDR_CONDITION_PARAM_FIELD_FLAGS;
    params.category = UGDR_CONDITION_STREAM;
    params.stream = stream;
    params.flags = waits ? UGDR_CONDITION_FLAG_WAIT : 0;
    return ugdr_condition_create(gdr_mpix_process.context, &params, condition_p);
}

static inline int gdr_mpix_is_captured(ugdr_condition_h condition)
{
    ugdr_condition_attr_t attr;

    attr.field_mask = UGDR_CONDITION_ATTR_FIELD_NODES;
    ugdr_condition_query(condition, &attr);
    return attr.trigger_node != NULL;
}

/* request: NULL: the stream waits. */
static inline int gdr_mpix_enqueue(const char* function, const gdr_mpix_op_t* wanted,
                                   MPI_Request* request)
{
    const char* const refused = "libucx-gdr refused it, and its own line says why";
    const MPI_Comm comm = wanted->comm;
    const gdr_mpix_comm_t* const own = gdr_mpix_comm_of(comm);
    const MPIX_Stream stream = own != NULL ? own->stream : NULL;
    ugdr_condition_h condition;
    ugdr_op_param_t param;
    gdr_mpix_op_t* op;
    ucs_status_t status;
    int error;

    if (stream == NULL) {
        return gdr_mpix_refuse(comm, function,
                               "the communicator has no stream: make one by "
                               "MPIX_Stream_comm_create()");
    }
    op = (gdr_mpix_op_t*)malloc(sizeof(*op));
    if (op == NULL) {
        return gdr_mpix_refuse(comm, function, GDR_MPIX_NO_MEMORY);
    }
    *op = *wanted;
    op->stream = stream;
    error = gdr_mpix_hold_type(op);
    if (error != MPI_SUCCESS) {
        free(op);
        MPI_Comm_call_errhandler(comm, error);
        return error;
    }
    if (gdr_mpix_point(stream->handle, request == NULL, &condition) != UCS_OK) {
        gdr_mpix_free_op(op);
        return gdr_mpix_refuse(comm, function, refused);
    }
    op->captured = gdr_mpix_is_captured(condition);
    if (request != NULL) {
        MPI_Grequest_start(gdr_mpix_query_handle, gdr_mpix_free_handle, gdr_mpix_cancel_handle, op,
                           &op->handle);
        op->has_handle = 1;
        *request = op->handle;
    }
    gdr_mpix_lock();
    if (request != NULL) {
        op->next = gdr_mpix_process.requests;
        gdr_mpix_process.requests = op;
    }
    if (op->captured) {
        op->next_captured = stream->captured;
        stream->captured = op;
    } else {
        ++stream->pending;
    }
    gdr_mpix_unlock();
    memset(&param, 0, sizeof(param));
    param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION;
    param.condition = condition;
    /* An operation without either may be gone when this returns. */
    status = ugdr_call(gdr_mpix_process.context, gdr_mpix_begin, gdr_mpix_test, op, &param,
                       request != NULL || op->captured ? &op->request : NULL);
    ugdr_condition_destroy(condition);
    if (status != UCS_OK && !op->captured) {
        op->waited = 1;
        gdr_mpix_finish(op, MPI_ERR_OTHER);
    }
    if (status != UCS_OK && request != NULL) {
        *request = MPI_REQUEST_NULL;
    }
    return status == UCS_OK ? MPI_SUCCESS : gdr_mpix_refuse(comm, function, refused);
}

/* statuses: NULL where nobody asks. */
static inline int gdr_mpix_wait(const char* function, int count, MPI_Request* requests,
                                MPI_Status* statuses)
{
    const size_t room = count > 0 ? (size_t)count : 1;
    gdr_mpix_op_t** ops = (gdr_mpix_op_t**)calloc(room, sizeof(*ops));
    ugdr_request_h* waits = (ugdr_request_h*)calloc(room, sizeof(*waits));
    const char* why = ops == NULL || waits == NULL ? GDR_MPIX_NO_MEMORY : NULL;
    MPIX_Stream stream = NULL;
    MPI_Comm comm = MPI_COMM_WORLD;
    size_t known = 0;
    int i;

    gdr_mpix_lock();
    for (i = 0; i < count && why == NULL; ++i) {
        gdr_mpix_op_t* op = gdr_mpix_process.requests;
        if (requests[i] == MPI_REQUEST_NULL) {
            continue;
        }
        while (op != NULL && op->handle != requests[i]) {
            op = op->next;
        }
        if (op == NULL) {
            why = "a request that is none of MPIX_Isend_enqueue() or MPIX_Irecv_enqueue(): use "
                  "MPI_Wait() for others";
        } else if (stream != NULL && op->stream != stream) {
            why = "requests of several streams: wait for those of each by a call of its own";
        } else {
            ops[i] = op;
            waits[known++] = op->request;
            stream = op->stream;
            comm = op->comm;
        }
    }
    gdr_mpix_unlock();
    if (why == NULL && known != 0 &&
        ugdr_stream_wait(gdr_mpix_process.context, stream->handle, waits, known) != UCS_OK) {
        why = "libucx-gdr refused it, and its own line says why: a request of a capture is to be "
              "waited for in the same capture";
    }
    for (i = 0; i < count && why == NULL; ++i) {
        gdr_mpix_op_t* const op = ops[i];
        MPI_Status* const status = statuses != NULL ? statuses + i : NULL;
        int by_us;
        if (op == NULL) {
            continue;
        }
        gdr_mpix_lock();
        by_us = op->complete || op->captured;
        op->waited = 1;
        op->status = status;
        if (op->complete && status != NULL) {
            gdr_mpix_tell_status(op, status);
        }
        if (op->captured) {
            op->has_handle = 0;
        }
        gdr_mpix_unlock();
        if (!by_us) { /* the library's thread completes and frees it */
            requests[i] = MPI_REQUEST_NULL;
            continue;
        }
        if (op->captured) {
            MPI_Grequest_complete(requests[i]);
        }
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    free(ops);
    free(waits);
    return why == NULL ? MPI_SUCCESS : gdr_mpix_refuse(comm, function, why);
}

/** @defgroup mpix_streams MPI on streams
 * @{ */

/** Sets an info key to bytes, as hexadecimal digits.
 *
 * @return MPI_SUCCESS, or an error of MPI */
static inline int MPIX_Info_set_hex(MPI_Info info, const char* key, const void* value,
                                    int value_size)
{
    char text[MPI_MAX_INFO_VAL];
    int i;

    if (value_size < 0 || 2 * value_size + 1 > (int)sizeof(text)) {
        return gdr_mpix_refuse(MPI_COMM_WORLD, "MPIX_Info_set_hex",
                               "the value is longer than info values are");
    }
    text[0] = 0;
    for (i = 0; i < value_size; ++i) {
        snprintf(text + 2 * i, 3, "%02x", ((const unsigned char*)value)[i]);
    }
    return MPI_Info_set(info, key, text);
}

/* text stays as it is where the info has no such key. MPI 4 deprecates MPI_Info_get(). */
static inline void gdr_mpix_read_info(MPI_Info info, const char* key, char* text, int size)
{
    int has;
#if MPI_VERSION >= 4
    MPI_Info_get_string(info, key, &size, text, &has);
#else
    MPI_Info_get(info, key, size - 1, text, &has);
#endif
}

/** Makes a stream of MPI of a stream of CUDA.
 *
 * The CUDA context of the stream has to be current. Fails where CUDA is not there, or its streams
 * cannot wait.
 *
 * @param info "type": "cudaStream_t", and "value": the cudaStream_t or CUstream, by
 *     MPIX_Info_set_hex()
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Stream_create(MPI_Info info, MPIX_Stream* stream)
{
    static const char function[] = "MPIX_Stream_create";
    char type[32] = "", digits[64] = "";
    unsigned char value[sizeof(ugdr_cu_stream_t)];
    ugdr_condition_h condition;
    ugdr_cu_stream_t handle;
    const char* why;
    size_t i;

    *stream = MPIX_STREAM_NULL;
    if (info != MPI_INFO_NULL) {
        gdr_mpix_read_info(info, "type", type, (int)sizeof(type));
        gdr_mpix_read_info(info, "value", digits, (int)sizeof(digits));
    }
    for (i = 0; i < sizeof(value) && strlen(digits) == 2 * sizeof(value); ++i) {
        unsigned byte;
        if (sscanf(digits + 2 * i, "%2x", &byte) != 1) {
            break;
        }
        value[i] = (unsigned char)byte;
    }
    if (strcmp(type, "cudaStream_t") != 0 || i != sizeof(value)) {
        return gdr_mpix_refuse(MPI_COMM_WORLD, function,
                               "the info needs \"type\" with \"cudaStream_t\", and \"value\" with "
                               "the stream: set that by MPIX_Info_set_hex()");
    }
    memcpy(&handle, value, sizeof(handle));
    why = gdr_mpix_need_context();
    if (why != NULL) {
        return gdr_mpix_refuse(MPI_COMM_WORLD, function, why);
    }
    if (gdr_mpix_point(handle, 1, &condition) != UCS_OK) {
        return gdr_mpix_refuse(MPI_COMM_WORLD, function,
                               "libucx-gdr cannot have the stream wait, and its own line says why: "
                               "a CUDA context with stream memory operations has to be current");
    }
    ugdr_condition_destroy(condition);
    *stream = (MPIX_Stream)calloc(1, sizeof(**stream));
    if (*stream == NULL) {
        return gdr_mpix_refuse(MPI_COMM_WORLD, function, GDR_MPIX_NO_MEMORY);
    }
    (*stream)->handle = handle;
    (*stream)->references = 1;
    return MPI_SUCCESS;
}

/** Frees a stream of MPI, and not that of CUDA.
 *
 * Waits until what was enqueued is complete. What was captured with it begins no more. Its
 * communicators can still be used, until they are freed.
 *
 * @return MPI_SUCCESS, or the error of the first operation that failed */
static inline int MPIX_Stream_free(MPIX_Stream* stream)
{
    gdr_mpix_op_t* captured;
    int error;

    if (*stream == MPIX_STREAM_NULL) {
        return gdr_mpix_refuse(MPI_COMM_WORLD, "MPIX_Stream_free", "there is no stream");
    }
    gdr_mpix_wait_idle(*stream);
    gdr_mpix_lock();
    captured = (*stream)->captured;
    (*stream)->captured = NULL;
    error = (*stream)->error;
    (*stream)->error = MPI_SUCCESS;
    gdr_mpix_unlock();
    while (captured != NULL) {
        gdr_mpix_op_t* const op = captured;
        captured = op->next_captured;
        ugdr_request_cancel(op->request);
        ugdr_request_wait(op->request);
        ugdr_request_free(op->request);
        gdr_mpix_free_op(op);
    }
    gdr_mpix_drop(*stream);
    *stream = MPIX_STREAM_NULL;
    return error;
}

/** Makes a communicator whose operations a stream begins.
 *
 * A duplicate of comm, as by MPI_Comm_dup(), collectively. It may be used for everything; its own
 * duplicates have no stream. MPI_Comm_free() waits until what was enqueued is complete.
 *
 * @param stream MPIX_STREAM_NULL: none, for messages in partitions alone
 * @return MPI_SUCCESS, or an error of MPI */
static inline int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm)
{
    gdr_mpix_comm_t* own = (gdr_mpix_comm_t*)calloc(1, sizeof(*own));
    int error;

    if (own == NULL) {
        return gdr_mpix_refuse(comm, "MPIX_Stream_comm_create", GDR_MPIX_NO_MEMORY);
    }
    gdr_mpix_make_keyvals();
    error = MPI_Comm_dup(comm, newcomm);
    if (error == MPI_SUCCESS) {
        error = MPI_Comm_dup(comm, &own->setups);
    }
    if (error == MPI_SUCCESS) {
        error = MPI_Comm_dup(comm, &own->partitions);
    }
    if (error != MPI_SUCCESS) {
        free(own);
        return error;
    }
    MPI_Comm_set_errhandler(own->setups, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(own->partitions, MPI_ERRORS_RETURN);
    own->stream = stream;
    if (stream != MPIX_STREAM_NULL) {
        gdr_mpix_lock();
        ++stream->references;
        gdr_mpix_unlock();
    }
    return MPI_Comm_set_attr(*newcomm, gdr_mpix_process.comm_keyval, own);
}

/** Tells the stream of a communicator.
 *
 * @param idx 0
 * @param stream MPIX_STREAM_NULL: it has none
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream* stream)
{
    const gdr_mpix_comm_t* const own = gdr_mpix_comm_of(comm);

    if (idx != 0) {
        return gdr_mpix_refuse(comm, "MPIX_Comm_get_stream", "communicators have one stream: 0");
    }
    *stream = own != NULL ? own->stream : MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}

/** Sends when the stream gets there; it goes on when the buffer may be used again.
 *
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Send_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest,
                                    int tag, MPI_Comm comm)
{
    gdr_mpix_op_t op = gdr_mpix_wanted(GDR_MPIX_SEND, count, datatype, dest, tag, comm);

    op.from = buf;
    return gdr_mpix_enqueue("MPIX_Send_enqueue", &op, NULL);
}

/** Receives when the stream gets there; it goes on when the message is there.
 *
 * @param status is written then; or MPI_STATUS_IGNORE
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Recv_enqueue(void* buf, int count, MPI_Datatype datatype, int source,
                                    int tag, MPI_Comm comm, MPI_Status* status)
{
    gdr_mpix_op_t op = gdr_mpix_wanted(GDR_MPIX_RECV, count, datatype, source, tag, comm);

    op.to = buf;
    op.status = status != MPI_STATUS_IGNORE ? status : NULL;
    return gdr_mpix_enqueue("MPIX_Recv_enqueue", &op, NULL);
}

/** Sends when the stream gets there, which does not wait.
 *
 * @param request for MPIX_Wait_enqueue() and MPIX_Waitall_enqueue(), or, unless it is captured, for
 *     MPI_Wait() and its kin
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Isend_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest,
                                     int tag, MPI_Comm comm, MPI_Request* request)
{
    gdr_mpix_op_t op = gdr_mpix_wanted(GDR_MPIX_SEND, count, datatype, dest, tag, comm);

    op.from = buf;
    return gdr_mpix_enqueue("MPIX_Isend_enqueue", &op, request);
}

/** Receives when the stream gets there, which does not wait.
 *
 * As MPIX_Isend_enqueue(). */
static inline int MPIX_Irecv_enqueue(void* buf, int count, MPI_Datatype datatype, int source,
                                     int tag, MPI_Comm comm, MPI_Request* request)
{
    gdr_mpix_op_t op = gdr_mpix_wanted(GDR_MPIX_RECV, count, datatype, source, tag, comm);

    op.to = buf;
    return gdr_mpix_enqueue("MPIX_Irecv_enqueue", &op, request);
}

/** Makes the stream wait until a request is complete.
 *
 * The request becomes MPI_REQUEST_NULL at once.
 *
 * @param status is written when the request is complete; or MPI_STATUS_IGNORE
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status)
{
    return gdr_mpix_wait("MPIX_Wait_enqueue", 1, request,
                         status != MPI_STATUS_IGNORE ? status : NULL);
}

/** Makes the stream wait until requests are complete, all of one stream.
 *
 * As MPIX_Wait_enqueue(), for all of them together.
 *
 * @param array_of_statuses or MPI_STATUSES_IGNORE
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[],
                                       MPI_Status* array_of_statuses)
{
    return gdr_mpix_wait("MPIX_Waitall_enqueue", count, array_of_requests,
                         array_of_statuses != MPI_STATUSES_IGNORE ? array_of_statuses : NULL);
}

/** Reduces when the stream gets there, which goes on when the result is there.
 *
 * Streams take the place of threads: those of one communicator have to call its collective
 * functions in the same order on all ranks.
 *
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Allreduce_enqueue(const void* sendbuf, void* recvbuf, int count,
                                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    gdr_mpix_op_t wanted = gdr_mpix_wanted(GDR_MPIX_ALLREDUCE, count, datatype, 0, 0, comm);

    wanted.from = sendbuf;
    wanted.to = recvbuf;
    wanted.op = op;
    return gdr_mpix_enqueue("MPIX_Allreduce_enqueue", &wanted, NULL);
}

/** @} */

/* ---- inside: partitions -----------------------------------------------------------------------
 */

typedef struct gdr_mpix_partition {
    MPIX_Request of;
    int index;
    int posted;
    MPI_Request under_way;
} gdr_mpix_partition_t;

struct gdr_mpix_transfer {
    int receives;
    char* buffer;
    int partitions;
    int count; /* elements of a partition */
    MPI_Datatype type;
    size_t bytes; /* of a partition */
    int peer;
    int tag;
    MPI_Comm comm;     /* the program's */
    MPI_Comm messages; /* of partitions */

    /* The sender chooses the number of its first message, and tells it with the sizes. */
    long long setup[3];
    MPI_Request setting_up;
    int settled; /* it has come, or needs not */
    int refused; /* the sizes differ */

    ugdr_condition_h condition;
    ugdr_dev_condition_t device;
    int active;
    int done;  /* partitions of this round */
    int error; /* of this round, the first */
    gdr_mpix_partition_t* each;
};

/* A trigger's word, as ugdr_device.cuh has it. */
static inline unsigned long long* gdr_mpix_word(MPIX_Request request, int partition)
{
    return request->device.words + 16 * (size_t)partition;
}

static inline void gdr_mpix_trigger(MPIX_Request request, int partition)
{
    __atomic_store_n((unsigned*)(void*)gdr_mpix_word(request, partition), 0u, __ATOMIC_RELEASE);
}

static inline int gdr_mpix_over(MPIX_Request request, int partition)
{
    return (__atomic_load_n(gdr_mpix_word(request, partition), __ATOMIC_ACQUIRE) &
            ((1ull << 32) | 1)) != 0;
}

/* Of a message, and of the word that the receiver is ready. */
static inline int gdr_mpix_message_tag(const MPIX_Request request, int partition)
{
    return (int)(2 * (request->setup[0] + partition));
}

static inline int gdr_mpix_ready_tag(const MPIX_Request request)
{
    return (int)(2 * request->setup[0] + 1);
}

/* In the library's thread, as all up to gdr_mpix_begin_partition(). */
static inline ucs_status_t gdr_mpix_finish_partition(gdr_mpix_partition_t* partition, int error)
{
    const MPIX_Request request = partition->of;

    if (error != MPI_SUCCESS && request->error == MPI_SUCCESS) {
        request->error = error;
    }
    __atomic_add_fetch(&request->done, 1, __ATOMIC_RELEASE);
    return error == MPI_SUCCESS ? UCS_OK : UCS_ERR_IO_ERROR;
}

/* A receive learns the sender's numbers. */
static inline int gdr_mpix_settle(MPIX_Request request)
{
    int arrived = 0;
    const int error = MPI_Test(&request->setting_up, &arrived, MPI_STATUS_IGNORE);

    if (error != MPI_SUCCESS || arrived) {
        request->refused = error != MPI_SUCCESS || request->setup[1] != request->partitions ||
                           request->setup[2] != (long long)request->bytes;
        if (request->refused) {
            fprintf(stderr,
                    "ucx-gdr: MPIX_Precv_init: %d partitions of %zu bytes, and MPIX_Psend_init of "
                    "rank %d has %lld of %lld: give both sides the same\n",
                    request->partitions, request->bytes, request->peer, request->setup[1],
                    request->setup[2]);
        }
        __atomic_store_n(&request->settled, 1, __ATOMIC_RELEASE);
    }
    return request->settled;
}

static inline ucs_status_t gdr_mpix_test_partition(void* argument)
{
    gdr_mpix_partition_t* partition = (gdr_mpix_partition_t*)argument;
    const MPIX_Request request = partition->of;
    int error = MPI_SUCCESS, done = 0;

    if (!partition->posted) {
        char* const data = request->buffer + (size_t)partition->index * request->bytes;
        if (!request->settled && !gdr_mpix_settle(request)) {
            return UCS_INPROGRESS;
        }
        if (request->refused) {
            return gdr_mpix_finish_partition(partition, MPI_ERR_OTHER);
        }
        if (request->receives) {
            error = MPI_Irecv(data, request->count, request->type, request->peer,
                              gdr_mpix_message_tag(request, partition->index), request->messages,
                              &partition->under_way);
        } else {
            error = MPI_Isend(data, request->count, request->type, request->peer,
                              gdr_mpix_message_tag(request, partition->index), request->messages,
                              &partition->under_way);
        }
        partition->posted = 1;
    }
    if (error == MPI_SUCCESS) {
        error = MPI_Test(&partition->under_way, &done, MPI_STATUS_IGNORE);
    }
    return error == MPI_SUCCESS && !done ? UCS_INPROGRESS
                                         : gdr_mpix_finish_partition(partition, error);
}

static inline ucs_status_t gdr_mpix_begin_partition(void* argument)
{
    ((gdr_mpix_partition_t*)argument)->posted = 0;
    return gdr_mpix_test_partition(argument);
}

/* Numbers of messages, never used again on this communicator; -1: there are no more. */
static inline long long gdr_mpix_take_numbers(gdr_mpix_comm_t* own, int partitions)
{
    void* most = NULL;
    int found = 0;
    long long first = -1;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    gdr_mpix_lock();
    if (found && 2 * (own->next_number + partitions) < *(int*)most) {
        first = own->next_number;
        own->next_number += partitions;
    }
    gdr_mpix_unlock();
    return first;
}

/* Kernels' triggers, each with the message of its partition; UCS_OK or an error. */
static inline ucs_status_t gdr_mpix_add_triggers(MPIX_Request request)
{
    ugdr_condition_params_t params;
    ugdr_condition_attr_t attr;
    ugdr_op_param_t param;
    ucs_status_t status;
    int i;

    memset(&params, 0, sizeof(params));
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_COUNT;
    params.category = UGDR_CONDITION_KERNEL;
    params.count = (unsigned)request->partitions;
    status = ugdr_condition_create(gdr_mpix_process.context, &params, &request->condition);
    if (status != UCS_OK) {
        return status;
    }
    attr.field_mask = UGDR_CONDITION_ATTR_FIELD_DEVICE;
    ugdr_condition_query(request->condition, &attr);
    request->device = attr.device;
    memset(&param, 0, sizeof(param));
    param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_INDEX;
    param.condition = request->condition;
    for (i = 0; i < request->partitions && status == UCS_OK; ++i) {
        request->each[i].of = request;
        request->each[i].index = i;
        param.index = (unsigned)i;
        status = ugdr_call(gdr_mpix_process.context, gdr_mpix_begin_partition,
                           gdr_mpix_test_partition, &request->each[i], &param, NULL);
    }
    if (status != UCS_OK) {
        ugdr_condition_destroy(request->condition);
    }
    return status;
}

static inline void gdr_mpix_free_transfer(MPIX_Request request)
{
    if (request != NULL) {
        free(request->each);
        free(request);
    }
}

static inline int gdr_mpix_init(const char* function, int receives, void* buffer, int partitions,
                                MPI_Count count, MPI_Datatype type, int peer, int tag,
                                MPI_Comm comm, MPIX_Request* request_p)
{
    gdr_mpix_comm_t* const own = gdr_mpix_comm_of(comm);
    const char* why = own == NULL ? "the communicator is none for partitions: make one by "
                                    "MPIX_Stream_comm_create(), with a stream or MPIX_STREAM_NULL"
                                  : gdr_mpix_need_context();
    MPIX_Request request = NULL;
    MPI_Aint low, extent;
    int size, error;

    *request_p = MPIX_REQUEST_NULL;
    if (why != NULL) {
        return gdr_mpix_refuse(comm, function, why);
    }
    if (MPI_Type_size(type, &size) != MPI_SUCCESS ||
        MPI_Type_get_extent(type, &low, &extent) != MPI_SUCCESS || extent != size || low != 0) {
        why = "the type has gaps: partitions are of contiguous types alone";
    } else if (partitions < 1 || count < 0 || count > INT_MAX) {
        why = "there has to be a partition, and a count from 0 to INT_MAX";
    } else if ((request = (MPIX_Request)calloc(1, sizeof(*request))) == NULL ||
               (request->each = (gdr_mpix_partition_t*)calloc((size_t)partitions,
                                                              sizeof(*request->each))) == NULL) {
        why = GDR_MPIX_NO_MEMORY;
    } else {
        request->receives = receives;
        request->buffer = (char*)buffer;
        request->partitions = partitions;
        request->count = (int)count;
        request->type = type;
        request->bytes = (size_t)count * (size_t)size;
        request->peer = peer;
        request->tag = tag;
        request->comm = comm;
        request->messages = own->partitions;
        request->settled = !receives;
        request->setup[0] = receives ? 0 : gdr_mpix_take_numbers(own, partitions);
        request->setup[1] = partitions;
        request->setup[2] = (long long)request->bytes;
        if (request->setup[0] < 0) {
            why = "the communicator has no tags left for so many partitions: make a new one";
        } else if (gdr_mpix_add_triggers(request) != UCS_OK) {
            why =
                "libucx-gdr has no triggers for it, and its own line says why: a CUDA context has "
                "to be current";
        }
    }
    if (why != NULL) {
        gdr_mpix_free_transfer(request);
        return gdr_mpix_refuse(comm, function, why);
    }
    error = receives ? MPI_Irecv(request->setup, 3, MPI_LONG_LONG, peer, tag, own->setups,
                                 &request->setting_up)
                     : MPI_Isend(request->setup, 3, MPI_LONG_LONG, peer, tag, own->setups,
                                 &request->setting_up);
    if (error != MPI_SUCCESS) {
        ugdr_condition_destroy(request->condition);
        gdr_mpix_free_transfer(request);
        MPI_Comm_call_errhandler(comm, error);
        return error;
    }
    *request_p = request;
    return MPI_SUCCESS;
}

/** @defgroup mpix_partitions Messages in partitions, which kernels send and see arrive
 * @{ */

/** Prepares to send a buffer in partitions, each when a kernel or the CPU says that it is ready.
 *
 * As MPI_Psend_init(), of which it is independent. comm is of MPIX_Stream_comm_create(), and the
 * CUDA context of the kernels current. The type is contiguous, and has to stay; the receiver has as
 * many partitions of as many bytes. Each partition is a message.
 *
 * @param count elements of a partition
 * @param info is not looked at
 * @return MPI_SUCCESS, or an error */
static inline int MPIX_Psend_init(const void* buf, int partitions, MPI_Count count,
                                  MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                                  MPI_Info info, MPIX_Request* request)
{
    (void)info;
    return gdr_mpix_init("MPIX_Psend_init", 0, (void*)(size_t)buf, partitions, count, datatype,
                         dest, tag, comm, request);
}

/** Prepares to receive a buffer in partitions, whose arrival kernels and the CPU see.
 *
 * As MPIX_Psend_init(). Without wildcards. */
static inline int MPIX_Precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype,
                                  int source, int tag, MPI_Comm comm, MPI_Info info,
                                  MPIX_Request* request)
{
    (void)info;
    return gdr_mpix_init("MPIX_Precv_init", 1, buf, partitions, count, datatype, source, tag, comm,
                         request);
}

/** Starts a round.
 *
 * Partitions of a sender may be made ready, and those of a receiver are waited for. To be called
 * before the kernels of the round are launched.
 *
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Start(MPIX_Request* request)
{
    int i;

    if ((*request)->active) {
        return gdr_mpix_refuse((*request)->comm, "MPIX_Start",
                               "the last round has not ended: call MPIX_Wait() first");
    }
    (*request)->done = 0;
    (*request)->error = MPI_SUCCESS;
    (*request)->active = 1;
    for (i = 0; (*request)->receives && i < (*request)->partitions; ++i) {
        gdr_mpix_trigger(*request, i);
    }
    return MPI_SUCCESS;
}

/** Waits until the receiver has started the round, too.
 *
 * To be called by both sides, after MPIX_Start(): what the sender makes ready from then on finds
 * its place at the receiver.
 *
 * @return MPI_SUCCESS, or an error */
static inline int MPIX_Pbuf_prepare(MPIX_Request request)
{
    if (!request->active) {
        return gdr_mpix_refuse(request->comm, "MPIX_Pbuf_prepare", "call MPIX_Start() first");
    }
    while (!__atomic_load_n(&request->settled, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    if (request->refused) {
        return gdr_mpix_refuse(request->comm, "MPIX_Pbuf_prepare", "the two sides differ");
    }
    return request->receives
               ? MPI_Send(NULL, 0, MPI_BYTE, request->peer, gdr_mpix_ready_tag(request),
                          request->messages)
               : MPI_Recv(NULL, 0, MPI_BYTE, request->peer, gdr_mpix_ready_tag(request),
                          request->messages, MPI_STATUS_IGNORE);
}

/** Sends a partition now.
 *
 * Once in a round for each. In a kernel the same, of an MPIX_Prequest and by one thread: what that
 * has written, or has seen written by others, is sent along.
 *
 * @return MPI_SUCCESS, or MPI_ERR_OTHER; in a kernel 0 */
static inline int MPIX_Pready(int partition, MPIX_Request request)
{
    if (request->receives || !request->active || partition < 0 ||
        partition >= request->partitions) {
        return gdr_mpix_refuse(request->comm, "MPIX_Pready",
                               "no such partition of a round of a sender");
    }
    gdr_mpix_trigger(request, partition);
    return MPI_SUCCESS;
}

/** Tells whether a partition has arrived.
 *
 * In a kernel the same, of an MPIX_Prequest: the caller then sees its bytes. Where a message failed
 * MPIX_Wait() tells.
 *
 * @param flag whether it has; true also where no round is under way
 * @return MPI_SUCCESS, or MPI_ERR_OTHER; in a kernel 0 */
static inline int MPIX_Parrived(MPIX_Request request, int partition, int* flag)
{
    if (!request->receives || partition < 0 || partition >= request->partitions) {
        return gdr_mpix_refuse(request->comm, "MPIX_Parrived", "no such partition of a receiver");
    }
    *flag = gdr_mpix_over(request, partition);
    return MPI_SUCCESS;
}

/** Waits in the calling thread until all partitions of the round have been sent, or have arrived.
 *
 * @return MPI_SUCCESS, or the error of the first partition that failed */
static inline int MPIX_Wait(MPIX_Request* request, MPI_Status* status)
{
    const MPIX_Request own = *request;
    int i;

    while (own->active && __atomic_load_n(&own->done, __ATOMIC_ACQUIRE) < own->partitions) {
        sched_yield();
    }
    for (i = 0; i < own->partitions; ++i) { /* the next round's triggers rely on it */
        while (!gdr_mpix_over(own, i)) {
            sched_yield();
        }
    }
    own->active = 0;
    if (status != MPI_STATUS_IGNORE) {
        memset(status, 0, sizeof(*status));
        status->MPI_SOURCE = own->peer;
        status->MPI_TAG = own->tag;
        status->MPI_ERROR = own->error;
    }
    if (own->error != MPI_SUCCESS) {
        MPI_Comm_call_errhandler(own->comm, own->error);
    }
    return own->error;
}

/** Makes what kernels take a request by.
 *
 * @param prequest is passed to them by value: mpix_device.cuh
 * @return MPI_SUCCESS */
static inline int MPIX_Prequest_create(MPIX_Request request, MPIX_Prequest* prequest)
{
    *prequest = request->device;
    return MPI_SUCCESS;
}

/** Forgets what kernels took a request by.
 *
 * @return MPI_SUCCESS */
static inline int MPIX_Prequest_free(MPIX_Prequest* prequest)
{
    memset(prequest, 0, sizeof(*prequest));
    return MPI_SUCCESS;
}

/** Frees a request of which no round is under way, after the last kernel that uses it.
 *
 * @return MPI_SUCCESS, or MPI_ERR_OTHER */
static inline int MPIX_Request_free(MPIX_Request* request)
{
    if ((*request)->active) {
        return gdr_mpix_refuse((*request)->comm, "MPIX_Request_free",
                               "a round is under way: call MPIX_Wait() first");
    }
    ugdr_condition_destroy((*request)->condition);
    if ((*request)->receives && !(*request)->settled) {
        MPI_Cancel(&(*request)->setting_up);
    }
    MPI_Wait(&(*request)->setting_up, MPI_STATUS_IGNORE);
    gdr_mpix_free_transfer(*request);
    *request = MPIX_REQUEST_NULL;
    return MPI_SUCCESS;
}

/** @} */

#ifdef __cplusplus
}
#endif

#endif
