// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module, opened when the process has a UCX.
#pragma once

#include "preload/module.h"

// Tells the module of a UCX, by an address in its libuct.
void gdr_found_ucx(const void* in_libuct, enum gdr_moment moment);
