// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/statuses.hpp"

#include <algorithm>
#include <cstring>

namespace gdr::mpi {

Statuses::Statuses(const Library& library)
    : library_(library), statuses_(reinterpret_cast<Word>(one_.data()))
{
}

Statuses::Statuses(const Library& library, const Call& call, Word* words, size_t count)
    : library_(library), statuses_(words[call.arguments - 1])
{
    if (statuses_ != library.abi->status_ignore) {
        return;
    }
    const size_t bytes = count * library.abi->status.size;
    if (bytes > sizeof(one_)) {
        several_.resize(bytes / sizeof(uint64_t) + 1);
    }
    statuses_ = reinterpret_cast<Word>(several_.empty() ? one_.data() : several_.data());
    words[call.arguments - 1] = statuses_;
}

const char* Statuses::at(size_t index) const
{
    return reinterpret_cast<const char*>(statuses_) + index * library_.abi->status.size;
}

uint64_t Statuses::received(size_t index) const
{
    int cancelled = 0, bytes = 0;
    library_.Test_cancelled(at(index), &cancelled);
    if (cancelled == 0) {
        library_.Get_count(at(index), library_.byte, &bytes);
    }
    return static_cast<uint64_t>(std::max(0, bytes)); // MPI_UNDEFINED is negative
}

bool Statuses::failed(size_t index) const
{
    int error = 0;
    std::memcpy(&error, at(index) + library_.abi->status.error, sizeof(error));
    return error != 0;
}

} // namespace gdr::mpi
