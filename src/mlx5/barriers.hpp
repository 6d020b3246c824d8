// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The order in which an HCA sees stores to host memory and to its registers.
#pragma once

#include <atomic>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gdr::mlx5 {

// Stores before it are seen before stores after it; all are to host memory.
inline void order_stores()
{
#if defined(__aarch64__)
    asm volatile("dmb oshst" ::: "memory");
#else
    std::atomic_thread_fence(std::memory_order_release);
#endif
}

// Stores to host memory are seen before stores to a register that combines writes, and these leave
// the CPU before stores after it.
inline void order_register_stores()
{
#if defined(__x86_64__)
    _mm_sfence();
#elif defined(__aarch64__)
    asm volatile("dsb st" ::: "memory");
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Loads after it see what the HCA stored before what was loaded before it.
inline void order_loads()
{
#if defined(__aarch64__)
    asm volatile("dmb oshld" ::: "memory");
#else
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

} // namespace gdr::mlx5
