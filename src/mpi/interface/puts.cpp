// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/puts.hpp"

#include "mpi/interface/transport.hpp"

#include <atomic>
#include <string_view>

namespace gdr::mpi {

namespace {

std::atomic<bool (*)()> processor_may_put{[] { return true; }};

// MPI_WIN_FLAVOR_..., or 0.
int flavor_of(const Library& library, Word window)
{
    const int* flavor = nullptr;
    int found = 0;
    library.Win_get_attr(window, library.abi->flavors.keyval, &flavor, &found);
    return found != 0 ? *flavor : 0;
}

// The osc components that the environment or a file allows; Open MPI chooses one of them for each
// window. Empty: all that it has, or unknown. MPI_T would tell it, too, but opens all components
// for that.
std::string_view window_layers(const Library& library)
{
    if (library.mca_base_var_find == nullptr || library.mca_base_var_get_value == nullptr) {
        return {};
    }
    const char* const* layers = nullptr;
    const int variable = library.mca_base_var_find("ompi", "osc", nullptr, nullptr);
    if (variable < 0 || library.mca_base_var_get_value(variable, &layers, nullptr, nullptr) != 0 ||
        layers == nullptr || *layers == nullptr) {
        return {};
    }
    return *layers;
}

// Besides UCX's, Open MPI has a component for shared memory, which it prefers if all ranks are on
// one host; that one takes only allocated windows. Open MPI does not tell which of further
// components carries what.
bool open_mpi_hands_to_ucx(const Library& library, int flavor)
{
    const Flavors& flavors = library.abi->flavors;
    static const std::string_view layers = window_layers(library);
    static const bool all = layers == "ucx";
    static const bool others = all || layers == "ucx,sm" || layers == "sm,ucx";
    return flavor == flavors.allocate
               ? all
               : others && (flavor == flavors.create || flavor == flavors.dynamic);
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

// The data at the target: the arguments "target disp count datatype" follow each other.
bool is_plain_at_target(const Arguments& arguments)
{
    const Call& call = arguments.call();
    const Word type = arguments.handle(call.target + 3);
    const int64_t count = call.large ? static_cast<int64_t>(arguments.words()[call.target + 2])
                                     : arguments.integer(call.target + 2);
    if (type == arguments.library().datatype_null || count < 0) { // MPI will report the error
        return false;
    }
    Footprint footprint;
    footprint.add(arguments.library(), type, count, 0);
    return footprint.plain();
}

} // namespace

void set_processor_may_put(bool (*may)())
{
    processor_may_put.store(may);
}

bool hands_put_to_ucx(const Arguments& arguments)
{
    const Library& library = arguments.library();
    const Word window = arguments.handle(arguments.call().window);
    if (!hands_to_ucx(library) || window == library.win_null || processor_may_put.load()()) {
        return false;
    }
    const int flavor = flavor_of(library, window);
    if (library.pml != nullptr) { // Open MPI
        return open_mpi_hands_to_ucx(library, flavor);
    }
    const Flavors& flavors = library.abi->flavors;
    return (flavor == flavors.create || flavor == flavors.allocate) &&
           !is_own_rank(library, window, arguments.integer(arguments.call().target)) &&
           is_plain_at_target(arguments);
}

} // namespace gdr::mpi
