// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Components are recognised by name: opening all memory domains to ask them would be slow, and
// would change what they do.
#include "abi/memory_detection.hpp"

extern "C" {
#include <uct/api/uct.h>
}

#include <algorithm>
#include <iterator>
#include <string_view>

namespace gdr::abi {
namespace {

// All components of UCX 1.13 to 1.22, except those of ROCm, Level Zero and Gaudi. The names of ours
// and of NVIDIA's GDRCopy begin with kOurs.
constexpr std::string_view kOurs = "gdr_";
constexpr std::string_view kKnown[] = {"cma",  "cuda_cpy", "cuda_ipc", "gga",  "ib",
                                       "knem", "posix",    "rdmacm",   "self", "sysv",
                                       "tcp",  "ugni",     "xpmem"};

bool is_known(uct_component_h component)
{
    uct_component_attr_t attributes{};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
    if (uct_component_query(component, &attributes) != UCS_OK) {
        return false;
    }
    const std::string_view name = attributes.name;
    return name.starts_with(kOurs) || std::ranges::find(kKnown, name) != std::end(kKnown);
}

} // namespace

bool only_cuda_is_detected()
{
    uct_component_h* components = nullptr;
    unsigned count = 0;
    if (uct_query_components(&components, &count) != UCS_OK) {
        return false;
    }
    const bool known = std::all_of(components, components + count, is_known);
    uct_release_component_list(components);
    return known;
}

} // namespace gdr::abi
