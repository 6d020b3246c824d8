// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What MPI is told of a buffer that is replaced by its bytes without the gaps: types of as many
// bytes, and displacements at which block follows block. What is further away than an int can tell
// is told by the type, where each block has its own.
#pragma once

#include "mpi/library/arguments.hpp"
#include "mpi/library/byte_type.hpp"

#include <vector>

namespace gdr::mpi {

class PackedArguments {
  public:
    // Replaces them in the arguments, until this is destroyed. Throws std::bad_alloc;
    // std::runtime_error where they cannot be told, and nothing is replaced then.
    PackedArguments(const Arguments& arguments, const Group& group, const Side& side);

  private:
    void replace_displacements(const Arguments& arguments, const Side& side);
    // Where types are not predefined, as these, Open MPI looks at both sides' until the request is
    // complete; its Fortran has freed the other's by then.
    void keep_types(const Arguments& arguments, const Group& group, const Side& other);

    std::vector<ByteType> types_; // one, or one for each block
    std::vector<char> handles_, other_handles_;
    std::vector<int64_t> displacements_;
    std::vector<int> small_displacements_;
};

} // namespace gdr::mpi
