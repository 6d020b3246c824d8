// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of the MPI and its settings.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

namespace gdr::doctor {
namespace {

constexpr const char* kSystemsPath = "SYSTEM_DEFAULT";
constexpr const char* kUsersPath = "USER_DEFAULT";

} // namespace

Result mpi_layer(const Machine& machine)
{
    if (machine.mpi.kind != MpiKind::open_mpi) {
        return skipped("the MPI is not Open MPI");
    }
    const Mpi::Parameter* pml = machine.mpi.parameter("pml");
    // "ucx-gdr run" sets it in the environment, which counts more than files, if it is not set
    // there.
    if (machine.command.by_ucx_gdr && (pml == nullptr || pml->from_file)) {
        return pass("ucx-gdr run has Open MPI use UCX");
    }
    if (pml == nullptr) {
        return fail("nothing tells Open MPI to use UCX, and by itself it does so only with "
                    "transports that it knows",
                    "ucx-gdr setup --user")
            .with_detail("ucx-gdr run does so for one program")
            .as(Consequence::none);
    }
    if (lists(pml->value, "ucx")) {
        return pass("Open MPI uses UCX: pml = " + pml->value + " (" + pml->origin + ")")
            .seen_in(pml->origin, pml->value);
    }
    const bool is_of_environment = pml->origin.starts_with("OMPI_MCA_");
    std::string fix = "ucx-gdr setup --user";
    if (!pml->from_file) {
        fix = is_of_environment ? "unset OMPI_MCA_pml" : "mpirun --mca pml ucx ...";
    }
    const std::string says =
        pml->from_file ? pml->origin + " says pml = " + pml->value : pml->origin;
    Result result =
        fail("Open MPI will not use UCX: " + says, fix).seen_in(pml->origin, pml->value);
    if (pml->from_file) {
        result.detail = "or start programs by: mpirun ucx-gdr run ...";
        if (pml->origin.find("/.openmpi/") != std::string::npos) {
            result.fix = "sed -i '/^ *pml *=/d' " + pml->origin + " && ucx-gdr setup --user";
        }
    }
    return result;
}

Result mpi_with_ucx(const Machine& machine)
{
    const Mpi& mpi = machine.mpi;
    if (mpi.kind == MpiKind::none) {
        return skipped("no MPI is used: there is no mpirun in PATH, or COMMAND has none");
    }
    if (mpi.kind == MpiKind::intel) {
        if (machine.command.variable("FI_PROVIDER") == "mlx") {
            return pass("Intel MPI uses UCX (FI_PROVIDER=mlx)");
        }
        return fail("Intel MPI uses UCX by FI_PROVIDER=mlx alone", "export FI_PROVIDER=mlx")
            .with_detail("gdr was not seen to work with Intel MPI: take Open MPI or MPICH");
    }
    if (mpi.library.empty()) {
        return unknown("the library of " + std::string(name_of(mpi.kind)) + " (" +
                       mpi.launcher.native() + ") is not found");
    }
    if (mpi.uses_ucx) {
        return pass(std::string(name_of(mpi.kind)) + " was built with UCX")
            .seen_in(mpi.library, "");
    }
    const std::string other =
        mpi.other_layer.empty() ? "no library of UCX" : mpi.other_layer + " instead";
    return fail(mpi.library.native() + " does not use UCX: it brings " + other, "")
        .with_detail(mpi.kind == MpiKind::open_mpi
                         ? "take an Open MPI that was built --with-ucx"
                         : "take an MPICH that was built --with-device=ch4:ucx")
        .seen_in(mpi.library, mpi.other_layer);
}

Result mpi_component_path(const Machine& machine)
{
    const Mpi::Parameter* path = machine.mpi.parameter("mca_base_component_path");
    if (path == nullptr) {
        return skipped("Open MPI's mca_base_component_path is not set");
    }
    bool has_systems = false;
    for (const std::string& directory : split(path->value, ':')) {
        if (directory == kUsersPath) {
            continue;
        }
        if (directory == kSystemsPath || machine.root.exists(Path(directory) / "mca_pml_ucx.so")) {
            has_systems = true;
        } else if (!machine.root.exists(directory)) {
            return fail("Open MPI looks for components no further than " + directory +
                            ", which does not exist (" + path->origin + ")",
                        "unset OMPI_MCA_mca_base_component_path")
                .seen_in(path->origin, path->value);
        }
    }
    if (has_systems) {
        return pass("Open MPI finds its own components").seen_in(path->origin, path->value);
    }
    return fail("Open MPI does not find its own components: " + path->origin +
                    " lacks SYSTEM_DEFAULT",
                "unset OMPI_MCA_mca_base_component_path")
        .as(Consequence::no_gpudirect)
        .seen_in(path->origin, path->value);
}

} // namespace gdr::doctor
