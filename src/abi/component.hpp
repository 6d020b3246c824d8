// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A component as this project declares one (a kind of memory domain and the transports on it), and
// its registration with UCT.
#pragma once

#include "abi/iface.hpp"
#include "abi/memory_domain.hpp"
#include "abi/options.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gdr::abi {

struct Device {
    std::string name; // at most 31 characters
    uct_device_type_t type;
    ucs_sys_device_t sys_device;
};

struct Transport {
    const char* name; // at most 9 characters; "gdr" for all of ours
    std::vector<Device> (*query_devices)(MemoryDomain& md);
    ucs_status_t (*iface_open)(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                               const uct_iface_config_t* config, uct_iface_h* iface);
    OptionTable options;
};

struct Component {
    const char* name; // at most 15 characters

    // Names of the memory domains that can be opened now, each at most 15 characters. May be empty.
    std::vector<std::string> (*query_md_resources)();

    // Throws std::exception with the reason if the domain cannot be opened.
    std::unique_ptr<MemoryDomain> (*open_md)(const char* name, const MdConfig* config);

    // Returns UCS_ERR_INVALID_PARAM for a buffer that is not ours. Only rkey_packed_size bytes may
    // be read. handle is passed back to release_rkey.
    ucs_status_t (*unpack_rkey)(const void* buffer, uct_rkey_t* rkey, void** handle);
    void (*release_rkey)(uct_rkey_t rkey, void* handle);

    OptionTable md_options;
    std::vector<Transport> transports;
};

// Registers the component with UCT in the running series' layout, for the life of the process.
// Returns false, and does nothing, if a component of this name is registered already.
// choose_series() must have returned true.
bool register_component(const Component& component);

// Calls function whenever UCX asks a component of ours for its memory domains, as it does for each
// context. Before the first call the process has loaded us but does not use UCX. Not called if
// UCX_TLS leaves gdr out: then no component has domains. Any thread.
void on_use(void (*function)());

} // namespace gdr::abi
