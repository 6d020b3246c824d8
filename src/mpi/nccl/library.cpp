// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/nccl/library.hpp"

#include "log/log.hpp"

#include <cstdlib>
#include <string>

#include <dlfcn.h>

namespace gdr::nccl {

namespace {

constexpr const char* kFile = "libnccl.so.2";

std::string text_of(int version)
{
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
}

// Empty on success; else the cause.
std::string open(Library& library)
{
    void* const handle = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return dlerror(); // names the file
    }
    const auto look_up = [handle]<class Function>(const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(handle, name));
        return function != nullptr;
    };
    // The version comes first: an old library lacks functions because it is old.
    if (!look_up("ncclGetVersion", library.GetVersion) ||
        library.GetVersion(&library.version) != Result::success) {
        return std::string(kFile) + " does not tell its version";
    }
    if (library.version < kOldest) {
        return std::string(kFile) + " is older than 2.14" +
               (library.version >= 20900 ? ": " + text_of(library.version) : "");
    }
#define GDR_NCCL_LOOK_UP(name, parameters)                                                         \
    if (!look_up("nccl" #name, library.name))                                                      \
        return std::string(kFile) + " " + text_of(library.version) + " has no nccl" #name;
    GDR_NCCL_FUNCTIONS(GDR_NCCL_LOOK_UP)
    GDR_NCCL_LOOK_UP(GetErrorString, )
    GDR_NCCL_LOOK_UP(GetLastError, )
#undef GDR_NCCL_LOOK_UP
    const char* const blocking = std::getenv("NCCL_COMM_BLOCKING"); // NCCL's own variable
    library.blocks = blocking != nullptr && std::atoi(blocking) == 1;
    return {};
}

} // namespace

void Library::check(Result result, const char* function) const
{
    if (result == Result::success) {
        return;
    }
    const std::string detail = GetLastError(nullptr);
    throw Error(std::string(function) + ": " + GetErrorString(result) +
                (detail.empty() ? "" : " (" + detail + ")"));
}

const Library* library()
{
    static const Library* const loaded = []() -> const Library* {
        static Library library;
        const std::string obstacle = open(library);
        if (obstacle.empty()) {
            gdr_log(info, "collective calls of MPI on GPUs are made by NCCL %s",
                    text_of(library.version).c_str());
            return &library;
        }
        gdr_log(warn,
                "collective calls of MPI on GPUs are not made by NCCL: %s (UCX_GDR_MPI_COLL=nccl "
                "needs NCCL 2.14 or later in the loader's path, LD_LIBRARY_PATH, on all hosts)",
                obstacle.c_str());
        return nullptr;
    }();
    return loaded;
}

} // namespace gdr::nccl
