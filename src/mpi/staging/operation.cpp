// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/operation.hpp"

#include "abi/host.hpp"
#include "mpi/gpu/device_memory.hpp"
#include "mpi/library/failure.hpp"
#include "mpi/library/puts.hpp"
#include "mpi/library/transport.hpp"
#include "stats/statistics.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gdr::mpi {

namespace {

// UCX receives what is shorter eagerly, by a copy of CUDA's: on each rank that a broadcast passes.
// Staged, it is copied once before and once after. From here on it is a rendezvous without copies.
constexpr uint64_t kDirectCollectiveFrom = 32 << 10;

// MPI libraries copy such messages with the CPU.
bool to_self(const Arguments& arguments, const Side& side)
{
    if (side.peer < 0)
        return false;
    int rank = 0;
    arguments.library().Comm_rank(arguments.handle(arguments.call().comm), &rank);
    return arguments.integer(side.peer) == rank;
}

// Whether MPI may be told of bytes instead of the side's types: where it neither computes with the
// elements nor converts them, as files and external forms can.
bool may_be_bytes(const Call& call, const Side& side)
{
    return call.op < 0 && (side.direct || call.comm >= 0) && !side.bytes() && side.count >= 0;
}

// Blocks of a v or w call, each in one piece, with more room between them than they take.
bool sparse(const Side& side, const Footprint& footprint)
{
    return side.counts && side.displacements >= 0 &&
           std::ranges::all_of(footprint.parts(), &Elements::in_one_piece) &&
           static_cast<size_t>(footprint.high() - footprint.low()) > 2 * footprint.bytes();
}

// Whether the HCA alone reads or writes the buffer, if MPI sees it to be in one piece. Not where
// the peer may be this rank, whose messages are copied with the CPU.
bool by_hca(const Arguments& arguments, const Side& side)
{
    if (!side.direct || !hands_to_ucx(arguments.library()))
        return false;
    if (side.peer < 0)
        return arguments.call().kind == Kind::collective;
    return arguments.integer(side.peer) >= 0 && !to_self(arguments, side);
}

} // namespace

template <typename What, typename... From>
const What& Operation::add(bool fetched, bool put_back, From&&... from)
{
    size_t place = 0;
    while (parts_[place])
        ++place;
    parts_[place].emplace(std::in_place_type<What>, fetched, put_back, std::forward<From>(from)...);
    return std::get<What>(parts_[place]->stand_in);
}

// False: neither is possible, or pays.
bool Operation::pass_on_or_pack(const cuda::Driver& driver, const Arguments& arguments,
                                const Side& side, const cuda::Pointer& memory,
                                const Footprint& footprint, bool fetched, bool put_back)
{
    if (!may_be_bytes(arguments.call(), side) || side.counts || side.types ||
        !footprint.alike_bytes() || footprint.parts().size() != 1)
        return false;
    const Library& library = arguments.library();
    const Elements& elements = footprint.parts().front();
    const bool gpu_direct = by_hca(arguments, side);
    if (!gpu_direct && elements.in_one_piece())
        return false;
    int size = 0;
    library.Type_size(arguments.type(side, 0), &size); // MPI_UNDEFINED if it is no int
    if (size <= 0 || elements.element_bytes() != static_cast<uint64_t>(size))
        return false;
    char* const buffer = static_cast<char*>(arguments.pointer(side.buffer));
    if (elements.in_one_piece()) {
        types_.emplace_back(library, size);
        arguments.words()[side.buffer] =
            reinterpret_cast<Word>(buffer + elements.runs.front().offset);
        arguments.words()[side.type] = types_.back().handle();
        stats::statistics().add({.mpi_direct_bytes = footprint.bytes()});
        return true;
    }
    try {
        auto packing = GpuPacking::make(driver, memory, buffer, elements);
        if (!packing)
            return false;
        const auto& packed =
            add<PackedStandIn>(fetched, put_back, library, driver, std::move(*packing), gpu_direct);
        arguments.words()[side.buffer] = packed.address();
        arguments.words()[side.type] = packed.type();
        return true;
    } catch (const cuda::Error& error) { // the GPU's memory is full: copies may do
        gdr_log(diag, "MPI_%s: kernels do not pack: %s", arguments.call().name, error.what());
        return false;
    }
}

// Of what types relative to MPI_BOTTOM lead to, and of sparse blocks. False: it is all in one
// memory and not sparse.
bool Operation::gather(KnownDeviceMemory& memory, const Arguments& arguments, const Group& group,
                       const Side& side, const Footprint& footprint, bool fetched, bool put_back)
{
    void* const buffer = arguments.pointer(side.buffer);
    const bool bytes = may_be_bytes(arguments.call(), side);
    if (buffer != nullptr && !(bytes && sparse(side, footprint)))
        return false;
    auto pieces = pieces_of(memory, buffer, footprint);
    if (in_one_memory(pieces) && (pieces.front().device < 0 || !bytes || !sparse(side, footprint)))
        return false;
    if (!bytes)
        throw std::runtime_error(kSeveralMemories);
    add<GatheredStandIn>(fetched, put_back, memory.driver(), arguments, group, side,
                         std::move(pieces));
    return true;
}

