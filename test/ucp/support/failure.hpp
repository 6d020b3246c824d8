// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How a test program ends a case: Failure is thrown by whatever finds something wrong, and never
// crosses a UCX callback.
#pragma once

#include <stdexcept>
#include <string>

#include <ucs/type/status.h>

namespace ucptest {

class Failure : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

void require(bool condition, const std::string& what);

// Throws a Failure naming the call and UCX's text for the status.
void require_ok(ucs_status_t status, const std::string& call);

} // namespace ucptest
