// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module, opened when the process has a UCX.
#pragma once

#include "preload/module.h"

// Tells the module of a UCX, by an address in its libuct.
void gdr_found_ucx(const void* in_libuct, enum gdr_moment moment);

// The module's gdr_is_host_memory() where the module serves this UCX, and it has started; else
// NULL.
typedef int gdr_host_memory_test(const void* address);
gdr_host_memory_test* gdr_host_memory_test_for(const void* in_libuct);
