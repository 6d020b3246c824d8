// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Why the library refuses a call. It is thrown inside and becomes a status and a log line in
// api.cpp.
#pragma once

#include <stdexcept>
#include <string>

#include <ucs/type/status.h>

namespace gdr::sync {

class Refusal : public std::runtime_error {
  public:
    Refusal(ucs_status_t status, const std::string& cause)
        : std::runtime_error(cause), status_(status)
    {
    }
    ucs_status_t status() const { return status_; }

  private:
    ucs_status_t status_;
};

} // namespace gdr::sync
