// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/packed_arguments.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <stdexcept>

namespace gdr::mpi {

namespace {

constexpr const char* kTooLong = "its blocks in one piece are too long for the arguments";

int size_of(const Library& library, Word type)
{
    int size = 0;
    if (type != library.datatype_null) {
        library.Type_size(type, &size);
    }
    if (size < 0) { // MPI_UNDEFINED
        throw std::runtime_error(kTooLong);
    }
    return size;
}

} // namespace

PackedArguments::PackedArguments(const Arguments& arguments, const Group& group, const Side& side)
{
    const Library& library = arguments.library();
    const int blocks = side.counts ? group.blocks(side.blocks) : 1;
    const bool small = !arguments.call().large && !side.addresses;
    int64_t next = 0; // displacement, in the unit of the argument
    for (int i = 0; i < blocks; ++i) {
        const int size = size_of(library, arguments.type(side, i));
        const bool by_type = small && side.types && next > INT_MAX;
        if (i == 0 || side.types) {
            types_.emplace_back(library, size, by_type ? next : 0);
        }
        displacements_.push_back(by_type ? 0 : next);
        next += std::max<int64_t>(0, arguments.count(side, i)) * (side.types ? size : 1);
    }
    if (side.displacements >= 0) {
        replace_displacements(arguments, side);
    }
    if (!side.types) {
        arguments.words()[side.type] = types_.front().handle();
        return;
    }
    const size_t handle_size = library.abi->handle_size();
    handles_.resize(types_.size() * handle_size);
    for (size_t i = 0; i < types_.size(); ++i) {
        const Word handle = types_[i].handle();
        std::memcpy(&handles_[i * handle_size], &handle, handle_size);
    }
    arguments.words()[side.type] = reinterpret_cast<Word>(handles_.data());
    const Call& call = arguments.call();
    keep_types(arguments, group, side.buffer == call.send.buffer ? call.receive : call.send);
}

void PackedArguments::keep_types(const Arguments& arguments, const Group& group, const Side& other)
{
    const auto* handles = static_cast<const char*>(arguments.pointer(other.type));
    if (arguments.in_place(other) || handles == nullptr) {
        return;
    }
    const size_t bytes = group.blocks(other.blocks) * arguments.library().abi->handle_size();
    other_handles_.assign(handles, handles + bytes);
    arguments.words()[other.type] = reinterpret_cast<Word>(other_handles_.data());
}

void PackedArguments::replace_displacements(const Arguments& arguments, const Side& side)
{
    Word& word = arguments.words()[side.displacements];
    if (arguments.call().large || side.addresses) {
        word = reinterpret_cast<Word>(displacements_.data());
        return;
    }
    if (displacements_.back() > INT_MAX) {
        throw std::runtime_error(kTooLong);
    }
    small_displacements_.assign(displacements_.begin(), displacements_.end());
    word = reinterpret_cast<Word>(small_displacements_.data());
}

} // namespace gdr::mpi
