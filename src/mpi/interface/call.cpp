// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/call.hpp"

namespace gdr::mpi {

namespace {

constexpr Call kCalls[] = {
#include "mpi/interface/calls.inc"
};

} // namespace

std::span<const Call> calls()
{
    return kCalls;
}

} // namespace gdr::mpi
