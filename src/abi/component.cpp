// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registration of a component in the running series' layout.
#include "abi/component.hpp"

#include "abi/host.hpp"
#include "abi/series.hpp"

namespace gdr::abi {

void register_component(const Component& component)
{
    if (!series().register_component(component))
        gdr_log(debug, "component %s is registered already", component.name);
}

} // namespace gdr::abi
