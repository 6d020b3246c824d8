// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The language of the kernels' sources, so that each is compiled twice: by clang to PTX for GPUs,
// and by the host's compiler for the emulated ones. A kernel has one parameter, a structure passed
// by value. It accesses memory by address through load() and store(), which the emulation checks.
// Its threads are numbered through the whole grid. There are no barriers and no shared memory.
//
// A host file that includes this defines how memory is accessed and what becomes of kernels
// (src/emu/softcuda/own_kernels.cpp).
#pragma once

#include <stdint.h>

#ifdef __CUDA__
#define GDR_DEVICE __attribute__((device)) inline
#define GDR_UNROLL _Pragma("unroll") // before a loop
#else
#define GDR_DEVICE inline
#define GDR_UNROLL
#endif

namespace gdr::kernels {

// Threads of a block, in every launch.
constexpr unsigned kBlockThreads = 256;

// A thread's number, and the number of threads.
struct Thread {
    uint64_t index;
    uint64_t count;
};

} // namespace gdr::kernels

#ifdef __CUDA__

#define GDR_KERNEL(name, body, Arguments)                                                          \
    extern "C" __attribute__((global, launch_bounds(kBlockThreads))) void name(                    \
        Arguments arguments)                                                                       \
    {                                                                                              \
        body(arguments, this_thread());                                                            \
    }

namespace gdr::kernels {

GDR_DEVICE Thread this_thread()
{
    const unsigned block = __nvvm_read_ptx_sreg_ctaid_x();
    const unsigned blocks = __nvvm_read_ptx_sreg_nctaid_x();
    const unsigned within = __nvvm_read_ptx_sreg_tid_x();
    return {uint64_t{block} * kBlockThreads + within, uint64_t{blocks} * kBlockThreads};
}

// Global memory: the address space tells the compiler that it needs no generic access.
template <typename Value>
using Global = __attribute__((address_space(1))) Value;

template <typename Value>
GDR_DEVICE Value load(uint64_t address)
{
    return *(const Value*)reinterpret_cast<const Global<Value>*>(address);
}

template <typename Value>
GDR_DEVICE void store(uint64_t address, Value value)
{
    *(Value*)reinterpret_cast<Global<Value>*>(address) = value;
}

} // namespace gdr::kernels

#endif
