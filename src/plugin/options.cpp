// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Names, defaults and help texts of UCX_GDR_*.
#include "plugin/options.hpp"

#include <cstddef>

namespace gdr::plugin {

const abi::OptionTable& option_table()
{
    static const abi::OptionTable table{
        "gdr plugin",
        "GDR_",
        {{"STATS", "",
          "Appends one line to this file when the process exits: the bytes that went by GPUDirect\n"
          "RDMA, staged through host memory, and to and from host memory, the operations, and the\n"
          "memory registrations, of all interfaces that have been closed. \"-\" is standard\n"
          "error, empty none. Processes that do not use UCX write nothing.",
          offsetof(Options, statistics_path), abi::OptionType::string},
         {"CPU_FAULTS", "y",
          "Say what happened when the program dies because its CPU touched GPU memory, as MPI\n"
          "libraries built without CUDA do in some calls. n: leave SIGSEGV and SIGBUS alone.",
          offsetof(Options, explain_cpu_faults), abi::OptionType::boolean},
         {"PROBE", "n",
          "Initialise CUDA when UCX starts, and try at once whether the HCAs take the memory of "
          "each\n"
          "GPU, as \"ucx-gdr info\" does. n: nothing is done with a GPU before the program has\n"
          "initialised CUDA, and its HCAs are tried with the first of its memory.",
          offsetof(Options, probe), abi::OptionType::boolean},
         {"ABI", "auto",
          "The series of UCX's plugin interface to use. \"auto\": that of the UCX in the process, "
          "if\n"
          "it is known. \"force:1.22\", say, takes that of UCX 1.22 without any check, which may\n"
          "crash: a last resort for a UCX that is refused. Read from the environment alone.",
          offsetof(Options, abi), abi::OptionType::string},
         {"TLS", "",
          "What UCX_TLS is where it is not set, in a UCX that was built without CUDA. One that "
          "was\n"
          "built with it keeps its own choice, in which gdr is one of its transports. \"ucx-gdr "
          "run\"\n"
          "sets gdr.",
          offsetof(Options, transports), abi::OptionType::string},
         {"MPI_COLL", "stage",
          "What becomes of MPI's collective calls on GPU memory. stage: the MPI library makes "
          "them\n"
          "on host memory. gpu: from 256 KiB on, the GPUs make MPI_Allreduce, MPI_Reduce,\n"
          "MPI_Reduce_scatter, MPI_Reduce_scatter_block, MPI_Allgather and MPI_Alltoall, if all\n"
          "ranks have their buffers there. nccl: from 64 KiB on NCCL does (libnccl.so.2, 2.14 or\n"
          "later), and long MPI_Bcast, what it has, where all ranks have it, each with a GPU of "
          "its\n"
          "own; the rest is as with gpu. Has to be the same for all processes of a program.",
          offsetof(Options, mpi_collectives), abi::OptionType::choice, mpi::kCollectivesNames}},
        sizeof(Options)};
    return table;
}

} // namespace gdr::plugin
