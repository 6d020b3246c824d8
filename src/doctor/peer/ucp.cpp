// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opening it.
#include "doctor/peer/ucp.hpp"

#include <stdexcept>

#include <dlfcn.h>

namespace gdr::peer {
namespace {

void* look_up(void* library, const char* name)
{
    void* function = dlsym(library, name);
    if (function == nullptr) {
        throw std::runtime_error(std::string("UCX lacks ") + name);
    }
    return function;
}

} // namespace

Ucp::Ucp()
{
    void* library = dlopen("libucp.so.0", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
        throw std::runtime_error(dlerror());
    }
#define GDR_UCP_LOOK_UP(name) name = reinterpret_cast<decltype(name)>(look_up(library, #name));
    GDR_UCP_FUNCTIONS(GDR_UCP_LOOK_UP)
#undef GDR_UCP_LOOK_UP
}

void Ucp::check(ucs_status_t status, const char* call) const
{
    if (status != UCS_OK) {
        throw std::runtime_error(std::string(call) + ": " + ucs_status_string(status));
    }
}

} // namespace gdr::peer
