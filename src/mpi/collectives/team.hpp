// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The ranks of a communicator that do collective calls on their GPUs: over a communicator of their
// own, so that nothing matches the application's messages.
#pragma once

#include "mpi/library/library.hpp"

#include <cstddef>
#include <exception>
#include <vector>

namespace gdr::mpi {

// A call of MPI failed; its error class or code.
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
    if (result != 0)
        throw MpiError(result);
}

class Team {
  public:
    // Of an intra-communicator. The first call for a communicator is collective: able, whether this
    // rank can take part in principle, is agreed upon. It ends with the communicator. Throws
    // MpiError; the library has called the communicator's error handler.
    static Team& of(const Library& library, Word comm, bool able);

    // Whether all ranks are.
    bool able() const { return able_; }

    int rank() const { return rank_; }
    int size() const { return size_; }
    int next() const { return (rank_ + 1) % size_; }
    int previous() const { return (rank_ + size_ - 1) % size_; }

    // Collective: whether all ranks agree. Throws MpiError.
    bool all(bool mine) const;

    // Messages of at most INT_MAX bytes, which arrive in the order of sending. Throw MpiError.
    Word send(const void* from, size_t bytes, int to) const;
    Word receive(void* to, size_t bytes, int from) const;
    void wait(Word request) const;
    void wait(const std::vector<Word>& requests) const;

    Team(const Library& library, Word comm);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Frees its communicator: collective.
    void end();

  private:
    const Library& library_;
    Word comm_ = 0;
    int rank_ = 0;
    int size_ = 0;
    bool able_ = false;
};

} // namespace gdr::mpi
