// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/library/puts.hpp"

#include "mpi/library/transport.hpp"

#include <cstdlib>
#include <string_view>

namespace gdr::mpi {

namespace {

// MPI_WIN_FLAVOR_..., or 0.
int flavor_of(const Library& library, Word window)
{
    const int* flavor = nullptr;
    int found = 0;
    library.Win_get_attr(window, library.abi->flavors.keyval, &flavor, &found);
    return found != 0 ? *flavor : 0;
}

// Whether Open MPI has been told that UCX carries all windows: it prefers shared memory where all
// ranks are on one host.
bool all_windows_are_ucx()
{
    const char* const layers = std::getenv("OMPI_MCA_osc");
    return layers != nullptr && std::string_view(layers) == "ucx";
}

bool is_own_rank(const Library& library, Word window, int target)
{
    Word group = 0;
    int rank = -1;
    library.Win_get_group(window, &group);
    library.Group_rank(group, &rank);
    library.Group_free(&group);
    return rank == target;
}

// What is at the target: "target disp count datatype" follow each other.
bool is_plain_at_target(const Arguments& arguments)
{
    const Call& call = arguments.call();
    const Word type = arguments.handle(call.target + 3);
    const int64_t count = call.large ? static_cast<int64_t>(arguments.words()[call.target + 2])
                                     : arguments.integer(call.target + 2);
    if (type == arguments.library().datatype_null || count < 0) // MPI complains
        return false;
    Footprint footprint;
    footprint.add(arguments.library(), type, count, 0);
    return footprint.plain();
}

} // namespace

bool hands_put_to_ucx(const Arguments& arguments)
{
    const Library& library = arguments.library();
    const Word window = arguments.handle(arguments.call().window);
    if (!hands_to_ucx(library) || window == library.win_null)
        return false;
    const int flavor = flavor_of(library, window);
    const Flavors& flavors = library.abi->flavors;
    if (library.pml != nullptr) { // Open MPI
        static const bool allocated = all_windows_are_ucx();
        return flavor == flavors.create || flavor == flavors.dynamic ||
               (flavor == flavors.allocate && allocated);
    }
    return (flavor == flavors.create || flavor == flavors.allocate) &&
           !is_own_rank(library, window, arguments.integer(arguments.call().target)) &&
           is_plain_at_target(arguments);
}

} // namespace gdr::mpi
