// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX_GDR_*: options of the process, independent of devices.
#pragma once

#include "abi/options.hpp"
#include "mpi/serve.hpp"

namespace gdr::plugin {

struct Options {
    char* statistics_path;
    int explain_cpu_faults; // boolean
    int probe;              // boolean
    int recent;             // boolean
    char* abi;              // read by abi::choose_series(), listed here
    char* transports;       // read by host::Transports, listed here
    mpi::Collectives mpi_collectives;
};

const abi::OptionTable& option_table();

} // namespace gdr::plugin
