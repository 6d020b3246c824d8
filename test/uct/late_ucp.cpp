// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A program that is not linked with UCX and opens UCP when it runs and uses it, as an MPI library's
// modules do.
#include <cstdio>

#include <dlfcn.h>

int main()
{
    void* ucp = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    using ConfigRead = int(const char* prefix, const char* file, void** config);
    auto* read = ucp ? reinterpret_cast<ConfigRead*>(dlsym(ucp, "ucp_config_read")) : nullptr;
    if (!read) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void* config;
    if (read(nullptr, nullptr, &config) != 0) {
        return 1;
    }
    std::puts("loaded");
    return 0;
}
