// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Functions that begin as NVIDIA's do, with instructions that patchers of functions can take apart,
// such as UCX's: what compilers make of ours differs from one to the next.
#pragma once

#include "emu/softcuda/api.hpp"

#ifdef __x86_64__
__asm__(".macro softcuda_entry name\n"
        ".pushsection .text\n"
        ".balign 16\n"
        ".globl \\name\n"
        ".type \\name, @function\n"
        "\\name:\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        "push %r12\n"
        "pop %r12\n"
        "pop %rbp\n"
        "jmp softcuda_\\name\n"
        ".size \\name, . - \\name\n"
        ".hidden softcuda_\\name\n"
        ".popsection\n"
        ".endm\n");

#define SOFTCUDA_NAME_(function) #function
#define SOFTCUDA_NAME(function) SOFTCUDA_NAME_(function)
/// Before the definition of a function, which gets another name: its own leads there.
#define SOFTCUDA_ENTRY(function)                                                                   \
    extern "C" decltype(function) function __asm__("softcuda_" SOFTCUDA_NAME(function));           \
    __asm__("softcuda_entry " SOFTCUDA_NAME(function));
#else
#define SOFTCUDA_ENTRY(function)
#endif
