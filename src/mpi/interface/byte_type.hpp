// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A datatype of contiguous bytes that replaces a user's type of that size. With an offset the bytes
// begin there, relative to the address that MPI gets.
#pragma once

#include "mpi/interface/library.hpp"

#include <utility>

namespace gdr::mpi {

class ByteType {
  public:
    ByteType(const Library& library, int size, intptr_t offset = 0) : library_(&library)
    {
        if (offset == 0) {
            library.Type_contiguous(size, library.byte, &handle_);
        } else { // the extent is the size
            library.Type_create_hindexed(1, &size, &offset, library.byte, &handle_);
        }
        library.Type_commit(&handle_);
    }
    ByteType(ByteType&& other) noexcept
        : library_(std::exchange(other.library_, nullptr)), handle_(other.handle_)
    {
    }
    ByteType& operator=(ByteType&& other) noexcept
    {
        std::swap(library_, other.library_);
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~ByteType() // pending operations of MPI continue with it
    {
        if (library_ != nullptr) {
            library_->Type_free(&handle_);
        }
    }

    Word handle() const { return handle_; }

  private:
    const Library* library_;
    Word handle_ = 0;
};

} // namespace gdr::mpi
