// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which transports UCX chooses from.
//
//     UCX's own --apply()--> UCX_GDR_TLS is the default of UCX_TLS
//
// A UCX with CUDA needs gdr beside its own transports, and programs may ask it for those. Without
// an HCA gdr is no way to other hosts: UCX's own transports are needed then. So UCX's own default
// stays in both cases.
#pragma once

#include "host/change.hpp"

namespace gdr::host {

class Transports final : public Change {
  public:
    // Whether there is another default to set.
    bool has_other_default() const;

    // Logs a warning if UCX has refused it.
    void report() const;

    // A context with variables of its own is being made: warns if that asks for gdr and UCX was
    // prepared for an environment that leaves gdr out.
    void context_begins() const;

  private:
    bool make() override;
};

Transports& transports();

} // namespace gdr::host
