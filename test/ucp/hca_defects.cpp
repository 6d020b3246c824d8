// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Preloaded before softhca: its HCAs cannot be opened, for what HCA_DEFECT names: "forbidden", or
// "absent" (the device's file is missing). What else HCAs may lack is a profile of softhca.
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include <dlfcn.h>
#include <infiniband/verbs.h>

namespace {

bool has(std::string_view defect)
{
    const char* value = std::getenv("HCA_DEFECT");
    return value != nullptr && value == defect;
}

template <class Function>
Function next(const char* name)
{
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

} // namespace

#pragma GCC visibility push(default)
extern "C" ibv_context* ibv_open_device(ibv_device* device)
{
    if (has("forbidden") || has("absent")) {
        errno = has("absent") ? ENOENT : EACCES;
        return nullptr;
    }
    return next<ibv_context* (*)(ibv_device*)>("ibv_open_device")(device);
}

#pragma GCC visibility pop
