// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module, opened when the process has a UCX.
#pragma once

#include "preload/module.h"

// Reports a UCX to the module, by an address in its libuct.
void gdr_found_ucx(const void* in_libuct, enum gdr_moment moment);

// What else the module does for the UCX that it serves: see module.h.
struct gdr_service {
    int (*look_up_memory)(const void* address, size_t length, void* info, gdr_lookup* in_ucx);
    void (*context_begins)(const void* config, gdr_print_config* print);
    void (*context_ends)(void);
    void (*iface_opens)(const void* params, int by_ucp);
};

// NULL unless the module serves this UCX and that has started.
const struct gdr_service* gdr_service_for(const void* in_libuct);
