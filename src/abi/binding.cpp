// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Every symbol of UCX that this project uses.
#include "abi/binding.hpp"

#include "abi/libucp.hpp"
#include "abi/ucx.hpp"
#include "stubs/stub.hpp"

#include <dlfcn.h>
#include <link.h>

#define GDR_FUNCTIONS(FUNCTION)                                                                    \
    FUNCTION(ucm_event_dispatch)                                                                   \
    FUNCTION(ucm_event_enter)                                                                      \
    FUNCTION(ucm_event_leave)                                                                      \
    FUNCTION(ucm_set_event_handler)                                                                \
    FUNCTION(ucs_async_add_timer)                                                                  \
    FUNCTION(ucs_async_remove_handler)                                                             \
    FUNCTION(ucs_async_set_event_handler)                                                          \
    FUNCTION(ucs_class_call_cleanup_chain)                                                         \
    FUNCTION(ucs_config_clone_double)                                                              \
    FUNCTION(ucs_config_clone_int)                                                                 \
    FUNCTION(ucs_config_clone_string)                                                              \
    FUNCTION(ucs_config_clone_table)                                                               \
    FUNCTION(ucs_config_clone_uint)                                                                \
    FUNCTION(ucs_config_clone_ulong)                                                               \
    FUNCTION(ucs_config_help_enum)                                                                 \
    FUNCTION(ucs_config_help_generic)                                                              \
    FUNCTION(ucs_config_help_table)                                                                \
    FUNCTION(ucs_config_parse_config_file)                                                         \
    FUNCTION(ucs_config_release_nop)                                                               \
    FUNCTION(ucs_config_release_string)                                                            \
    FUNCTION(ucs_config_release_table)                                                             \
    FUNCTION(ucs_config_sprintf_bool)                                                              \
    FUNCTION(ucs_config_sprintf_enum)                                                              \
    FUNCTION(ucs_config_sprintf_memunits)                                                          \
    FUNCTION(ucs_config_sprintf_string)                                                            \
    FUNCTION(ucs_config_sprintf_ternary_auto)                                                      \
    FUNCTION(ucs_config_sprintf_time)                                                              \
    FUNCTION(ucs_config_sprintf_uint)                                                              \
    FUNCTION(ucs_config_sprintf_ulunits)                                                           \
    FUNCTION(ucs_config_sscanf_bool)                                                               \
    FUNCTION(ucs_config_sscanf_enum)                                                               \
    FUNCTION(ucs_config_sscanf_memunits)                                                           \
    FUNCTION(ucs_config_sscanf_string)                                                             \
    FUNCTION(ucs_config_sscanf_ternary)                                                            \
    FUNCTION(ucs_config_sscanf_time)                                                               \
    FUNCTION(ucs_config_sscanf_uint)                                                               \
    FUNCTION(ucs_config_sscanf_ulunits)                                                            \
    FUNCTION(ucs_get_cpu_clocks_per_sec)                                                           \
    FUNCTION(ucs_global_opts_set_value)                                                            \
    FUNCTION(ucs_log_dispatch)                                                                     \
    FUNCTION(ucs_status_string)                                                                    \
    FUNCTION(ucs_topo_find_device_by_bus_id)                                                       \
    FUNCTION(uct_base_ep_t_init)                                                                   \
    FUNCTION(uct_base_iface_progress_disable)                                                      \
    FUNCTION(uct_base_iface_progress_enable)                                                       \
    FUNCTION(uct_base_iface_query)                                                                 \
    FUNCTION(uct_base_iface_t_init)                                                                \
    FUNCTION(uct_component_query)                                                                  \
    FUNCTION(uct_component_register)                                                               \
    FUNCTION(uct_iface_handle_ep_err)                                                              \
    FUNCTION(uct_md_mem_dereg)                                                                     \
    FUNCTION(uct_md_mem_reg)                                                                       \
    FUNCTION(uct_query_components)                                                                 \
    FUNCTION(uct_release_component_list)                                                           \
    FUNCTION(uct_tl_register)

GDR_FUNCTIONS(GDR_STUB)

namespace gdr::abi {
namespace {

struct Function {
    const char* name;
    void** pointer;
};

#define GDR_ENTRY(name) {#name, &gdr_pointer_##name},
constexpr Function kFunctions[] = {GDR_FUNCTIONS(GDR_ENTRY)};

Ucx bound{};

template <class Pointer>
std::string find(void* libuct, const char* name, Pointer& pointer)
{
    pointer = reinterpret_cast<Pointer>(dlsym(libuct, name));
    return pointer ? "" : name;
}

bool is_in_program(const void* address)
{
    Dl_info info;
    link_map* map;
    return address && dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) &&
           *map->l_name == '\0';
}

// The address that UCX itself sees: a program that is linked with UCX may hold the variable (a copy
// relocation) or the function's address.
template <class Pointer>
std::string find_address(void* libuct, const char* name, Pointer& pointer)
{
    void* global = dlsym(RTLD_DEFAULT, name);
    if (!is_in_program(global)) {
        return find(libuct, name, pointer);
    }
    pointer = reinterpret_cast<Pointer>(global);
    return {};
}

// libucs's own function. If a libucs without functions is in front of it (src/front), libuct finds
// the one of libuct_gdr.so.0 first, which forwards to the UCX of its caller; the module is not
// linked with any.
std::string find_fill_options(void* libuct, void*& pointer)
{
    constexpr const char* kName = "ucs_config_parser_fill_opts";
    void* const libucs =
        dlopen(library_of(dlsym(libuct, "ucs_log_dispatch")).c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (libucs == nullptr) {
        return find(libuct, kName, pointer);
    }
    std::string missing = find(libucs, kName, pointer);
    dlclose(libucs);
    return missing;
}

} // namespace

std::string bind(void* libuct)
{
    std::string missing;
    for (const Function& function : kFunctions) {
        missing += missing.empty() ? find(libuct, function.name, *function.pointer) : "";
    }

    Ucx found{};
    found.libuct = libuct;
    for (const std::string& name :
         {find_address(libuct, "ucs_global_opts", found.global_opts),
          find_address(libuct, "ucs_config_global_list", found.option_tables),
          find_address(libuct, "uct_components_list", found.components),
          find_address(libuct, "uct_iface_config_table", found.iface_options),
          find_address(libuct, "uct_base_iface_t_class", found.base_iface_class),
          find_address(libuct, "uct_base_ep_t_class", found.base_ep_class),
          find_address(libuct, "ucs_config_sscanf_table", found.sscanf_table),
          find_fill_options(libuct, found.fill_options)}) {
        missing += missing.empty() ? name : "";
    }
    bound = found;
    return missing;
}

const Ucx& ucx()
{
    return bound;
}

} // namespace gdr::abi
