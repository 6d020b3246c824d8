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
          "Append one line of counters to this file when the process exits: the bytes and "
          "operations that\n"
          "went by GPUDirect RDMA, were staged through host memory, or came from or went to host "
          "memory,\n"
          "and the registrations. An interface counts when it has been closed. \"-\" is standard "
          "error, empty\n"
          "none. Processes that do not use UCX write nothing.",
          offsetof(Options, statistics_path), abi::OptionType::string},
         {"CPU_FAULTS", "y",
          "Say what happened when the program dies because its CPU touched GPU memory, as MPI\n"
          "libraries built without CUDA do in some calls. n: leave SIGSEGV and SIGBUS alone.",
          offsetof(Options, explain_cpu_faults), abi::OptionType::boolean},
         {"PROBE", "n",
          "Initialise CUDA when UCX starts, and try at once whether the HCAs take the memory of "
          "each\n"
          "GPU, as \"ucx-gdr info\" does. n: gdr does nothing with a GPU before the program has\n"
          "initialised CUDA, and tries the HCAs with the program's first buffer of that GPU.",
          offsetof(Options, probe), abi::OptionType::boolean},
         {"RECENT", "y",
          "Take what the CUDA driver has said of a buffer for true for 500 cycles of the "
          "processor,\n"
          "unless cuMemFree, cuMemUnmap or the end of a context frees memory meanwhile. n: ask it\n"
          "each time.",
          offsetof(Options, recent), abi::OptionType::boolean},
         {"ABI", "auto",
          "The series of UCX's plugin interface to use. \"auto\": that of the UCX in the process, "
          "if\n"
          "gdr knows it. \"force:1.22\" takes that of UCX 1.22 without any check, which may crash: "
          "a\n"
          "last resort for a UCX that gdr refuses. Read from the environment alone.",
          offsetof(Options, abi), abi::OptionType::string},
         {"TLS", "",
          "What UCX_TLS is where it is not set, in a UCX that was built without CUDA. A UCX with "
          "CUDA\n"
          "keeps its own choice, in which gdr is one of its transports. \"ucx-gdr run\" and the\n"
          "module file set gdr,sm,self.",
          offsetof(Options, transports), abi::OptionType::string},
         {"MPI_COLL", "stage",
          "How MPI's collective calls on GPU memory are made. stage: by the MPI library, on host\n"
          "memory. gpu: from 256 KiB on the GPUs make MPI_Allreduce, MPI_Reduce, "
          "MPI_Reduce_scatter,\n"
          "MPI_Reduce_scatter_block, MPI_Allgather and MPI_Alltoall, if all ranks have their "
          "buffers\n"
          "there. nccl: from 16 MiB on NCCL makes these and MPI_Bcast (libnccl.so.2, 2.14 or "
          "later),\n"
          "if all ranks have it, and a GPU each; from 64 KiB on with NCCL_COMM_BLOCKING=1. The "
          "rest "
          "is\n"
          "as with gpu. Has to be the same for all processes of a program.",
          offsetof(Options, mpi_collectives), abi::OptionType::choice, mpi::kCollectivesNames}},
        sizeof(Options)};
    return table;
}

} // namespace gdr::plugin
