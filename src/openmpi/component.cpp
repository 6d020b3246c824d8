// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mca_accelerator_gdr.so: an Open MPI that was built without CUDA opens it as one of its
// components, and finds it by the name of this structure. It is not called "cuda": then Open MPI
// would tell programs that all calls take GPU memory, which its reductions do not.
#include "cuda/driver.hpp"
#include "openmpi/accelerator.hpp"
#include "openmpi/library.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <unistd.h>

namespace {

using namespace gdr::openmpi;

// Only one process of a job warns on each host.
bool warns()
{
    const char* const rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    return rank == nullptr || std::string_view(rank) == "0";
}

// A component that returns nullptr is left out: the library then uses its "null" component, as
// without us. If two components returned a module, MPI_Init would fail.
void* initialise()
{
    const void* const library = __builtin_return_address(0);
    try {
        if (gdr::cuda::open_driver() == nullptr || has_own_accelerator(library)) {
            return nullptr;
        }
        if (const std::string why = refusal(library); !why.empty()) {
            if (warns()) {
                std::fprintf(stderr,
                             "gdr: pid %d: mca_accelerator_gdr.so is not used: the library that "
                             "opened it %s. MPI calls on "
                             "GPU memory are left to libgdr_mpi.so.0; to be rid of this line, set "
                             "OMPI_MCA_accelerator=null\n",
                             getpid(), why.c_str());
            }
            return nullptr;
        }
        if (const Module6* const null = null_module_6(library)) {
            return &module_6(*null);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gdr: pid %d: mca_accelerator_gdr.so is not used: %s\n", getpid(),
                     error.what());
        return nullptr;
    }
    return &module();
}

void finalise(void*) {}

} // namespace

extern "C" __attribute__((visibility("default"))) Component mca_accelerator_gdr_component;
Component mca_accelerator_gdr_component = {
    .base_version =
        {
            .mca_major_version = 2,
            .mca_minor_version = 1,
            .mca_release_version = 0,
            .mca_project_name = "opal",
            .mca_project_major_version = kMajor,
            .mca_project_minor_version = kMinor,
            .mca_project_release_version = 0,
            .mca_type_name = "accelerator",
            .mca_type_major_version = 1,
            .mca_type_minor_version = 0,
            .mca_type_release_version = 0,
            .mca_component_name = "gdr",
            .mca_component_major_version = kMajor,
            .mca_component_minor_version = kMinor,
            .mca_component_release_version = 0,
            .mca_open_component = nullptr,
            .mca_close_component = nullptr,
            .mca_query_component = nullptr,
            .mca_register_component_params = nullptr,
            .mca_component_flags = 0,
            .reserved = {},
        },
    .base_data = {},
    .accelerator_init = initialise,
    .accelerator_finalize = finalise,
};
