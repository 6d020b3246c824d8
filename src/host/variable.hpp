// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A change that is a value for one of UCX's variables, which the user's own value goes before.
#pragma once

#include "host/change.hpp"

namespace gdr::host {

class Variable : public Change {
  public:
    const char* name() const { return name_; } // without UCX_
    const char* value() const { return value_; }
    const char* reason() const { return reason_; }

    // Whether the user has left it open, in the environment and in each ucx.conf.
    bool is_open() const;

    // Logs an INFO line with the variable and the reason, or a warning if UCX has refused the
    // value; nothing if it was not applied.
    void report() const;

  protected:
    constexpr Variable(const char* name, const char* value, const char* reason)
        : name_(name), value_(value), reason_(reason)
    {
    }
    ~Variable() = default;

  private:
    const char* const name_;
    const char* const value_;
    const char* const reason_;
};

} // namespace gdr::host
