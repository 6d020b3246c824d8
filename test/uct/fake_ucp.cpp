// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Preloaded, answers for libucp when it is asked for its version, from a directory that is not
// libuct's.
extern "C" [[gnu::visibility("default")]] void ucp_get_version(unsigned* major, unsigned* minor,
                                                               unsigned* release)
{
    *major = 1;
    *minor = 13;
    *release = 1;
}
