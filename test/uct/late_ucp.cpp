// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A program that is not linked with UCX and loads UCP when it runs, as an MPI library's modules do.
#include <cstdio>

#include <dlfcn.h>

int main()
{
    if (!dlopen("libucp.so.0", RTLD_NOW)) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    std::puts("loaded");
    return 0;
}
