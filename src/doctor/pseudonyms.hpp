// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Names of hosts, users and addresses, replaced by others: the same by the same.
#pragma once

#include "doctor/reader/facts.hpp"

#include <functional>
#include <map>
#include <string>

namespace gdr::doctor {

class Pseudonyms {
  public:
    explicit Pseudonyms(const Facts& facts);

    std::string replaced(std::string text) const;
    // A line of a GID: zeros, the prefix of link-local addresses and that of IPv4 addresses stay.
    std::string replaced_gid(const std::string& gid);

  private:
    // A host's full name before its short one, which it begins with.
    std::map<std::string, std::string, std::greater<>> words_;
    std::map<std::string, unsigned> addresses_;
};

} // namespace gdr::doctor
