// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls that read and write files, each in all its forms.
#pragma once

#include "call.hpp"

#include <algorithm>

namespace calls {

// A block of n integers for each rank.
class File {
  public:
    explicit File(int n) : n_(n)
    {
        const char* directory = std::getenv("TMPDIR");
        const std::string path = std::string(directory != nullptr ? directory : "/tmp") +
                                 "/mpi_calls.file" + std::to_string(thread);
        MPI_File_open(world, path.c_str(),
                      MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                      &file_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { MPI_File_close(&file_); }

    MPI_File handle() const { return file_; }
    MPI_Offset offset(int of_rank) const
    {
        return static_cast<MPI_Offset>(of_rank) * n_ * static_cast<MPI_Offset>(sizeof(int));
    }

    // From and to host memory, by the calls that are best tested.
    void write(int of_rank)
    {
        std::vector<int> block(n_);
        for (int i = 0; i < n_; ++i) {
            block[i] = mark(of_rank) + i;
        }
        MPI_File_write_at_all(file_, offset(of_rank), block.data(), n_, MPI_INT, MPI_STATUS_IGNORE);
        settle();
    }
    std::vector<int> read(int block)
    {
        settle();
        std::vector<int> found(n_);
        MPI_File_read_at_all(file_, offset(block), found.data(), n_, MPI_INT, MPI_STATUS_IGNORE);
        return found;
    }

  private:
    void settle()
    {
        MPI_File_sync(file_);
        MPI_Barrier(world);
        MPI_File_sync(file_);
    }

    const int n_;
    MPI_File file_;
};

// What goes where, by the name of the call.
struct FileCall {
    std::string name;
    bool writes, at, shared, ordered, split;

    explicit FileCall(const std::string& of)
        : name(of), writes(has("write")), at(has("_at")), shared(has("_shared")),
          ordered(has("_ordered")), split(has("_begin"))
    {
    }

  private:
    bool has(const char* part) const { return name.find(part) != std::string::npos; }
};

// One call, or two: X_begin and X_end.
template <class Count>
void transfer(const Form& form, const FileCall& call, const File& file, int block, Buffer& buffer,
              int n)
{
    if (!call.split) {
        if (call.at) {
            receiving(form, file.handle(), file.offset(block), buffer.data(), Count{n},
                      buffer.type());
        } else {
            receiving(form, file.handle(), buffer.data(), Count{n}, buffer.type());
        }
        return;
    }
    if (call.at) {
        invoke(form.name, file.handle(), file.offset(block), buffer.data(), Count{n},
               buffer.type());
    } else {
        invoke(form.name, file.handle(), buffer.data(), Count{n}, buffer.type());
    }
    const std::string end = form.name.substr(0, form.name.find("_begin")) + "_end";
    invoke(end, file.handle(), buffer.data(), MPI_STATUS_IGNORE);
}

// Blocks in an order that is left to MPI: each rank has one rank's whole block, all different.
inline void expect_any_order(const std::vector<int>& block)
{
    const int writer = block.front() / mark(0) - 1;
    for (size_t i = 0; i < block.size(); ++i) {
        wrong += block[i] != mark(writer) + static_cast<int>(i);
    }
    std::vector<int> writers(ranks);
    MPI_Allgather(&writer, 1, MPI_INT, writers.data(), 1, MPI_INT, world);
    std::ranges::sort(writers);
    for (int r = 0; r < ranks; ++r) {
        wrong += writers[r] != r;
    }
}

template <class Count>
void file_call(const Form& form, int n)
{
    const FileCall call(form.name);
    File file(n);
    // Each writes its own block, reads the previous rank's; of ordered calls, its own.
    const int block = call.writes || call.ordered ? rank : previous();
    Buffer buffer(n, call.writes ? mark(rank) : 0);
    if (!call.writes) {
        file.write(rank);
    }
    if (call.shared || call.ordered) {
        MPI_File_seek_shared(file.handle(), 0, MPI_SEEK_SET);
    } else if (!call.at) {
        MPI_File_seek(file.handle(), file.offset(block), MPI_SEEK_SET);
    }
    transfer<Count>(form, call, file, block, buffer, n);
    const std::vector<int> found = call.writes ? file.read(block) : buffer.content();
    if (call.shared) {
        expect_any_order(found);
        return;
    }
    for (size_t i = 0; i < found.size(); ++i) {
        wrong += found[i] != mark(block) + static_cast<int>(i);
    }
}

inline std::vector<Call> file_calls()
{
    std::vector<Call> made;
    for (const std::string kind : {"read", "write"}) {
        for (const char* where : {"", "_all", "_at", "_at_all", "_shared", "_ordered"}) {
            const std::string name = kind + where;
            std::vector<Form> forms = {{"MPI_File_" + name, Completion::blocking}};
            if (name.find("_ordered") == std::string::npos) {
                forms.push_back({"MPI_File_i" + name, Completion::nonblocking});
            }
            if (name.find("_all") != std::string::npos ||
                name.find("_ordered") != std::string::npos) {
                forms.push_back({"MPI_File_" + name + "_begin", Completion::blocking});
            }
            add_forms(made, forms, file_call<int>, file_call<MPI_Count>);
        }
    }
    return made;
}

} // namespace calls
