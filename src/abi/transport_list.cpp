// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The syntax of UCX_TLS.
#include "abi/transport_list.hpp"

namespace gdr::abi {

namespace {

struct Mentions {
    bool negated; // the list names unwanted transports
    bool by_name = false;
    bool by_all = false;
};

Mentions find_transport(std::string_view list, std::string_view name)
{
    Mentions mentions{.negated = list.starts_with('^')};
    if (mentions.negated) {
        list.remove_prefix(1);
    }
    while (!list.empty()) {
        const size_t comma = list.find(',');
        std::string_view item = list.substr(0, comma);
        list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
        if (item.starts_with('\\')) { // the name of a transport, not of a group of them
            item.remove_prefix(1);
        }
        item = item.substr(0, item.find(':')); // ":aux" says what it is for
        mentions.by_name = mentions.by_name || item == name;
        mentions.by_all = mentions.by_all || item == "all";
    }
    return mentions;
}

} // namespace

bool lists_transport(std::string_view list, std::string_view name)
{
    const Mentions mentions = find_transport(list, name);
    return (mentions.by_name || mentions.by_all) != mentions.negated;
}

bool excludes_transport(std::string_view list, std::string_view name)
{
    const Mentions mentions = find_transport(list, name);
    return mentions.by_name && mentions.negated;
}

bool names_transport(std::string_view list, std::string_view name)
{
    const Mentions mentions = find_transport(list, name);
    return mentions.by_name && !mentions.negated;
}

} // namespace gdr::abi
