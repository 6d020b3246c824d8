// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Replaces a component if UCX_TLS leaves gdr out: a memory domain that does nothing. Without it UCX
// would warn that our variables are unused, and for "^gdr" that there is no such transport.
#pragma once

#include "abi/component.hpp"

namespace gdr::abi {

class LeftOut final : public MemoryDomain {
  public:
    MdAttributes attributes() const override { return {}; }
    ucs_status_t reg(void*, size_t, Registration, uct_mem_h*) override;
    ucs_status_t dereg(uct_mem_h, uct_completion_t*) override;
    ucs_status_t pack_rkey(uct_mem_h, const void*, size_t, void*) override;
};

// Whether the domain is one of these. It has no interfaces.
bool is_left_out(uct_md_h md);

// A device that is never opened, so that the transport exists that the user excludes by name; none
// if the user does not.
std::vector<Device> left_out_devices();

} // namespace gdr::abi
