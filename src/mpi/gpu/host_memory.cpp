// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/host_memory.hpp"

#include "mem/host_pages.hpp"
#include "mem/process_memory.hpp"

namespace gdr::mpi {

int is_host_memory(Word buffer)
{
    constexpr Word kConstants = 4096; // no ABI has memory at MPI_IN_PLACE and the other constants
    return static_cast<int>(mem::in_process_memory(buffer) || mem::host_pages::contains(buffer) ||
                            (buffer != 0 && buffer + kConstants < 2 * kConstants));
}

bool may_lead_to_gpu(KnownDeviceMemory& memory, const void* buffer)
{
    bool of_cuda = false;
    return memory.find(buffer, &of_cuda) != nullptr ||
           (!of_cuda && is_host_memory(reinterpret_cast<Word>(buffer)) == 0);
}

} // namespace gdr::mpi
