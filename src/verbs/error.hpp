// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A failed verbs call: which call, on what, and errno.
#pragma once

#include <stdexcept>
#include <string>

namespace gdr::verbs {

// Thrown if an object cannot be constructed. what() reads "ibv_create_cq(4096) on mlx5_0 failed:
// Cannot allocate memory".
class Error : public std::runtime_error {
  public:
    // remedy follows the cause, for example " (...)".
    Error(const std::string& what, int error_number, const char* remedy = "");

    int error_number() const { return error_number_; }

  private:
    int error_number_;
};

// A thread-safe strerror that also knows the kernel's ENOTSUPP.
std::string errno_text(int error_number);

// ENOTSUPP is meant for the kernel's own use, but some drivers return it to user space.
inline constexpr int kKernelNotSupported = 524;

// What a work completion's status means to a user, and its usual cause.
const char* completion_cause(int wc_status);

} // namespace gdr::verbs
