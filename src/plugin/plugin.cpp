// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The plugin's entry: what runs when the library is loaded into a process, by whichever way.
#include "abi/component.hpp"
#include "abi/host.hpp"

namespace gdr::plugin {
namespace {

[[gnu::constructor]] void load()
{
    if (!abi::choose_series()) {
        gdr_log(warn, "not used: %s", abi::why_not().c_str());
        return;
    }
}

} // namespace
} // namespace gdr::plugin
