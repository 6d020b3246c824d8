// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A function of a library that is found at run time: a stub of its name that jumps to where its
// pointer leads, which is what the linker makes for a call into a library, and costs the same. The
// stubs are the module's alone (hidden): nobody else's call comes here.
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