void Operation::stage_side(KnownDeviceMemory& memory, const Arguments& arguments,
                           const Group& group, const Side& side, bool fetched, bool put_back)
{
    Footprint footprint = group.footprint(side);
    if (!footprint.empty() && !gather(memory, arguments, group, side, footprint, fetched, put_back))
        stage(memory, arguments, side, std::move(footprint), fetched, put_back);
}

void Operation::stage(KnownDeviceMemory& memory, const Arguments& arguments, Side side,
                      Footprint&& footprint, bool fetched, bool put_back)
{
    if (arguments.call().kind == Kind::collective && footprint.bytes() < kDirectCollectiveFrom)
        side.direct = false;
    char* const buffer = static_cast<char*>(arguments.pointer(side.buffer)); // NULL: MPI_BOTTOM
    const cuda::Pointer* const found = memory.find(buffer + footprint.low());
    if (found == nullptr)
        return;
    if (side.direct && arguments.call().window >= 0 && !hands_put_to_ucx(arguments))
        side.direct = false;
    if (side.direct && footprint.plain() && hands_to_ucx(arguments.library()) &&
        !to_self(arguments, side)) {
        stats::statistics().add({.mpi_direct_bytes = footprint.bytes()});
        return;
    }
    const cuda::Driver& driver = memory.driver();
    if (pass_on_or_pack(driver, arguments, side, *found, footprint, fetched, put_back))
        return;
    arguments.words()[side.buffer] =
        add<StandIn>(fetched, put_back, driver, *found, buffer, std::move(footprint)).address();
}

// One buffer for both, which MPI forbids: whether it finds that out is left to it.
void Operation::stage_aliased(KnownDeviceMemory& memory, const Arguments& arguments,
                              const Group& group)
{
    const Side& send = arguments.call().send;
    const Side& receive = arguments.call().receive;
    Footprint both = group.footprint(receive);
    both.add(group.footprint(send));
    if (!both.empty())
        stage(memory, arguments, receive, std::move(both), true, true);
    arguments.words()[send.buffer] = arguments.words()[receive.buffer];
}

// What is sent is on its way while the rest is made ready.
Operation::Operation(KnownDeviceMemory& memory, const Arguments& arguments)
{
    const Call& call = arguments.call();
    const Group group(arguments);
    RowCopies copies(memory.driver(), Direction::from_device);
    size_t begun = 0;
    const auto begin = [&] {
        if (call.form != Form::persistent)
            begun = fetch_from(begun, copies);
    };
    const auto stage_significant = [&](const Side& side, bool fetched, bool put_back) {
        copies.leave(); // MPI is asked
        if (group.significant(side))
            stage_side(memory, arguments, group, side, fetched, put_back);
        begin();
    };
    if (call.one_buffer()) {
        if (group.significant(call.send)) {
            const bool sends = group.sends_from_root();
            stage_side(memory, arguments, group, call.send, sends, !sends);
            begin();
        }
    } else if (call.kind == Kind::collective && arguments.aliased() &&
               group.significant(call.send) && group.significant(call.receive)) {
        stage_aliased(memory, arguments, group);
        begin();
    } else {
        const bool in_place = arguments.in_place(call.send);
        stage_significant(call.send, true, false);
        stage_significant(call.compare, true, false);
        Side receive = call.receive;
        if (in_place && (call.send.blocks == Blocks::sum || call.send.blocks == Blocks::local))
            receive.blocks = call.send.blocks; // what is sent is there
        stage_significant(receive, in_place || receive.partial || receive.read, true);
    }
    copies.wait();
}

Operation::Operation(PartitionedStandIn stand_in, bool put_back)
{
    add<PartitionedStandIn>(true, put_back, std::move(stand_in));
}

// From this one on; returns the number of parts.
size_t Operation::fetch_from(size_t part, RowCopies& copies) const
{
    for (; part < parts_.size() && parts_[part]; ++part) {
        if (parts_[part]->fetched)
            std::visit([&](const auto& stand_in) { stand_in.fetch(copies); },
                       parts_[part]->stand_in);
    }
    return part;
}

void Operation::put_back() const
{
    EachStep steps;
    for (const std::optional<Part>& part : parts_) {
        if (part && part->put_back)
            steps.attempt(
                [&] { std::visit([](const auto& in) { in.put_back(); }, part->stand_in); });
    }
    steps.end();
}

} // namespace gdr::mpi
