// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the checks look at, found once.
#pragma once

#include "doctor/loader.hpp"
#include "doctor/mpi.hpp"
#include "doctor/reader/gpus.hpp"
#include "doctor/reader/hcas.hpp"
#include "doctor/settings.hpp"
#include "doctor/ucx.hpp"

#include <string>
#include <vector>

namespace gdr::doctor {

struct Machine {
    explicit Machine(const Root& root);

    const Root& root;
    const Command command;
    const Loader loader;
    const std::vector<Hca> hcas;
    const std::vector<Gpu> gpus;
    const GpuDriver driver;
    const Mpi mpi;
    const Ucx ucx;
    const Settings settings;
    const bool in_container;
    const Path libcuda; // empty: not found

    bool has_emulated_hcas() const; // a library of theirs is preloaded
    bool has_emulated_gpus() const; // libcuda is softcuda's
};

} // namespace gdr::doctor
