// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/failure.hpp"

#include "log/log.hpp"

#include <string_view>

namespace gdr::mpi {

namespace {

int call_handler(const Library& library, const Call& call, const Word* words)
{
    const int code = library.abi->error_other;
    if (std::string_view(call.name).starts_with("File_")) {
        if (library.File_call_errhandler != nullptr) {
            library.File_call_errhandler(words[0], code);
        }
    } else if (call.window >= 0) {
        library.Win_call_errhandler(library.abi->handle(words[call.window]), code);
    } else {
        library.Comm_call_errhandler(
            call.comm >= 0 ? library.abi->handle(words[call.comm]) : library.comm_world, code);
    }
    return code;
}

} // namespace

int fail(const Library& library, const Call& call, const Word* words, const std::exception& error)
{
    gdr_log(error, "MPI_%s fails: a buffer on a GPU could not be copied: %s", call.name,
            error.what());
    return call_handler(library, call, words);
}

int refuse(const Library& library, const Call& call, const Word* words, const char* why)
{
    gdr_log(error, "MPI_%s fails: %s", call.name, why);
    return call_handler(library, call, words);
}

} // namespace gdr::mpi
