// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Owning pointers to verbs objects.
#pragma once

#include <infiniband/verbs.h>
#include <memory>

namespace gdr::verbs {

template <auto Destroy>
struct Destroyer {
    template <typename T>
    void operator()(T* object) const
    {
        Destroy(object);
    }
};

using Context = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using SharedReceiveQueue = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;

struct Deregister {
    void operator()(ibv_mr* mr) const { ibv_dereg_mr(mr); }
};
using MemoryRegion = std::unique_ptr<ibv_mr, Deregister>;

} // namespace gdr::verbs
