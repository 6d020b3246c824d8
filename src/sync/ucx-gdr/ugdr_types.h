/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/** @file
 * What libucx-gdr's host side and kernels have in common: ugdr.h and ugdr_device.cuh include it. */
#ifndef UGDR_TYPES_H
#define UGDR_TYPES_H

/** A kernel condition as kernels have it, passed to them by value. */
typedef struct ugdr_dev_condition {
    unsigned long long* words; /**< 16 for each trigger, in host memory that the GPU reaches */
    unsigned* arrived;         /**< one for each trigger, GPU memory; NULL where arrivals is 1 */
    unsigned count;            /**< separate triggers */
    unsigned arrivals;         /**< of kernels' threads, that make one trigger */
} ugdr_dev_condition_t;

/** A bit of the ids of local memories (ugdr_mem_id()): the memory is the host's. */
#define UGDR_MEM_ID_HOST (1u << 30)

/** A bit of the ids of peers' memories (ugdr_rmem_id()): kernels may reach memory of the peer by
 * their own loads and stores. */
#define UGDR_RMEM_ID_NEAR (1u << 31)

/** How many memories of its own, and as many of peers, a context can tell kernels the addresses of.
 */
#define UGDR_DEV_MEMORIES 4096

/** A memory that kernels reach by their own loads and stores. */
typedef struct ugdr_dev_memory {
    unsigned long long address;
    unsigned long long length;
    unsigned long long id;   /**< by which kernels name it; 0: there is none */
    unsigned long long peer; /**< whose it is, or 0 */
} ugdr_dev_memory_t;

/** How many words of 64 bits each member of a team has for it, GPU memory. */
#define UGDR_TEAM_WORDS 32

/** Contexts whose kernels meet at barriers, as one of them knows them. Passed to kernels by value.
 */
typedef struct ugdr_dev_team {
    unsigned long long* words; /**< of this member: one for each step, and in the last how many
                                  barriers there were */
    unsigned steps;            /**< the binary logarithm of the team's size, rounded up */
    unsigned peers[16];        /**< whose words of each step this one sets: ids */
} ugdr_dev_team_t;

/** Kernel-initiated operations of one GPU as kernels have them, passed to them by value. */
typedef struct ugdr_dev {
    unsigned long long* entries;         /**< rings, one after the other, in host memory that the
                                            GPU reaches: 8 words for each entry */
    const unsigned long long* completed; /**< 8 words for each channel and for the device, in the
                                            same: how many are complete, and a status */
    unsigned long long* counters;        /**< 16 words for each channel, GPU memory */
    unsigned channels;                   /**< a power of two */
    unsigned log_entries;                /**< of each ring, their binary logarithm */
    unsigned signals;                    /**< whether running kernels see what HCAs write */
    const ugdr_dev_memory_t* memories;   /**< #UGDR_DEV_MEMORIES of this side, and then as many of
                                            peers, GPU memory; NULL: kernels reach none */
} ugdr_dev_t;

/** One side of a prepared transfer as kernels have it, passed to them by value. */
typedef struct ugdr_dev_transfer {
    ugdr_dev_condition_t ready;          /**< sender: a trigger for each partition */
    const unsigned long long* arrived;   /**< receiver: the iteration that has come, for each
                                            partition; in the memory where the buffer is */
    const unsigned long long* iteration; /**< receiver: the current one, and behind it a status, in
                                            host memory that the GPU reaches */
    unsigned partitions;
} ugdr_dev_transfer_t;

#endif
