// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The verbs behind those that a test program defines in their place.
#pragma once

#include <dlfcn.h>

namespace ucptest {

// The emulated HCA's if that takes libibverbs' place; libibverbs' own is not looked up among the
// libraries of the program, since the module opens it.
template <typename Function>
Function* next_verb(const char* name)
{
    void* found = dlsym(RTLD_NEXT, name);
    if (found == nullptr) {
        found = dlsym(dlopen("libibverbs.so.1", RTLD_LAZY), name);
    }
    return reinterpret_cast<Function*>(found);
}

} // namespace ucptest
