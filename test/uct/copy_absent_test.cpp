// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Without a GPU: the component is there, its memory domain is not, the reason is told, and nothing
// crashes. One process for each case, since the driver is looked for once in a process. Reports in
// TAP.
#include "abi/component.hpp"
#include "abi/host.hpp"
#include "copy/component.hpp"
#include "cuda/driver.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kSkipped = 77; // of a child: this machine has a CUDA driver

int failure(const std::string& what)
{
    fprintf(stderr, "FAILED: %s\n", what.c_str());
    return 1;
}

// Whether UCT lists the component with the number of domains.
bool listed(unsigned domains)
{
    uct_component_h* components;
    unsigned count;
    bool found = false;
    if (uct_query_components(&components, &count) != UCS_OK) {
        return false;
    }
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr = {};
        attr.field_mask =
            UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        if (uct_component_query(components[i], &attr) == UCS_OK &&
            strcmp(attr.name, "gdr_cuda") == 0) {
            found = attr.md_resource_count == domains;
        }
    }
    uct_release_component_list(components);
    return found;
}

int check_absent(const char* reason)
{
    if (!gdr::abi::choose_series()) {
        return failure(gdr::abi::why_not());
    }
    gdr::abi::register_component(gdr::copy::component());
    if (gdr::cuda::initialised_driver() != nullptr || !gdr::cuda::unavailable_reason().empty()) {
        return failure("registering the component has looked for CUDA");
    }
    if (!listed(0)) {
        return failure("gdr_cuda offers a memory domain, or is not listed");
    }
    std::string told = gdr::cuda::unavailable_reason();
    if (told.find(reason) == std::string::npos) {
        return failure("the reason is \"" + told + "\", which does not say " + reason);
    }
    return 0;
}

int no_library()
{
    if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) {
        return kSkipped;
    }
    return check_absent("libcuda.so.1");
}

int no_device()
{
    const char* build = getenv("top_builddir");
    std::string softcuda =
        std::string(build != nullptr ? build : ".") + "/src/emu/softcuda/.libs/libcuda.so.1";
    setenv("SOFTCUDA_DEVICES", "0", 1);
    // The name libcuda.so.1 means the one that is loaded already.
    if (dlopen(softcuda.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        return failure(dlerror());
    }
    return check_absent("device");
}

int in_child(int (*test)())
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        exit(test());
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status)
                             : failure("killed by signal " + std::to_string(WTERMSIG(status)));
}

} // namespace

int main()
{
    const int library = in_child(no_library);
    const int device = in_child(no_device);
    printf("%s 1 - no driver%s\n", library == 0 || library == kSkipped ? "ok" : "not ok",
           library == kSkipped ? " # SKIP this machine has a libcuda.so.1" : "");
    printf("%s 2 - a driver without a device\n1..2\n", device == 0 ? "ok" : "not ok");
    return device == 0 && (library == 0 || library == kSkipped) ? 0 : 1;
}
