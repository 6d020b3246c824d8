// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether any HCA can be used. UCX opens the HCAs one after another and drops those without a
// usable port. When all are dropped it only says that there is no transport; this class says why.
#pragma once

#include "topology/assignment.hpp"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gdr::rc {

class HcaSearch {
  public:
    // UCX is told about these HCAs.
    void begin(const std::vector<std::string>& names);
    // An HCA has been opened. unusable: why some of its ports cannot be used; empty also if that
    // was logged before.
    void record(const std::string& name, const std::vector<topology::Port>& usable,
                const std::string& unusable);

  private:
    std::mutex mutex_;
    size_t expected_ = 0;
    std::vector<topology::Port> usable_;
    bool logged_ = false;                        // by this process
    std::map<std::string, std::string> reasons_; // by HCA
};

HcaSearch& hca_search();

} // namespace gdr::rc
