// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucx-version, for "ucx-gdr info": loads the libucp files that it is given, as programs that name
// them do, until one reports its version. Prints "UCX VERSION LIBUCT": the version, and the file of
// the libuct that came with it.
#include <cstdio>

#include <dlfcn.h>

namespace {

bool tell(const char* name)
{
    void* libucp = dlopen(name, RTLD_LAZY);
    if (libucp == nullptr) {
        std::fprintf(stderr, "ucx-version: %s\n", dlerror());
        return false;
    }
    const auto get_version = reinterpret_cast<void (*)(unsigned*, unsigned*, unsigned*)>(
        dlsym(libucp, "ucp_get_version"));
    Dl_info libuct;
    if (get_version == nullptr || dladdr(dlsym(libucp, "uct_component_register"), &libuct) == 0) {
        std::fprintf(stderr, "ucx-version: %s is no libucp\n", name);
        return false;
    }
    unsigned major;
    unsigned minor;
    unsigned release;
    get_version(&major, &minor, &release);
    std::printf("UCX %u.%u.%u %s\n", major, minor, release, libuct.dli_fname);
    return true;
}

} // namespace

int main(int count, char** names)
{
    for (int i = 1; i < count; ++i) {
        if (tell(names[i])) {
            return 0;
        }
    }
    return 1;
}
