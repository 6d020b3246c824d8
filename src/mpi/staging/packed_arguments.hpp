// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The arguments that describe a buffer replaced by its packed bytes: types of as many bytes, and
// displacements at which block follows block. A displacement that does not fit an int goes into the
// type, if each block has its own.
#pragma once

#include "mpi/interface/arguments.hpp"
#include "mpi/interface/byte_type.hpp"

#include <vector>

namespace gdr::mpi {

class PackedArguments {
  public:
    // Replaces the arguments until this is destroyed. Throws std::bad_alloc; std::runtime_error if
    // they cannot express it, and then nothing is replaced.
    PackedArguments(const Arguments& arguments, const Group& group, const Side& side);

  private:
    void replace_displacements(const Arguments& arguments, const Side& side);
    // If types are not predefined, as here, Open MPI looks at both sides' types until the request
    // is complete; by then its Fortran bindings have freed the other side's array.
    void keep_types(const Arguments& arguments, const Group& group, const Side& other);

    std::vector<ByteType> types_; // one, or one for each block
    std::vector<char> handles_, other_handles_;
    std::vector<int64_t> displacements_;
    std::vector<int> small_displacements_;
};

} // namespace gdr::mpi
