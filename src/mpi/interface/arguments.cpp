// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/arguments.hpp"

#include <algorithm>

namespace gdr::mpi {

Group::Group(const Arguments& arguments) : arguments_(arguments), library_(arguments.library())
{
    if (arguments.call().kind == Kind::collective && arguments.call().comm >= 0) {
        comm_ = arguments.handle(arguments.call().comm);
    }
}

bool Group::inter() const
{
    int inter = 0;
    if (comm_ != 0) {
        library_.Comm_test_inter(comm_, &inter);
    }
    return inter != 0;
}

int Group::rank() const
{
    int rank = 0;
    if (comm_ != 0) {
        library_.Comm_rank(comm_, &rank);
    }
    return rank;
}

int Group::size() const
{
    int size = 1;
    if (comm_ != 0) {
        library_.Comm_size(comm_, &size);
    }
    return size;
}

bool Group::significant(const Side& side) const
{
    if (!side.exists() || arguments_.in_place(side)) {
        return false;
    }
    if (side.peer >= 0 && !side.read && arguments_.integer(side.peer) == library_.abi->proc_null) {
        return false; // MPI does not touch it
    }
    if (arguments_.call().root < 0) {
        return true;
    }
    const int root = arguments_.integer(arguments_.call().root);
    if (!inter()) {
        return !side.at_root || root == rank();
    }
    if (root == library_.abi->root) {
        return side.at_root || arguments_.call().one_buffer();
    }
    return !side.at_root && root >= 0; // not MPI_PROC_NULL
}

bool Group::sends_from_root() const
{
    const int root = arguments_.integer(arguments_.call().root);
    return inter() ? root == library_.abi->root : root == rank();
}

int Group::neighbours(bool that_send) const
{
    int topology = 0, in = 0, out = 0, weighted = 0;
    library_.Topo_test(comm_, &topology);
    if (topology == library_.abi->cart) {
        library_.Cartdim_get(comm_, &in);
        return 2 * in;
    }
    if (topology == library_.abi->graph) {
        library_.Graph_neighbors_count(comm_, rank(), &in);
        return in;
    }
    if (topology == library_.abi->dist_graph) {
        library_.Dist_graph_neighbors_count(comm_, &in, &out, &weighted);
    }
    return that_send ? in : out;
}

int Group::blocks(Blocks what) const
{
    int remote = 0;
    switch (what) {
    case Blocks::size:
        if (!inter()) {
            return size();
        }
        library_.Comm_remote_size(comm_, &remote);
        return remote;
    case Blocks::local:
    case Blocks::sum:
        return size();
    case Blocks::in:
        return neighbours(true);
    case Blocks::out:
        return neighbours(false);
    case Blocks::one:
    case Blocks::mine:
        break;
    }
    return 1;
}

// An upper limit for the packed bytes of the other side's elements.
int64_t Group::packed_size(const Side& side) const
{
    const Call& call = arguments_.call();
    const Side& elements = side.buffer == call.send.buffer ? call.receive : call.send;
    const int64_t count = arguments_.count(elements, 0);
    if (count < 0 || arguments_.type(elements, 0) == library_.datatype_null) {
        return 0; // MPI will report the error
    }
    int size = 0;
    if (call.large || call.comm < 0 || // an external form
        library_.Pack_size(static_cast<int>(count), arguments_.type(elements, 0),
                           arguments_.handle(call.comm), &size) != 0) {
        return INT64_MAX;
    }
    return size;
}

Footprint Group::footprint(const Side& side) const
{
    Footprint footprint;
    if (side.bytes()) {
        const int64_t first = arguments_.displacement(side, 0);
        footprint.add_bytes(first, std::min(arguments_.count(side, 0) - first, packed_size(side)));
        return footprint;
    }
    const int blocks = this->blocks(side.blocks);
    if (!side.counts) {
        footprint.add(library_, arguments_.type(side, 0), arguments_.count(side, 0) * blocks, 0);
        return footprint;
    }
    if (side.displacements < 0) { // one after the other
        int64_t count = 0;
        const int first = side.blocks == Blocks::mine ? rank() : 0;
        for (int i = 0; i < blocks; ++i) {
            count += arguments_.count(side, first + i);
        }
        footprint.add(library_, arguments_.type(side, 0), count, 0);
        return footprint;
    }
    intptr_t lower = 0, unit = 1;
    if (!side.types && arguments_.type(side, 0) == library_.datatype_null) {
        return footprint;
    }
    if (!side.types) {
        library_.Type_get_extent(arguments_.type(side, 0), &lower, &unit);
    }
    for (int i = 0; i < blocks; ++i) {
        footprint.add(library_, arguments_.type(side, i), arguments_.count(side, i),
                      arguments_.displacement(side, i) * unit);
    }
    return footprint;
}

} // namespace gdr::mpi
