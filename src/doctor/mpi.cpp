// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finding the MPI.
#include "doctor/mpi.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>

namespace gdr::doctor {
namespace {

constexpr const char* kOpenMpiLibrary = "libmpi.so.40";
constexpr const char* kMpichLibraries[] = {"libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.1"};

bool has(const std::string& text, const char* part)
{
    return text.find(part) != std::string::npos;
}

// By the names of what it leads to and of what is beside it: it is not run.
MpiKind kind_of_launcher(const Root& root, const Path& launcher)
{
    const Path file = root.resolved(launcher);
    const std::string name = file.filename();
    const Path directory = file.parent_path();
    if (has(file, "/impi/") || has(file, "/intel") || root.exists(directory / "impi_info")) {
        return MpiKind::intel;
    }
    if (has(name, "orte") || has(name, "prte") || has(name, "openmpi")) {
        return MpiKind::open_mpi;
    }
    if (has(name, "hydra") || has(name, "mpich")) {
        return MpiKind::mpich;
    }
    if (root.exists(directory / "ompi_info")) {
        return MpiKind::open_mpi;
    }
    return root.exists(directory / "mpichversion") ? MpiKind::mpich : MpiKind::unknown;
}

MpiKind kind_of_library(const Root& root, const std::string& name, const Path& library)
{
    if (name == kOpenMpiLibrary) {
        return MpiKind::open_mpi;
    }
    const std::string file = root.resolved(library);
    return has(file, "/impi/") || has(file, "/intel") ? MpiKind::intel : MpiKind::mpich;
}

void find_library_of_program(const Root& root, const Command& command, const Loader& loader,
                             Mpi* mpi)
{
    for (const auto& [name, file] : loader.brought_by(command.program)) {
        if (!file.empty() && (name == kOpenMpiLibrary || std::ranges::find(kMpichLibraries, name) !=
                                                             std::end(kMpichLibraries))) {
            mpi->library = file;
            mpi->kind = kind_of_library(root, name, file);
        }
    }
}

void find_library_of_launcher(const Root& root, const Loader& loader, Mpi* mpi)
{
    const Path prefix = root.resolved(mpi->launcher).parent_path().parent_path();
    std::vector<std::string> names(std::begin(kMpichLibraries), std::end(kMpichLibraries));
    if (mpi->kind == MpiKind::open_mpi) {
        names = {kOpenMpiLibrary};
    }
    for (const std::string& name : names) {
        for (const Path& file :
             {prefix / "lib" / name, prefix / "lib64" / name, loader.find(name)}) {
            if (mpi->library.empty() && !file.empty() && root.exists(file)) {
                mpi->library = file;
            }
        }
    }
}

// Open MPI has a component for UCX, in a directory beside its library (Debian's has that one below
// another), or the library has it.
Path component_for_ucx(const Root& root, const Path& library)
{
    const Path directory = root.resolved(library).parent_path();
    for (const Path& place : {directory, directory / "openmpi/lib"}) {
        for (const std::string& name : root.list(place, "openmpi")) {
            Path component = place / name / "mca_pml_ucx.so";
            if (root.exists(component)) {
                return component;
            }
        }
    }
    return {};
}

void find_layer(const Root& root, const Loader& loader, Mpi* mpi)
{
    if (mpi->kind == MpiKind::open_mpi) {
        mpi->component_for_ucx = component_for_ucx(root, mpi->library);
    }
    const auto brought = loader.brought_by(mpi->library);
    mpi->uses_ucx = brought.contains("libucp.so.0") || !mpi->component_for_ucx.empty();
    for (const auto& [name, file] : brought) {
        if (name.starts_with("libfabric.so")) {
            mpi->other_layer = name;
        }
    }
}

void read_parameters(const Root& root, const Path& file, Mpi* mpi)
{
    for (const std::string& line : lines(root.read(file).text)) {
        std::string name;
        std::string value;
        if (parse_assignment(line, &name, &value)) {
            mpi->parameters.insert({name, {value, file, true}});
        }
    }
}

// The strongest origin first: of two values the first stays.
void find_parameters(const Root& root, const Command& command, Mpi* mpi)
{
    constexpr std::string_view kPrefix = "OMPI_MCA_";
    for (const auto& [name, value] : command.mca) {
        mpi->parameters.insert({name, {value, "--mca " + name + " " + value, false}});
    }
    for (const auto& [name, value] : command.environment) {
        if (name.starts_with(kPrefix)) {
            mpi->parameters.insert(
                {name.substr(kPrefix.size()), {value, name + "=" + value, false}});
        }
    }
    if (const std::string home = command.variable("HOME"); !home.empty()) {
        read_parameters(root, Path(home) / ".openmpi/mca-params.conf", mpi);
    }
    const Path prefix = root.resolved(mpi->launcher).parent_path().parent_path();
    constexpr const char* kFile = "openmpi-mca-params.conf";
    read_parameters(root, prefix / "etc" / kFile, mpi);
    if (prefix == "/usr" || prefix.native().starts_with("/usr/lib")) {
        for (const std::string& name : root.list("/etc", "openmpi")) {
            read_parameters(root, Path("/etc") / name / kFile, mpi);
        }
    }
}

} // namespace

const Mpi::Parameter* Mpi::parameter(const std::string& name) const
{
    const auto found = parameters.find(name);
    return found == parameters.end() ? nullptr : &found->second;
}

Mpi find_mpi(const Root& root, const Command& command, const Loader& loader)
{
    Mpi mpi;
    mpi.launcher = command.launcher.filename() == "srun" || command.launcher.filename() == "flux"
                       ? Path()
                       : command.launcher;
    if (mpi.launcher.empty()) {
        mpi.launcher = find_program(root, "mpirun", command.variable("PATH"));
    }
    if (!mpi.launcher.empty()) {
        mpi.kind = kind_of_launcher(root, mpi.launcher);
    }
    if (!command.program.empty()) {
        find_library_of_program(root, command, loader, &mpi);
    }
    // A program that brings no MPI, and that none starts, uses none. A script may.
    if (mpi.library.empty() && command.elf && command.launcher.empty()) {
        return {};
    }
    if (mpi.library.empty() && !mpi.launcher.empty()) {
        find_library_of_launcher(root, loader, &mpi);
    }
    if (!mpi.library.empty()) {
        find_layer(root, loader, &mpi);
    }
    if (mpi.kind == MpiKind::open_mpi) {
        find_parameters(root, command, &mpi);
    }
    return mpi;
}

const char* name_of(MpiKind kind)
{
    switch (kind) {
    case MpiKind::none:
        return "none";
    case MpiKind::open_mpi:
        return "Open MPI";
    case MpiKind::mpich:
        return "MPICH";
    case MpiKind::intel:
        return "Intel MPI";
    case MpiKind::unknown:
        return "an unknown MPI";
    }
    return "";
}

} // namespace gdr::doctor
