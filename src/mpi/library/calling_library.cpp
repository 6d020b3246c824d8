// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/library/calling_library.hpp"

#include <algorithm>
#include <iterator>

#include <dlfcn.h>
#include <execinfo.h>

namespace gdr::mpi {

namespace {

// Itself, not by what it is linked with.
bool holds_mpi(const Dl_info& object)
{
    void* const handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr)
        return false;
    void* const function = dlsym(handle, "PMPI_Send");
    dlclose(handle);
    Dl_info holder;
    return function != nullptr && dladdr(function, &holder) != 0 &&
           holder.dli_fbase == object.dli_fbase;
}

} // namespace

bool is_in_mpi_library()
{
    void* frames[128];
    const int count = backtrace(frames, std::size(frames));
    const void* last = nullptr;
    return std::any_of(frames, frames + count, [&](void* frame) {
        Dl_info object;
        if (dladdr(frame, &object) == 0 || object.dli_fbase == last)
            return false;
        last = object.dli_fbase;
        return holds_mpi(object);
    });
}

} // namespace gdr::mpi
