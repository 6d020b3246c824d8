// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/type_map.hpp"

#include <stdexcept>

namespace gdr::mpi {

namespace {

// A copy that can be packed: the types that a type is made of need not be committed.
class CommittedCopy {
  public:
    CommittedCopy(const Library& library, Word type) : library_(library)
    {
        library.Type_dup(type, &handle_);
        library.Type_commit(&handle_);
    }
    CommittedCopy(const CommittedCopy&) = delete;
    CommittedCopy& operator=(const CommittedCopy&) = delete;
    ~CommittedCopy() { library_.Type_free(&handle_); }

    Word handle() const { return handle_; }

  private:
    const Library& library_;
    Word handle_ = 0;
};

} // namespace

Runs runs_by_packing(const Library& library, Word type)
{
    intptr_t lower = 0, extent = 0;
    int size = 0;
    library.Type_get_true_extent(type, &lower, &extent);
    library.Type_size(type, &size);
    if (size < 0) { // MPI_UNDEFINED
        throw std::runtime_error("MPI does not tell how a datatype of 2 GiB was made");
    }
    const CommittedCopy copy(library, type);
    std::vector<unsigned char> bytes(static_cast<size_t>(extent)),
        packed(static_cast<size_t>(size));
    std::vector<intptr_t> offsets(packed.size());
    void* const buffer = reinterpret_cast<void*>(reinterpret_cast<intptr_t>(bytes.data()) - lower);
    for (int shift = 0; (extent - 1) >> shift > 0 || shift == 0; shift += 8) { // digits of base 256
        for (intptr_t i = 0; i < extent; ++i) {
            bytes[static_cast<size_t>(i)] = static_cast<unsigned char>(i >> shift);
        }
        int position = 0;
        library.Pack(buffer, 1, copy.handle(), packed.data(), size, &position, library.comm_self);
        if (position != size) {
            throw std::runtime_error("MPI does not tell how a datatype was made");
        }
        for (size_t i = 0; i < packed.size(); ++i) {
            offsets[i] |= static_cast<intptr_t>(packed[i]) << shift;
        }
    }
    Runs runs;
    for (const intptr_t offset : offsets) {
        append(runs, {lower + offset, 1, 0, 1});
    }
    return runs;
}

} // namespace gdr::mpi
