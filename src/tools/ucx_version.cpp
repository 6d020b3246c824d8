// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucx-version, for "ucx-gdr doctor": loads the libucp file that it is given, and prints "UCX" and
// the version that it reports.
#include <cstdio>

#include <dlfcn.h>
#include <unistd.h>

namespace {

// In seconds, of the two that the doctor may take. UCX, when it is loaded, reads files that may be
// pipes.
constexpr unsigned kPatience = 1;

} // namespace

int main(int count, char** arguments)
{
    alarm(kPatience);
    void* libucp = count == 2 ? dlopen(arguments[1], RTLD_LAZY) : nullptr;
    if (libucp == nullptr) {
        std::fprintf(stderr, "ucx-version: %s\n", count == 2 ? dlerror() : "LIBUCP is missing");
        return 1;
    }
    const auto get_version = reinterpret_cast<void (*)(unsigned*, unsigned*, unsigned*)>(
        dlsym(libucp, "ucp_get_version"));
    if (get_version == nullptr) {
        std::fprintf(stderr, "ucx-version: %s is no libucp\n", arguments[1]);
        return 1;
    }
    unsigned major;
    unsigned minor;
    unsigned release;
    get_version(&major, &minor, &release);
    std::printf("UCX %u.%u.%u\n", major, minor, release);
    return 0;
}
