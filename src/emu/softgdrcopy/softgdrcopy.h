/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/*
 * softgdrcopy, an emulated libgdrapi.so.2 for softcuda's device memory, which the CPU cannot touch
 * at its own address. It behaves as gdrcopy 2.6 does without its kernel module: memory is mapped by
 * the CUDA driver, in whole pages of one allocation, takes room in the device's BAR1, and stays
 * reachable and taken when it was freed; or as it does with the module and persistent mappings, in
 * whole pages of the GPU (64 KiB), whosever memory is in them, and not that which nvidia-peermem
 * does not take: pools, cuMemCreate without gpuDirectRDMACapable. gdr_open fails beside any other
 * driver. What gdrapi.h declares and is not here is missing.
 *
 * Environment (read by gdr_open):
 *     SOFTGDRCOPY_MOST_PINS  pins at a time; others fail with ENOMEM (default: no limit)
 *     SOFTGDRCOPY_BACKEND    gdrdrv: with the kernel module (default: without)
 *     SOFTGDRCOPY_STATS      1: print the counts to stderr at exit
 *
 * What it counts is for tests, which look the functions up with dlsym. Any thread.
 */
#ifndef SOFTGDRCOPY_H
#define SOFTGDRCOPY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls in this process so far. */
uint64_t softgdrcopy_attempts(void); /* gdr_pin_buffer */
uint64_t softgdrcopy_pins(void);     /* those that succeeded */
uint64_t softgdrcopy_unpins(void);   /* gdr_unpin_buffer */
uint64_t softgdrcopy_writes(void);   /* gdr_copy_to_mapping */
uint64_t softgdrcopy_reads(void);    /* gdr_copy_from_mapping */

#ifdef __cplusplus
}
#endif

#endif
