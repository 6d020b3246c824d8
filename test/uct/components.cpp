// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opens the libraries that are its arguments, in order, and prints the names of UCT's components
// then, and one of the settings that the module makes: what a program sees that loads the module by
// itself, or is linked with it. A child is forked at the end, which exits as its parent does.
#include <cstdio>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <ucs/config/global_opts.h>
#include <uct/api/uct.h>
}

int main(int, char** argv)
{
    for (char** library = argv + 1; *library; ++library) {
        if (!dlopen(*library, RTLD_NOW)) {
            std::fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    }
    uct_component_h* components;
    unsigned count;
    if (uct_query_components(&components, &count) != UCS_OK) {
        return 1;
    }
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr{};
        attr.field_mask =
            UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        if (uct_component_query(components[i], &attr) == UCS_OK) {
            std::puts(attr.name);
        }
    }
    uct_release_component_list(components);
    char setting[16];
    if (ucs_global_opts_get_value("MEMTYPE_CACHE", setting, sizeof(setting)) != UCS_OK) {
        return 1;
    }
    std::printf("UCX_MEMTYPE_CACHE=%s\n", setting);
    std::fflush(stdout);
    if (const pid_t child = fork(); child > 0) {
        waitpid(child, nullptr, 0);
    }
    return 0;
}
