// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// For test programs: the UCX that they are linked with is the one in use.
#include "abi/ucx.hpp"

#include <dlfcn.h>

extern "C" {
extern ucs_list_link_t ucs_config_global_list;
extern ucs_list_link_t uct_components_list;
extern ucs_config_field_t uct_iface_config_table[];
extern ucs_class_t uct_base_iface_t_class;
extern ucs_class_t uct_base_ep_t_class;
}

namespace gdr::abi {

const Ucx& ucx()
{
    static const Ucx linked{.libuct = dlopen("libuct.so.0", RTLD_LAZY | RTLD_NOLOAD),
                            .global_opts = &ucs_global_opts,
                            .option_tables = &ucs_config_global_list,
                            .components = &uct_components_list,
                            .iface_options = uct_iface_config_table,
                            .base_iface_class = &uct_base_iface_t_class,
                            .base_ep_class = &uct_base_ep_t_class,
                            .sscanf_table = ucs_config_sscanf_table,
                            .fill_options = reinterpret_cast<void*>(&ucs_config_parser_fill_opts)};
    return linked;
}

} // namespace gdr::abi
