// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The ranks of a communicator that make collective calls on their GPUs. They have a communicator of
// their own, so that their messages cannot match the application's.
#pragma once

#include "mpi/interface/library.hpp"

#include <cstddef>
#include <exception>
#include <span>
#include <vector>

namespace gdr::mpi {

// An MPI call failed; `code` is its error class or code.
class MpiError : public std::exception {
  public:
    explicit MpiError(int code) : code_(code) {}
    int code() const { return code_; }
    const char* what() const noexcept override { return "a call of MPI failed"; }

  private:
    int code_;
};

inline void check_mpi(int result)
{
    if (result != 0) {
        throw MpiError(result);
    }
}

// All functions throw MpiError.
class Team {
  public:
    // From an intra-communicator; collective. If it fails, the library has called the
    // communicator's error handler.
    Team(const Library& library, Word comm);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    int next() const { return (rank_ + 1) % size_; }
    int previous() const { return (rank_ + size_ - 1) % size_; }

    // Collective: whether all ranks agree.
    bool all(bool mine) const;

    // Collective: the bits that are set in the words of all ranks.
    void intersect(std::span<int> words) const;

    // Collective: the values of all ranks, in rank order.
    template <class Value>
    std::vector<Value> gather(const Value& mine) const
    {
        std::vector<Value> values(static_cast<size_t>(size_));
        gather(&mine, values.data(), sizeof(Value));
        return values;
    }

    // Collective: the first rank's data go to all.
    void broadcast(void* data, size_t bytes) const;

    // Messages of at most INT_MAX bytes, which arrive in the order of sending.
    Word send(const void* from, size_t bytes, int to) const;
    Word receive(void* to, size_t bytes, int from) const;
    void wait(Word request) const;
    void wait(const std::vector<Word>& requests) const;

    const Library& library() const { return library_; }
    Word comm() const { return comm_; }

    // Frees the team's communicator: collective.
    void end();

  private:
    void gather(const void* mine, void* all, size_t bytes) const;

    const Library& library_;
    Word comm_ = 0;
    int rank_ = 0;
    int size_ = 0;
};

} // namespace gdr::mpi
