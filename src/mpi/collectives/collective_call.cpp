// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/collectives/collective_call.hpp"

#include "mpi/collectives/gpu_collectives.hpp"
#include "mpi/hints/collective_hint.hpp"
#include "mpi/staging/staged_call.hpp"

namespace gdr::mpi {

namespace {

std::optional<int> make_by_gpus(const Invocation& invocation)
{
    const Call& call = invocation.call();
    if (call.comm < 0) {
        return std::nullopt;
    }
    const Collectives by = collectives_of(invocation.library(), invocation.handle(call.comm));
    return by == Collectives::library ? std::nullopt
                                      : call_on_gpus(invocation.library(), call, invocation.words(),
                                                     by == Collectives::nccl);
}

} // namespace

std::optional<int> make_collective(const Invocation& invocation)
{
    if (gpus_may_make_collectives()) {
        if (const std::optional<int> result = make_by_gpus(invocation)) {
            return result;
        }
    }
    return invocation.driver() != nullptr ? stage_call(invocation) : std::nullopt;
}

} // namespace gdr::mpi
