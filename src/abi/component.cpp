// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registers a component in the running series' layout.
#include "abi/component.hpp"

#include "abi/series.hpp"

namespace gdr::abi {

bool register_component(const Component& component)
{
    return series().register_component(component);
}

} // namespace gdr::abi
