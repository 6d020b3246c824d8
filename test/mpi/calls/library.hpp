// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI library that makes the calls, whatever mpi.h the program was compiled with.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <mpi.h>

namespace calls {

// Whether the MPI library, not the layer before it, has that function.
inline bool in_library(const char* function)
{
    static void* const library = [] {
        Dl_info found;
        dladdr(dlsym(RTLD_DEFAULT, "MPI_Get_version"), &found); // the layer has none
        return dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }();
    return dlsym(library, function) != nullptr;
}

// Major and minor version, of a library that introduces itself so; 0, 0 of any other.
using Series = std::pair<int, int>;

inline Series series_of(const char* introduction)
{
    char said[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(said, &length);
    Series series;
    const std::string format = std::string(introduction) + "%d.%d";
    const bool is_it = std::sscanf(said, format.c_str(), &series.first, &series.second) == 2;
    return is_it ? series : Series{};
}

inline Series mpich()
{
    static const Series series = series_of("MPICH Version: ");
    return series;
}
inline Series open_mpi()
{
    static const Series series = series_of("Open MPI v");
    return series;
}

} // namespace calls
