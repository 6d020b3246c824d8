// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/operation.hpp"

#include "mpi/gpu/device_memory.hpp"
#include "mpi/interface/failure.hpp"
#include "mpi/interface/puts.hpp"
#include "mpi/interface/transport.hpp"
#include "mpi/interface/type_contents.hpp"
#include "stats/statistics.hpp"

#include <algorithm>
#include <climits>
#include <stdexcept>
#include <utility>

namespace gdr::mpi {

namespace {

// UCX receives shorter messages eagerly, by a CUDA copy on each rank that a broadcast passes.
// Staged, there is one copy before and one after. From this size on UCX uses a rendezvous without
// copies.
constexpr uint64_t kDirectCollectiveFrom = 32 << 10;

// Whether the message may be to this rank, or MPICH's communicator may have one rank: the CPU
// copies such messages. MPI_Mrecv does not tell where its message comes from.
bool may_be_to_self(const Arguments& arguments, const Side& side)
{
    if (side.peer < 0) {
        return arguments.call().kind == Kind::message && arguments.library().pml == nullptr;
    }
    const Library& library = arguments.library();
    const Word comm = arguments.handle(arguments.call().comm);
    const int peer = arguments.integer(side.peer);
    int own = 0;
    if (peer == library.abi->any_source) {
        library.Comm_size(comm, &own);
        return own == 1;
    }
    library.Comm_rank(comm, &own);
    return peer == own;
}

// Whether MPI may get bytes instead of the side's types. It must neither compute with the elements
// nor convert them, as files and external forms can.
bool may_be_bytes(const Call& call, const Side& side)
{
    return call.op < 0 && (side.direct || call.comm >= 0 || call.target >= 0) && !side.bytes() &&
           side.count >= 0;
}

// Lets a call that does nothing check the type, since MPI has no query for it. (MPICH does not look
// at the type of zero elements.)
int check_type(const Arguments& arguments, const Side& side)
{
    const Call& call = arguments.call();
    if (!side.exists() || arguments.in_place(side) || side.counts || side.types ||
        !may_be_bytes(call, side) || arguments.count(side, 0) <= 0) {
        return 0;
    }
    const Library& library = arguments.library();
    const Word type = arguments.type(side, 0);
    if (type == library.datatype_null || is_predefined(library, type)) {
        return 0;
    }
    const void* const buffer = arguments.pointer(side.buffer);
    const int nobody = library.abi->proc_null;
    if (call.comm >= 0) {
        return library.Send(buffer, 1, type, nobody, 0, arguments.handle(call.comm));
    }
    if (call.window < 0) { // MPI_Mrecv
        return 0;
    }
    return library.Put(buffer, 1, type, nobody, 0, 0, library.byte, arguments.handle(call.window));
}

// Contiguous blocks of a v or w call with more room between them than they take.
bool sparse(const Side& side, const Footprint& footprint)
{
    return side.counts && side.displacements >= 0 &&
           std::ranges::all_of(footprint.parts(), &Elements::in_one_piece) &&
           static_cast<size_t>(footprint.high() - footprint.low()) > 2 * footprint.bytes();
}

// Whether only the HCA reads or writes the buffer, if MPI sees that it is contiguous. False if the
// peer may be this rank: the CPU copies those messages.
bool by_hca(const Arguments& arguments, const Side& side)
{
    if (!side.direct || !hands_to_ucx(arguments.library())) {
        return false;
    }
    if (side.peer < 0) {
        return arguments.call().kind == Kind::collective;
    }
    return !may_be_to_self(arguments, side);
}

} // namespace

int check_types(const Arguments& arguments)
{
    const Call& call = arguments.call();
    if (const int error = check_type(arguments, call.send); error != 0 || call.one_buffer()) {
        return error;
    }
    return check_type(arguments, call.receive);
}

template <typename What, typename... From>
const What& Operation::add(Moves moves, From&&... from)
{
    size_t place = 0;
    while (parts_[place]) {
        ++place;
    }
    parts_[place].emplace(std::in_place_type<What>, moves, std::forward<From>(from)...);
    return std::get<What>(parts_[place]->shadow);
}

// The counts of a collective call stay, since the library may split the data by them.
void Operation::tell_of_bytes(const Arguments& arguments, const Side& side, int element,
                              uint64_t all)
{
    const Library& library = arguments.library();
    if (arguments.call().kind != Kind::collective && all <= INT_MAX) {
        arguments.words()[side.count] = static_cast<Word>(all);
        arguments.words()[side.type] = library.byte;
    } else {
        types_.emplace_back(library, element);
        arguments.words()[side.type] = types_.back().handle();
    }
}

// False: neither is possible.
bool Operation::pass_on_or_pack(const cuda::Driver& driver, const Arguments& arguments,
                                const Side& side, const cuda::Pointer& memory, Footprint& footprint,
                                Moves moves)
{
    if (!may_be_bytes(arguments.call(), side) || side.counts || side.types ||
        !footprint.alike_bytes() || footprint.parts().size() != 1) {
        return false;
    }
    const Library& library = arguments.library();
    const Elements& elements = footprint.parts().front();
    const bool gpu_direct = by_hca(arguments, side);
    if (!gpu_direct && elements.in_one_piece()) {
        return false;
    }
    int size = 0;
    library.Type_size(arguments.type(side, 0), &size); // MPI_UNDEFINED if it does not fit an int
    if (size <= 0 || elements.element_bytes() != static_cast<uint64_t>(size)) {
        return false;
    }
    char* const buffer = static_cast<char*>(arguments.pointer(side.buffer));
    tell_of_bytes(arguments, side, size, footprint.bytes());
    replaces_ = true;
    if (elements.in_one_piece()) {
        arguments.words()[side.buffer] =
            reinterpret_cast<Word>(buffer + elements.runs.front().offset);
        stats::statistics().add({.mpi_direct_bytes = footprint.bytes()});
        return true;
    }
    arguments.words()[side.buffer] =
        add<PackedShadow>(moves, driver, memory, buffer, std::move(footprint), gpu_direct)
            .address();
    return true;
}

// Gathers what types relative to MPI_BOTTOM lead to, and sparse blocks. False: all is in one memory
// and not sparse.
bool Operation::gather(KnownDeviceMemory& memory, const Arguments& arguments, const Group& group,
                       const Side& side, const Footprint& footprint, Moves moves)
{
    void* const buffer = arguments.pointer(side.buffer);
    const bool bytes = may_be_bytes(arguments.call(), side);
    if (buffer != nullptr && !(bytes && sparse(side, footprint))) {
        return false;
    }
    auto pieces = pieces_of(memory, buffer, footprint);
    if (in_one_memory(pieces) &&
        (pieces.front().device < 0 || !bytes || !sparse(side, footprint))) {
        return false;
    }
    if (!bytes) {
        throw std::runtime_error(kSeveralMemories);
    }
    add<GatheredShadow>(whole(moves), memory.driver(), arguments, group, side, std::move(pieces));
    return true;
}

void Operation::stage_side(KnownDeviceMemory& memory, const Arguments& arguments,
                           const Group& group, const Side& side, Moves moves)
{
    Footprint footprint = group.footprint(side);
    if (footprint.bytes() > INT_MAX) { // more than a status tells
        moves = whole(moves);
    }
    if (!footprint.empty() && !gather(memory, arguments, group, side, footprint, moves)) {
        stage(memory, arguments, side, std::move(footprint), moves);
    }
}

void Operation::stage(KnownDeviceMemory& memory, const Arguments& arguments, Side side,
                      Footprint&& footprint, Moves moves)
{
    if (arguments.call().kind == Kind::collective && footprint.bytes() < kDirectCollectiveFrom) {
        side.direct = false;
    }
    char* const buffer = static_cast<char*>(arguments.pointer(side.buffer)); // NULL: MPI_BOTTOM
    const cuda::Pointer* const found = memory.find(buffer + footprint.low());
    if (found == nullptr) {
        return;
    }
    if (side.direct && arguments.call().window >= 0 && !hands_put_to_ucx(arguments)) {
        side.direct = false;
    }
    if (side.direct && footprint.plain() && hands_to_ucx(arguments.library()) &&
        !may_be_to_self(arguments, side)) {
        stats::statistics().add({.mpi_direct_bytes = footprint.bytes()});
        return;
    }
    const cuda::Driver& driver = memory.driver();
    if (pass_on_or_pack(driver, arguments, side, *found, footprint, moves)) {
        return;
    }
    arguments.words()[side.buffer] =
        add<ShadowBuffer>(moves, driver, *found, buffer, std::move(footprint)).address();
}

// MPI forbids one buffer for both, but it is up to MPI to detect that.
void Operation::stage_aliased(KnownDeviceMemory& memory, const Arguments& arguments,
                              const Group& group)
{
    const Side& send = arguments.call().send;
    const Side& receive = arguments.call().receive;
    Footprint both = group.footprint(receive);
    both.add(group.footprint(send));
    if (!both.empty()) {
        stage(memory, arguments, receive, std::move(both), {true, PutBack::all});
    }
    arguments.words()[send.buffer] = arguments.words()[receive.buffer];
}

// Copies of the send buffer are under way while the rest is prepared.
Operation::Operation(KnownDeviceMemory& memory, const Arguments& arguments)
{
    const Call& call = arguments.call();
    const Group group(arguments);
    RowCopies copies(memory.driver(), Direction::from_device);
    size_t begun = 0;
    const auto begin = [&] {
        if (call.form != Form::persistent) {
            begun = fetch_from(begun, copies);
        }
    };
    const auto stage_significant = [&](const Side& side, Moves moves) {
        copies.leave(); // before MPI is queried
        if (group.significant(side)) {
            stage_side(memory, arguments, group, side, moves);
        }
        begin();
    };
    if (call.one_buffer()) {
        if (group.significant(call.send)) {
            const bool sends = group.sends_from_root();
            stage_side(memory, arguments, group, call.send,
                       {sends, sends ? PutBack::none : PutBack::all});
            begin();
        }
    } else if (call.kind == Kind::collective && arguments.aliased() &&
               group.significant(call.send) && group.significant(call.receive)) {
        stage_aliased(memory, arguments, group);
        begin();
    } else {
        const bool in_place = arguments.in_place(call.send);
        stage_significant(call.send, {true, PutBack::none});
        stage_significant(call.compare, {true, PutBack::none});
        Side receive = call.receive;
        if (in_place && (call.send.blocks == Blocks::sum || call.send.blocks == Blocks::local)) {
            receive.blocks = call.send.blocks; // the data to send are there
        }
        stage_significant(receive, {in_place || receive.partial || receive.read,
                                    receive.counted ? PutBack::received : PutBack::all});
    }
    copies.wait();
}

Operation::Operation(PartitionedShadow shadow, bool put_back)
{
    add<PartitionedShadow>({true, put_back ? PutBack::all : PutBack::none}, std::move(shadow));
}

bool Operation::counted() const
{
    return std::ranges::any_of(parts_, [](const std::optional<Part>& part) {
        return part && part->moves.put_back == PutBack::received;
    });
}

// From this part on. Returns the number of parts.
size_t Operation::fetch_from(size_t part, RowCopies& copies) const
{
    for (; part < parts_.size() && parts_[part]; ++part) {
        if (parts_[part]->moves.fetched) {
            std::visit([&](const auto& shadow) { shadow.fetch(copies); }, parts_[part]->shadow);
        }
    }
    return part;
}

void Operation::put_back(uint64_t received) const
{
    EachStep steps;
    for (const std::optional<Part>& part : parts_) {
        if (part && part->moves.put_back != PutBack::none) {
            steps.attempt([&] { put_back(*part, received); });
        }
    }
    steps.end();
}

void Operation::put_back(const Part& part, uint64_t received)
{
    const bool all = part.moves.put_back == PutBack::all;
    std::visit(
        [&](const auto& shadow) {
            if constexpr (requires { shadow.put_back_first(received); }) {
                if (!all) {
                    return shadow.put_back_first(received);
                }
            }
            shadow.put_back();
        },
        part.shadow);
}

} // namespace gdr::mpi
