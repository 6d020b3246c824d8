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

#endif
