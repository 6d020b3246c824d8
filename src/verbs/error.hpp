// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A verbs call that failed: which one, on what, and errno.
#pragma once

#include <stdexcept>
#include <string>

namespace gdr::verbs {

// Thrown where an object cannot be constructed. what() is a whole sentence part:
// "ibv_create_cq(4096) on mlx5_0 failed: Cannot allocate memory".
class Error : public std::runtime_error {
  public:
    // remedy: what follows the cause, such as " (...)".
    Error(const std::string& what, int error_number, const char* remedy = "");

    int error_number() const { return error_number_; }

  private:
    int error_number_;
};

// strerror, thread-safe; it knows the kernel's ENOTSUPP, too.
std::string errno_text(int error_number);

// ENOTSUPP, which is for the kernel's own use and comes from drivers all the same.
inline constexpr int kKernelNotSupported = 524;

// What a work completion's status means to a user, and what usually causes it.
const char* completion_cause(int wc_status);

} // namespace gdr::verbs
