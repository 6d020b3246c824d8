// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The UCX that is served: the only access to symbols of it whose address matters, and to its
// libraries. Functions of UCX are called by their names; in the module binding.cpp leads them to
// that UCX, and test programs are linked with theirs.
#pragma once

#include "abi/base.hpp"

extern "C" {
#include <ucs/config/global_opts.h>
#include <ucs/config/parser.h>
#include <ucs/datastruct/list.h>
#include <ucs/type/class.h>
}

namespace gdr::abi {

struct Ucx {
    void* libuct; // a handle for dlsym(), also for libucs and libucm
    ucs_global_opts_t* global_opts;
    ucs_list_link_t* option_tables;    // ucs_config_global_list
    ucs_list_link_t* components;       // uct_components_list
    ucs_config_field_t* iface_options; // uct_iface_config_table
    ucs_class_t* base_iface_class;
    ucs_class_t* base_ep_class;
    decltype(&ucs_config_sscanf_table) sscanf_table; // UCX knows tables by it
    void* fill_options; // ucs_config_parser_fill_opts(), of the running series' type
};

const Ucx& ucx();

} // namespace gdr::abi
