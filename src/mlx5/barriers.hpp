// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The order in which an HCA sees stores to host memory and to its registers. x86 keeps stores, and
// loads, in order, so the compiler alone has to be told.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#error "only x86-64 and aarch64 are known"
#endif

namespace gdr::mlx5 {

// Stores before it are seen before stores after it; all are to host memory.
inline void order_stores()
{
#if defined(__x86_64__)
    asm volatile("" ::: "memory");
#else
    asm volatile("dmb oshst" ::: "memory");
#endif
}

// Stores to host memory are seen before stores to a register that combines writes, and these leave
// the CPU before stores after it.
inline void order_register_stores()
{
#if defined(__x86_64__)
    _mm_sfence();
#else
    asm volatile("dsb st" ::: "memory");
#endif
}

// Loads after it see what the HCA stored before what was loaded before it.
inline void order_loads()
{
#if defined(__x86_64__)
    asm volatile("" ::: "memory");
#else
    asm volatile("dmb oshld" ::: "memory");
#endif
}

} // namespace gdr::mlx5
