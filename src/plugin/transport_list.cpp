// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The syntax of UCX_TLS.
#include "plugin/transport_list.hpp"

namespace gdr::plugin {

bool lists_transport(std::string_view list, std::string_view name)
{
    const bool negated = list.starts_with('^');
    if (negated)
        list.remove_prefix(1);
    bool found = false;
    while (!list.empty()) {
        const size_t comma = list.find(',');
        std::string_view item = list.substr(0, comma);
        list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
        if (item.starts_with('\\')) // the name of a transport, not of a group of them
            item.remove_prefix(1);
        item = item.substr(0, item.find(':')); // ":aux" says what it is for
        found = found || item == name || item == "all";
    }
    return found != negated;
}

} // namespace gdr::plugin
