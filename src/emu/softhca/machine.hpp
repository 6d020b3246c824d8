// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The HCAs of a dump of "ucx-gdr doctor" (GDR_MACHINE).
#pragma once

#include <string>
#include <vector>

namespace softhca {

struct HcaOfMachine {
    std::string name;    // "mlx5_0"
    std::string profile; // a list, see profile.hpp
};

std::vector<HcaOfMachine> hcas_of_machine(const std::string& dump);

} // namespace softhca
