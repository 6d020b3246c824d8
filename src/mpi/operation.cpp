// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/operation.hpp"

#include "mpi/transport.hpp"
#include "stats/statistics.hpp"

#include <utility>

namespace gdr::mpi {

namespace {

// MPI libraries copy such messages with the CPU.
bool to_self(const Arguments& arguments, const Side& side)
{
    if (side.peer < 0)
        return false;
    int rank = 0;
    arguments.library().Comm_rank(arguments.handle(arguments.call().comm), &rank);
    return arguments.integer(side.peer) == rank;
}

} // namespace

void Operation::stage(const cuda::Driver& driver, const Arguments& arguments, const Side& side,
                      Footprint footprint, bool fetched, bool put_back)
{
    if (footprint.empty())
        return;
    char* const buffer = static_cast<char*>(arguments.pointer(side.buffer)); // NULL: MPI_BOTTOM
    const auto memory = find_device_memory(driver, buffer + footprint.low());
    if (!memory)
        return;
    if (side.direct && footprint.plain() && hands_to_ucx(arguments.library()) &&
        !to_self(arguments, side)) {
        stats::statistics().add({.mpi_direct_bytes = footprint.bytes()});
        return;
    }
    const bool kept = put_back && !footprint.exact();
    parts_.push_back({{driver, *memory, buffer, std::move(footprint)}, fetched || kept, put_back});
    arguments.words()[side.buffer] = parts_.back().stand_in.address();
}

Operation::Operation(const cuda::Driver& driver, const Arguments& arguments)
{
    const Call& call = arguments.call();
    const Group group(arguments);
    if (call.one_buffer()) {
        if (!group.significant(call.send))
            return;
        const bool sends = group.sends_from_root();
        stage(driver, arguments, call.send, group.footprint(call.send), sends, !sends);
        return;
    }
    const bool in_place = arguments.in_place(call.send);
    if (group.significant(call.send))
        stage(driver, arguments, call.send, group.footprint(call.send), true, false);
    if (call.compare.exists())
        stage(driver, arguments, call.compare, group.footprint(call.compare), true, false);
    if (group.significant(call.receive)) {
        Side receive = call.receive;
        if (in_place && (call.send.blocks == Blocks::sum || call.send.blocks == Blocks::local))
            receive.blocks = call.send.blocks; // what is sent is there
        stage(driver, arguments, receive, group.footprint(receive),
              in_place || receive.partial || receive.read, true);
    }
}

void Operation::fetch() const
{
    for (const Part& part : parts_) {
        if (part.fetched)
            part.stand_in.fetch();
    }
}

void Operation::put_back() const
{
    for (const Part& part : parts_) {
        if (part.put_back)
            part.stand_in.put_back();
    }
}

} // namespace gdr::mpi
