/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
 *
 * What the emulated HCA has done for the calling process, for tests and tools. The function is
 * exported by libsofthca.so, which is preloaded: find it by dlsym(RTLD_DEFAULT,
 * "softhca_counters"), a null result meaning that softhca is not loaded. With SOFTHCA_STATS=1 in
 * the environment a process that used an HCA prints them to standard error as it ends. */
#ifndef SOFTHCA_H
#define SOFTHCA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All counts start at zero with the process and never decrease. */
struct softhca_counters {
    uint64_t registrations;        /* memory regions of host memory registered */
    uint64_t registrations_peer;   /* of device memory, by address (as with nvidia-peermem) */
    uint64_t registrations_dmabuf; /* of dmabuf file descriptors */
    uint64_t deregistrations;      /* memory regions of every kind released */
    uint64_t sends;                /* SEND work requests of this process's queue pairs executed */
    uint64_t writes;               /* RDMA WRITE, with and without immediate */
    uint64_t reads;                /* RDMA READ */
    uint64_t atomics;              /* fetch-and-add, compare-and-swap */
    uint64_t signaled;             /* of all of these: asked for a completion */
    uint64_t doorbells;            /* rung: calls of ibv_post_send and ibv_wr_complete */
    uint64_t completions;          /* polled by this process, of sends and receives */
    uint64_t bytes;                /* payload of the work requests */
    uint64_t bytes_from_device;    /* read from device memory by work requests of this process's
                                      queue pairs, whoever owns the memory */
    uint64_t bytes_to_device;      /* written to device memory by them, or by a message arriving */
    uint64_t system_calls;         /* made by this process to move payload between processes */
    uint64_t queue_pairs;          /* created */
    uint64_t queue_pairs_destroyed;
    uint64_t thread_domain_queues; /* queue pairs and shared receive queues created in a thread
                                      domain */
    uint64_t single_threaded_cqs;  /* completion queues created with
                                      IBV_CREATE_CQ_ATTR_SINGLE_THREADED */
    uint64_t batches;              /* of the doorbells: calls of ibv_wr_complete */
    uint64_t extended_completions; /* of the completions: polled by ibv_start_poll, ibv_next_poll */
    uint64_t registrations_relaxed; /* of the registrations of every kind: with relaxed ordering */
};

/* Any thread, any time; every field is filled in, all zero before a device was opened. */
void softhca_counters(struct softhca_counters* counters);

#ifdef __cplusplus
}
#endif

#endif
