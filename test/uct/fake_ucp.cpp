// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Preloaded, answers for libucp when it is asked for its version: linked with libuct, from a
// directory that is not libuct's.
extern "C" void uct_release_component_list(void**);
[[gnu::visibility("default")]] void (*linked_with_libuct)(void**) = &uct_release_component_list;

extern "C" [[gnu::visibility("default")]] void ucp_get_version(unsigned* major, unsigned* minor,
                                                               unsigned* release)
{
    *major = 1;
    *minor = 13;
    *release = 1;
}
