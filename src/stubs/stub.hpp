// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A stub for a function of a library that is found at run time: it jumps through a pointer. A
// linker makes the same for a call into a library, and it costs the same. The stubs are hidden, so
// only the module calls them.
#pragma once

#if defined(__x86_64__)
#define GDR_JUMP(pointer) "endbr64\n jmp *" pointer "(%rip)\n"
#elif defined(__aarch64__)
#define GDR_JUMP(pointer)                                                                          \
    "hint #34\n adrp x16, " pointer "\n ldr x16, [x16, #:lo12:" pointer "]\n br x16\n"
#else
#error "a jump through a pointer is needed here for this processor"
#endif

// The stub of a function, and gdr_pointer_NAME, which is NULL.
#define GDR_STUB(name)                                                                             \
    extern "C" {                                                                                   \
    [[gnu::visibility("hidden")]] void* gdr_pointer_##name;                                        \
    }                                                                                              \
    asm(".pushsection .text\n"                                                                     \
        ".balign 16\n"                                                                             \
        ".globl " #name "\n"                                                                       \
        ".hidden " #name "\n"                                                                      \
        ".type " #name ", %function\n" #name                                                       \
        ":\n" GDR_JUMP("gdr_pointer_" #name) ".size " #name ", . - " #name "\n"                    \
                                             ".popsection\n");
