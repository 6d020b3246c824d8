/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/** @file
 * Kernels trigger operations of libucx-gdr, and wait for them.
 *
 * The device's side of #UGDR_CONDITION_KERNEL (ugdr.h). For nvcc, NVRTC and clang, GPUs from Volta
 * on, without any other header; and for a host's C++ compiler, where a thread stands for a GPU's. A
 * condition is what ugdr_condition_query() gives for #UGDR_CONDITION_ATTR_FIELD_DEVICE; triggers
 * are numbered from 0 to count - 1.
 *
 * A trigger starts the operations attached to it. It is over when they are complete; the next one
 * waits until then. A wait in the kernel that triggers stands still where the grid does not fit on
 * the GPU and threads that have to trigger cannot start: launch cooperatively, or wait in a kernel
 * of its own.
 */
#ifndef UGDR_DEVICE_CUH
#define UGDR_DEVICE_CUH

#include "ugdr_types.h"

#if defined(__CUDACC__) || defined(__CUDA__)
#define UGDR_DEVICE __attribute__((device)) inline
#else
#include <sched.h>
#define UGDR_DEVICE inline
#endif

namespace ugdr_detail {

constexpr unsigned long long kWords = 16;                  // from one trigger to the next
constexpr unsigned long long kPassable = (1ull << 32) | 1; // either of these bits; then the status

#if defined(__CUDACC__) || defined(__CUDA__)

UGDR_DEVICE unsigned long long load(const unsigned long long* word)
{
    unsigned long long value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

// With all that the caller has written or seen before.
UGDR_DEVICE void pass(unsigned* word)
{
    asm volatile("fence.acq_rel.sys;\n\tst.relaxed.sys.u32 [%0], %1;" ::"l"(word), "r"(0)
                 : "memory");
}

// Counts to `last` and from there to 0; what it was.
UGDR_DEVICE unsigned count(unsigned* counter, unsigned last)
{
    unsigned was;
    asm volatile("fence.acq_rel.gpu;\n\tatom.inc.u32 %0, [%1], %2;\n\tfence.acq_rel.gpu;"
                 : "=r"(was)
                 : "l"(counter), "r"(last)
                 : "memory");
    return was;
}

UGDR_DEVICE void relax()
{
    asm volatile("nanosleep.u32 100;");
}

#else // a host

inline unsigned long long load(const unsigned long long* word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
inline void pass(unsigned* word)
{
    __atomic_store_n(word, 0u, __ATOMIC_RELEASE);
}
inline unsigned count(unsigned* counter, unsigned last)
{
    unsigned was = __atomic_load_n(counter, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(counter, &was, was >= last ? 0 : was + 1, true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    }
    return was;
}
inline void relax()
{
    sched_yield(); // there may be more threads than cores
}

#endif

// Whether the operations of the last trigger are complete: then the word has their status.
UGDR_DEVICE bool over(const ugdr_dev_condition_t& condition, unsigned index,
                      unsigned long long& word)
{
    word = load(condition.words + index * kWords);
    return (word & kPassable) != 0;
}

} // namespace ugdr_detail

/** @defgroup ugdr_device Triggers
 * @{ */

/** Tells whether the operations of the last trigger are complete.
 *
 * @return whether they are; true also where there was none
 */
UGDR_DEVICE bool ugdr_dev_test(const ugdr_dev_condition_t& condition, unsigned index = 0)
{
    unsigned long long word;
    return ugdr_detail::over(condition, index, word);
}

/** Waits until the operations of the last trigger are complete.
 *
 * @return a ucs_status_t: UCS_OK (0), or that of an operation that failed in the last round
 */
UGDR_DEVICE int ugdr_dev_wait(const ugdr_dev_condition_t& condition, unsigned index = 0)
{
    unsigned long long word;
    while (!ugdr_detail::over(condition, index, word)) {
        ugdr_detail::relax();
    }
    return static_cast<int>((word & 1) != 0 ? word : word >> 32) >> 1;
}

/** Triggers where the operations of the last trigger are known to be complete.
 *
 * What the caller has written, or has seen written by others, is sent along. The caller has to know
 * that those operations are complete: nothing was triggered yet, or ugdr_dev_wait() or
 * ugdr_dev_test() said so since, here or in a kernel before. Where they are not, this trigger is
 * lost. It does not look at host memory, which takes a GPU as long as half an exchange. */
UGDR_DEVICE void ugdr_dev_trigger_waited(const ugdr_dev_condition_t& condition, unsigned index = 0)
{
    ugdr_detail::pass(reinterpret_cast<unsigned*>(condition.words + index * ugdr_detail::kWords));
}

/** Waits for the operations of the last trigger, and triggers.
 *
 * As ugdr_dev_wait() and ugdr_dev_trigger_waited(). Two threads that trigger the same at a time are
 * the caller's error: see ugdr_dev_arrive(). */
UGDR_DEVICE void ugdr_dev_trigger(const ugdr_dev_condition_t& condition, unsigned index = 0)
{
    ugdr_dev_wait(condition, index);
    ugdr_dev_trigger_waited(condition, index);
}

/** Arrives: the last of several calls triggers.
 *
 * One of as many calls as the condition has arrivals, from as many threads as may be. Those for the
 * next trigger come after all for this one. */
UGDR_DEVICE void ugdr_dev_arrive(const ugdr_dev_condition_t& condition, unsigned index = 0)
{
    if (condition.arrived == nullptr ||
        ugdr_detail::count(condition.arrived + index, condition.arrivals - 1) ==
            condition.arrivals - 1) {
        ugdr_dev_trigger(condition, index);
    }
}

#if defined(__CUDACC__) || defined(__CUDA__)

/** Arrives once for a whole block, all of whose threads call it.
 *
 * Otherwise as ugdr_dev_arrive(). Not for a host's compiler. */
UGDR_DEVICE void ugdr_dev_arrive_block(const ugdr_dev_condition_t& condition, unsigned index = 0)
{
    unsigned x, y, z;
    asm("mov.u32 %0, %%tid.x;" : "=r"(x));
    asm("mov.u32 %0, %%tid.y;" : "=r"(y));
    asm("mov.u32 %0, %%tid.z;" : "=r"(z));
    asm volatile("barrier.sync 0;" ::: "memory");
    if (x + y + z == 0) {
        ugdr_dev_arrive(condition, index);
    }
}

#endif

/** @} */

#endif
