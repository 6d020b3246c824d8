/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/** @file
 * Kernels make partitions of prepared transfers ready, and wait for them.
 *
 * The device's side of ugdr_transfer_create() (ugdr.h), for the compilers of ugdr_device.cuh, and
 * for a host's, where a thread stands for a GPU's. ugdr_transfer_device() gives the
 * ugdr_dev_transfer_t. Partitions are numbered from 0 on.
 *
 * The iteration was started before: by the host, or where a condition held that the kernel comes
 * behind.
 */
#ifndef UGDR_TRANSFER_CUH
#define UGDR_TRANSFER_CUH

#include "ugdr_device.cuh"

namespace ugdr_detail {

constexpr unsigned kLooksAtArrival = 1024; // between two looks at the status

// What all words have after a failure: more than any iteration, also where words are compared as
// CUDA's streams do, by the sign of their difference.
constexpr unsigned long long kNeverMore = 1ull << 62;

} // namespace ugdr_detail

/** @defgroup ugdr_dev_transfers Prepared transfers in kernels
 * @{ */

/** Makes a partition ready, by the last of as many calls as the transfer has arrivals.
 *
 * What the caller has written, or has seen written by others, is sent along. The call waits until
 * the partition of the iteration before may be written to, and does not look at status. */
UGDR_DEVICE void ugdr_dev_ready(const ugdr_dev_transfer_t& transfer, unsigned partition = 0)
{
    ugdr_dev_arrive(transfer.ready, partition);
}

#if defined(__CUDACC__) || defined(__CUDA__)

/** Makes a partition ready, for a whole block, all of whose threads call it: one arrival.
 *
 * Otherwise as ugdr_dev_ready(). Not for a host's compiler. */
UGDR_DEVICE void ugdr_dev_ready_block(const ugdr_dev_transfer_t& transfer, unsigned partition = 0)
{
    ugdr_dev_arrive_block(transfer.ready, partition);
}

#endif

/** Tells whether a partition has arrived, in the current iteration.
 *
 * @return whether it has; true also after a failure, which ugdr_dev_wait_arrived() tells
 */
UGDR_DEVICE bool ugdr_dev_arrived(const ugdr_dev_transfer_t& transfer, unsigned partition = 0)
{
    return ugdr_detail::load(transfer.arrived + partition) >= ugdr_detail::load(transfer.iteration);
}

/** Waits until a partition has arrived.
 *
 * Only one thread should wait for a partition, and others for that.
 *
 * @return a ucs_status_t: UCS_OK (0), or why it will not arrive
 */
UGDR_DEVICE int ugdr_dev_wait_arrived(const ugdr_dev_transfer_t& transfer, unsigned partition = 0)
{
    const unsigned long long iteration = ugdr_detail::load(transfer.iteration);
    unsigned long long seen = 0;
    for (unsigned looks = 1; (seen = ugdr_detail::load(transfer.arrived + partition)) < iteration;
         ++looks) {
        if (looks % ugdr_detail::kLooksAtArrival == 0 &&
            ugdr_detail::load(transfer.iteration + 1) != 0) {
            seen = ugdr_detail::kNeverMore;
            break;
        }
    }
    return seen >= ugdr_detail::kNeverMore
               ? -static_cast<int>(ugdr_detail::load(transfer.iteration + 1))
               : 0;
}

/** @} */

#endif
