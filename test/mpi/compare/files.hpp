// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A file of which each rank has every so-manieth integer.
#pragma once

#include <cstdlib>
#include <string>

#include "trial.hpp"

namespace compare {

inline void strided_file(Trial& trial)
{
    constexpr size_t kBytes = 24000;
    const char* const directory = std::getenv("TMPDIR");
    const std::string path =
        std::string(directory == nullptr ? "/tmp" : directory) + "/compare.data";
    const Type view = resized(vector(1000, 1, ranks), 0, static_cast<MPI_Aint>(4000) * ranks);
    const Type type = vector(1000, 1, 2);
    MPI_File file;
    trial.tell(
        MPI_File_open(world, path.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_File_set_view(file, static_cast<MPI_Offset>(sizeof(int)) * rank, MPI_INT, view, "native",
                      MPI_INFO_NULL);
    MPI_Status status;
    trial.tell(MPI_File_write_all(file, trial.buffer(kBytes), 2, type, &status));
    trial.tell_elements(status, type);
    MPI_File_sync(file);
    MPI_Barrier(world);
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    trial.tell(MPI_File_read_all(file, trial.buffer(kBytes), 2, type, &status));
    trial.tell_elements(status, type);
    MPI_Request request;
    trial.tell(MPI_File_iread_at(file, 500, trial.buffer(kBytes), 1000, MPI_INT, &request));
    MPI_Wait(&request, &status);
    trial.tell_elements(status, MPI_INT);
    MPI_File_close(&file);
    MPI_Barrier(world);
    if (rank == 0) {
        MPI_File_delete(path.c_str(), MPI_INFO_NULL);
    }
    MPI_Barrier(world);
}

inline const Cases kFiles = {{"strided_file", 1, strided_file}};

} // namespace compare
