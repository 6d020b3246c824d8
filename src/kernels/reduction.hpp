// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI's predefined reductions on the GPU, element by element.
#pragma once

#include "kernels/loaded_kernels.hpp"

#include <cstddef>

namespace gdr::kernels {

enum class Operation {
    sum,
    prod,
    min,
    max,
    land,
    lor,
    lxor,
    band,
    bor,
    bxor,
    minloc,
    maxloc,
};

enum class Type {
    int8,
    int16,
    int32,
    int64,
    uint8, // also MPI_BYTE
    uint16,
    uint32,
    uint64,
    float32,
    float64,
    complex64, // two floats
    complex128,
    boolean, // one byte, C's bool; Fortran's LOGICALs are integers
    // A value with an index, laid out as in C: MPI_FLOAT_INT, ...
    float_int,
    double_int,
    long_int,
    two_int, // also Fortran's MPI_2INTEGER
    short_int,
    two_float, // Fortran's, whose index has the value's type
    two_double,
};

// Bytes of an element.
size_t size_of(Type type);

// Whether MPI defines the operation for the type: sum and prod for numbers; min and max for ordered
// ones; logical operations for integers and boolean; bitwise ones for integers; minloc and maxloc
// for the pairs.
bool defined(Operation operation, Type type);

// An operation on a type, prepared in a context. Any thread; no lock, no allocation, no wait, one
// launch.
class Reduction {
  public:
    // Loads the kernel, which may wait. kernels: of reduce_ptx; must outlive this. Throws
    // cuda::Error, std::runtime_error (no kernels built), std::invalid_argument (not defined).
    Reduction(LoadedKernels& kernels, Operation operation, Type type);

    // result[i] = first[i] op second[i], for count elements. The stream belongs to the kernels'
    // context. The GPU must be able to access all buffers, which are aligned as the type requires.
    // result may be first or second, but must not overlap them otherwise. Rounding is that of one
    // operation; a complex product is computed as re * re - im * im, re * im + im * re. Of pairs
    // with equal values the one with the lower index is taken. min and max of a NaN: second. Throws
    // cuda::Error.
    void reduce(const void* first, const void* second, void* result, uint64_t count,
                CUstream stream) const;

  private:
    LoadedKernels& kernels_;
    CUfunction function_;
};

} // namespace gdr::kernels
