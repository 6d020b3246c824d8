// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/calling_library.hpp"

#include <algorithm>
#include <iterator>

#include <dlfcn.h>
#include <execinfo.h>

namespace gdr::mpi {

namespace {

// Whether the object itself defines it, not a library that it is linked with.
bool defines(void* handle, const char* function, const Dl_info& object)
{
    Dl_info holder;
    void* const found = dlsym(handle, function);
    return found != nullptr && dladdr(found, &holder) != 0 && holder.dli_fbase == object.dli_fbase;
}

// libgdr_mpi.so.0 defines MPI's calls, too.
bool is_mpi_library(const Dl_info& object)
{
    void* const handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) {
        return false;
    }
    const bool is_one =
        defines(handle, "PMPI_Send", object) && !defines(handle, "gdr_mpi_serve", object);
    dlclose(handle);
    return is_one;
}

} // namespace

bool is_in_mpi_library()
{
    void* frames[128];
    const int count = backtrace(frames, std::size(frames));
    const void* last = nullptr;
    return std::any_of(frames, frames + count, [&](void* frame) {
        Dl_info object;
        if (dladdr(frame, &object) == 0 || object.dli_fbase == last) {
            return false;
        }
        last = object.dli_fbase;
        return is_mpi_library(object);
    });
}

} // namespace gdr::mpi
