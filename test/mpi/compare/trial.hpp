// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the cases of mpi_compare share: the ranks, and what a case leaves to be compared.
#pragma once

#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <mpi.h>

#include "../gpu.hpp"

namespace compare {

inline int rank, ranks;
inline MPI_Comm world; // a duplicate of MPI_COMM_WORLD

inline int next()
{
    return (rank + 1) % ranks;
}
inline int previous()
{
    return (rank + ranks - 1) % ranks;
}

// A case made once: its buffers, and what MPI told.
class Trial {
  public:
    enum class Where { host, gpu, random };

    // random: where buffers are; nullptr: all in host memory.
    explicit Trial(std::mt19937* random) : random_(random) {}
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;
    ~Trial()
    {
        for (const Buffer& buffer : buffers_) {
            buffer.on_gpu ? gpu::free(buffer.data) : std::free(buffer.data);
        }
    }

    // Bytes that are the same whenever a case is made. Freed with this.
    char* buffer(size_t bytes, Where where = Where::random)
    {
        const bool on_gpu = random_ != nullptr && where != Where::host &&
                            (where == Where::gpu || (*random_)() % 3 != 0);
        std::vector<char> content(bytes);
        for (size_t i = 0; i < bytes; ++i) {
            content[i] = static_cast<char>(
                (i * 7 + buffers_.size() * 31 + static_cast<size_t>(rank) * 101 + (i >> 8) * 13) &
                0x7f);
        }
        void* data = on_gpu ? gpu::allocate(bytes) : std::malloc(bytes);
        gpu::copy(data, content.data(), bytes);
        buffers_.push_back({data, bytes, on_gpu});
        return static_cast<char*>(data);
    }

    void tell(long value) { told_.push_back(value); }
    void tell_elements(const MPI_Status& status, MPI_Datatype type)
    {
        int number;
        MPI_Get_count(&status, type, &number);
        tell(number);
        MPI_Get_elements(&status, type, &number);
        tell(number);
    }

    const std::vector<long>& told() const { return told_; }
    size_t buffers() const { return buffers_.size(); }
    std::vector<char> bytes(size_t buffer) const
    {
        std::vector<char> bytes(buffers_[buffer].bytes);
        gpu::copy(bytes.data(), buffers_[buffer].data, bytes.size());
        return bytes;
    }
    std::string places() const
    {
        std::string places;
        for (const Buffer& buffer : buffers_) {
            places += buffer.on_gpu ? 'g' : 'h';
        }
        return places;
    }

  private:
    struct Buffer {
        void* data;
        size_t bytes;
        bool on_gpu;
    };

    std::mt19937* random_;
    std::vector<Buffer> buffers_;
    std::vector<long> told_;
};

struct Case {
    const char* name;
    int fewest_ranks;
    std::function<void(Trial&)> make;
};
using Cases = std::vector<Case>;

// A datatype that is committed, and freed with this.
class Type {
  public:
    explicit Type(MPI_Datatype made) : handle_(made) { MPI_Type_commit(&handle_); }
    Type(Type&& other) noexcept : handle_(other.handle_) { other.handle_ = MPI_DATATYPE_NULL; }
    Type(const Type&) = delete;
    Type& operator=(const Type&) = delete;
    ~Type() { free(); }

    operator MPI_Datatype() const { return handle_; }
    void free()
    {
        if (handle_ != MPI_DATATYPE_NULL) {
            MPI_Type_free(&handle_);
        }
    }

  private:
    MPI_Datatype handle_;
};

inline Type vector(int count, int length, int stride, MPI_Datatype old = MPI_INT)
{
    MPI_Datatype made;
    MPI_Type_vector(count, length, stride, old, &made);
    return Type(made);
}

inline Type resized(MPI_Datatype old, MPI_Aint low, MPI_Aint extent)
{
    MPI_Datatype made;
    MPI_Type_create_resized(old, low, extent, &made);
    return Type(made);
}

} // namespace compare
