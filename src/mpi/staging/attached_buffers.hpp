// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI_Buffer_attach with a buffer on a GPU. MPI's CPU copies MPI_Bsend's messages into the buffer,
// so it gets host memory of the same size. The application gets its own buffer back when it
// detaches. Any thread.
#pragma once

#include "cuda/driver.hpp"
#include "mpi/interface/arguments.hpp"

namespace gdr::mpi {

// Make the call and return what MPI returns. attach_buffer() throws cuda::Error and std::bad_alloc
// before MPI is called.
int attach_buffer(const cuda::Driver& driver, const Arguments& arguments,
                  gdr_mpi_function* function);
int detach_buffer(const Call& call, gdr_mpi_function* function, Word* words);

} // namespace gdr::mpi
