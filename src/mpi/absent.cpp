// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI layer of a build without it (--disable-mpi).
#include "log/log.hpp"
#include "mpi/interface/calling_library.hpp"
#include "mpi/serve.hpp"

#include <mutex>

namespace gdr::mpi {

void serve(Collectives collectives, const Listener&, bool (*)())
{
    static std::once_flag told;
    if (collectives != Collectives::library) {
        std::call_once(told, [] {
            gdr_log(warn, "UCX_GDR_MPI_COLL has no effect: this ucx-gdr was built without the MPI "
                          "layer (configure --disable-mpi)");
        });
    }
}

// Without the layer nobody else looks at the buffers of MPI calls, so UCP must.
bool is_in_mpi_library()
{
    return false;
}

Way way_of(const char*)
{
    return Way::by_layer; // no layer can be missing
}

} // namespace gdr::mpi
