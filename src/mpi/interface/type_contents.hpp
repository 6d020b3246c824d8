// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How a datatype was made: MPI_Type_get_envelope and MPI_Type_get_contents.
#pragma once

#include "mpi/interface/library.hpp"

#include <vector>

namespace gdr::mpi {

// Whether MPI defines the type itself.
bool is_predefined(const Library& library, Word type);

class TypeContents {
  public:
    TypeContents(const Library& library, Word type);
    TypeContents(const TypeContents&) = delete;
    TypeContents& operator=(const TypeContents&) = delete;
    ~TypeContents();

    int combiner() const { return combiner_; }
    bool predefined() const; // by MPI itself

    // What MPI_Type_get_contents tells, in the order of the standard, also for a type that was made
    // by a constructor of large counts.
    const std::vector<int64_t>& integers() const { return integers_; }
    const std::vector<intptr_t>& addresses() const { return addresses_; }
    const std::vector<Word>& types() const { return types_; }

  private:
    void take_large(const std::vector<int64_t>& counts);

    const Library& library_;
    int combiner_ = 0;
    std::vector<int64_t> integers_;
    std::vector<intptr_t> addresses_;
    std::vector<Word> types_;
};

} // namespace gdr::mpi
