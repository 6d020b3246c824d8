// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The user's settings of the copy interface: UCX_GDR_COPY_*.
#pragma once

#include "abi/options.hpp"

#include <cstddef>

namespace gdr::copy {

struct Settings {
    abi::IfaceConfig base;
    int gdrcopy;            // boolean
    size_t gdrcopy_max_get; // bytes
};

abi::OptionTable iface_options();

} // namespace gdr::copy
