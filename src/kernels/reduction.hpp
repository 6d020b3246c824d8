// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI's predefined reductions by the GPU, element by element.
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
    uint8, // MPI_BYTE, too
    uint16,
    uint32,
    uint64,
    float32,
    float64,
    complex64, // two floats
    complex128,
    boolean, // one byte, C's bool; Fortran's LOGICALs are integers
    // A value with an index, as C lays out such a structure: MPI_FLOAT_INT, ...
    float_int,
    double_int,
    long_int,
    two_int, // Fortran's MPI_2INTEGER, too
    short_int,
    two_float, // Fortran's, whose index is a number of the value's type
    two_double,
};

// Bytes of an element.
size_t size_of(Type type);

// Whether MPI defines the operation for the type: sum and prod for numbers; min and max for those
// with an order; logical ones for integers and boolean; bitwise ones for integers; minloc and
// maxloc for the pairs.
bool defined(Operation operation, Type type);

// An operation on a type, made ready in a context. Any thread; no lock, no allocation, one launch,
// nothing waited for.
class Reduction {
  public:
    // Loads its kernel: may wait. kernels: of reduce_ptx; outlive this. Throws
    // cuda::Error, std::runtime_error (no kernels built), std::invalid_argument (not defined).
    Reduction(LoadedKernels& kernels, Operation operation, Type type);

    // result[i] = first[i] op second[i], for count elements, on the stream, which is one of the
    // kernels' context. All in the reach of the GPU and aligned as the type is; result may be first
    // or second, but not overlap them otherwise. Rounding is that of one operation, and of those
    // that make up a complex product in the order re * re - im * im, re * im + im * re. Of pairs
    // with equal values the lower index is taken. min and max of a NaN: second. Throws cuda::Error.
    void reduce(const void* first, const void* second, void* result, uint64_t count,
                CUstream stream) const;

  private:
    LoadedKernels& kernels_;
    CUfunction function_;
};

} // namespace gdr::kernels
