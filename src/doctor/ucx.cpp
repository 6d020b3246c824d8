// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finding UCX.
#include "doctor/ucx.hpp"

#include "doctor/reader/text.hpp"

namespace gdr::doctor {
namespace {

constexpr const char* kLibucp = "libucp.so.0";

// Where UCX installations of other origins are: of HPC-X, of conda, of Python's wheels.
std::vector<Path> other_places(const Root& root, const Command& command)
{
    std::vector<Path> places;
    for (const char* variable : {"HPCX_UCX_DIR", "CONDA_PREFIX", "UCX_HOME"}) {
        if (const std::string prefix = command.variable(variable); !prefix.empty()) {
            places.push_back(Path(prefix) / "lib");
        }
    }
    for (const std::string& directory : split(command.variable("LD_LIBRARY_PATH"), ':')) {
        places.emplace_back(directory);
    }
    if (const std::string prefix = command.variable("VIRTUAL_ENV"); !prefix.empty()) {
        const Path lib = Path(prefix) / "lib";
        for (const std::string& python : root.list(lib)) {
            places.push_back(lib / python / "site-packages/libucx/lib");
        }
    }
    return places;
}

} // namespace

Ucx find_ucx(const Root& root, const Command& command, const Loader& loader, const Mpi& mpi)
{
    Ucx ucx;
    std::vector<Path> users{command.program};
    if (!command.name.empty()) {
        users.push_back(mpi.library);
        users.push_back(mpi.component_for_ucx);
    }
    for (const Path& user : users) {
        if (ucx.libucp.empty() && !user.empty()) {
            const auto brought = loader.brought_by(user);
            const auto found = brought.find(kLibucp);
            ucx.libucp = found == brought.end() ? Path() : found->second;
        }
    }
    if (ucx.libucp.empty()) {
        ucx.libucp = loader.find(kLibucp);
    }
    if (!ucx.libucp.empty()) {
        const Path directory = root.resolved(ucx.libucp).parent_path();
        ucx.libucs = directory / "libucs.so.0";
        ucx.has_cuda = !root.list(directory / "ucx", "libuct_cuda.so").empty();
    }
    for (const Path& place : other_places(root, command)) {
        const Path file = place / kLibucp;
        if (root.exists(file) && root.resolved(file) != root.resolved(ucx.libucp)) {
            ucx.others.push_back(file);
        }
    }
    return ucx;
}

} // namespace gdr::doctor
