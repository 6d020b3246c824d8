// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The cases of a test program: which one is running, what failed, and the last resort against a
// call that never returns.
#pragma once

#include <string>

namespace ucptest {

// What a program that has not tested anything returns, to automake.
inline constexpr int kSkip = 77;

// Says, as rank 0, that there is no GPU to test with. kSkip.
int skip_without_cuda(int rank);

class Report {
  public:
    // who precedes every line that is printed. One a process. From here on an exception that
    // nobody catches is reported as the case's failure and ends the process where it was thrown:
    // unwinding would release buffers that operations in flight still use.
    explicit Report(std::string who);

    // Starts a case. A case that is still running after limit_s seconds ends the process with a
    // message naming it, even when it hangs inside a library.
    void begin(const std::string& name, unsigned limit_s);
    void failed(const std::string& why);
    void end();

    unsigned cases() const { return cases_; }
    unsigned failures() const { return failures_; } // failed cases
    const std::string& current() const { return name_; }

  private:
    std::string who_;
    std::string name_;
    unsigned cases_ = 0;
    unsigned failures_ = 0;
    bool failed_ = false;
};

// Seconds that a wait may take: 30, or UCPTEST_DEADLINE for slow machines and sanitizers.
unsigned deadline_s();

} // namespace ucptest
