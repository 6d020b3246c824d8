// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the rows of mpi_calls share: the ranks, their buffers, and how a call of MPI is made in each
// of its forms.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>

#include "../gpu.hpp"
#include "layout.hpp"

namespace calls {

inline int rank, ranks;
// Of each thread, which has a communicator of its own.
inline thread_local int thread = 0, wrong = 0;
inline thread_local MPI_Comm world = MPI_COMM_WORLD;

inline int next()
{
    return (rank + 1) % ranks;
}
inline int previous()
{
    return (rank + ranks - 1) % ranks;
}

// A rank's first integer.
inline int mark(int of_rank)
{
    return 1000003 * (of_rank + 1);
}

// Of the marks from rank 0's to last's, each plus i.
inline int sum_of_marks(int last, size_t i)
{
    int sum = 0;
    for (int r = 0; r <= last; ++r) {
        sum += mark(r) + static_cast<int>(i);
    }
    return sum;
}

// Integers in host or GPU memory, set and read through copies.
class Buffer {
  public:
    enum class Memory { host, gpu, random };
    static inline Memory memory = Memory::host;
    static inline Layout usual_layout = Layout::contiguous;
    static inline thread_local std::mt19937 random;

    Buffer(size_t count, int first, Layout layout = usual_layout)
        : layout_(layout), host_(count * step(layout)),
          on_gpu_(memory == Memory::random ? random() % 2 == 0 : memory == Memory::gpu),
          first_(first), first_gap_(layout == Layout::gaps ? random() : 0)
    {
        if (on_gpu_) {
            device_ = static_cast<int*>(gpu::allocate(bytes()));
        }
        set(0);
        all_.push_back(this);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer()
    {
        std::erase(all_, this);
        if (on_gpu_) {
            gpu::free(device_);
        }
    }

    // The thread's buffers, to what they were made with plus that.
    static void set_all(int more)
    {
        for (Buffer* buffer : all_) {
            buffer->set(more);
        }
    }

    // From which on so many elements of this type and extent are in it.
    int* at(size_t element) { return (on_gpu_ ? device_ : host_.data()) + element * step(layout_); }
    int* data() { return at(0); }
    MPI_Datatype type() const { return type_of(layout_); }
    MPI_Op sum() const { return sum_of(layout_); }
    MPI_Aint extent() const { return calls::extent(layout_); }

    // The elements from at on have to be first, first + 1, ... for count, or what the rule says.
    void expect(size_t at, size_t count, const std::function<int(size_t)>& rule)
    {
        const std::vector<int> values = content();
        for (size_t i = 0; i < count; ++i) {
            if (values[at + i] != rule(i) && wrong++ == 0) {
                std::printf("rank %d: element %zu is %d, not %d\n", rank, at + i, values[at + i],
                            rule(i));
            }
        }
    }
    void expect(size_t at, size_t count, int first)
    {
        expect(at, count, [&](size_t i) { return first + static_cast<int>(i); });
    }

    // The elements. What is between them has to be as it was.
    std::vector<int> content()
    {
        if (on_gpu_) {
            gpu::copy(host_.data(), device_, bytes());
        }
        std::vector<int> elements;
        elements.reserve(host_.size() / step(layout_));
        for (size_t place = 0; place < host_.size(); ++place) {
            if (!is_gap(place)) {
                elements.push_back(host_[place]);
            } else if (host_[place] != gap(place) && wrong++ == 0) {
                std::printf("rank %d: the gap at %zu is %d, not %d\n", rank, place, host_[place],
                            gap(place));
            }
        }
        return elements;
    }

  private:
    static inline thread_local std::vector<Buffer*> all_;

    size_t bytes() const { return host_.size() * sizeof(int); }

    void set(int more)
    {
        for (size_t place = 0; place < host_.size(); ++place) {
            host_[place] = is_gap(place) ? gap(place)
                                         : first_ + more + static_cast<int>(place / step(layout_));
        }
        if (on_gpu_) {
            gpu::copy(device_, host_.data(), bytes());
        }
    }

    // Other values than in other buffers' gaps.
    bool is_gap(size_t place) const { return place % step(layout_) != lead(layout_); }
    int gap(size_t place) const
    {
        return static_cast<int>(first_gap_ + static_cast<unsigned>(place));
    }

    const Layout layout_;
    std::vector<int> host_;
    const bool on_gpu_;
    const int first_;
    const unsigned first_gap_;
    int* device_ = nullptr;
};

// A row of the table.
struct Call {
    std::string name;
    std::function<void(int count)> run;
};

// Calls a function that not every MPI has. The types of the arguments are those of its parameters.
template <class... Arguments>
void invoke(const std::string& function, Arguments... arguments)
{
    auto* found = reinterpret_cast<int (*)(Arguments...)>(dlsym(RTLD_DEFAULT, function.c_str()));
    found(arguments...);
}

enum class Completion { blocking, nonblocking, persistent };

// One of the forms of a call, by its full name.
struct Form {
    std::string name;
    Completion completion;

    // What is added to all buffers before each start: a persistent operation has two, the first
    // with other data.
    std::vector<int> starts() const
    {
        return completion == Completion::persistent ? std::vector{7, 0} : std::vector{0};
    }
};

// The request of an operation that is under way, or, a persistent one, inactive.
inline void complete(const Form& form, MPI_Request request)
{
    if (form.completion == Completion::nonblocking) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    for (const int more : form.starts()) {
        Buffer::set_all(more);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
}

// Collective: X, IX or X_init with these arguments, until it is complete.
template <class... Arguments>
void collective(const Form& form, Arguments... arguments)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (form.completion == Completion::blocking) {
        return invoke(form.name, arguments...);
    }
    if (form.completion == Completion::nonblocking) {
        invoke(form.name, arguments..., &request);
    } else {
        invoke(form.name, arguments..., MPI_INFO_NULL, &request);
    }
    complete(form, request);
}

// Another that has no status: X, IX, RX or X_init.
template <class... Arguments>
void sending(const Form& form, Arguments... arguments)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (form.completion == Completion::blocking) {
        return invoke(form.name, arguments...);
    }
    invoke(form.name, arguments..., &request);
    complete(form, request);
}

// One that has a status where it is blocking.
template <class... Arguments>
void receiving(const Form& form, Arguments... arguments)
{
    if (form.completion == Completion::blocking) {
        return invoke(form.name, arguments..., MPI_STATUS_IGNORE);
    }
    sending(form, arguments...);
}

// Displacements, where counts are int or MPI_Count.
template <class Count>
using Displacement = std::conditional_t<std::is_same_v<Count, int>, int, MPI_Aint>;

// What blocks of different sizes hold, at multiples of the largest size.
template <class Count>
struct Shares {
    std::vector<Count> counts;
    std::vector<Displacement<Count>> offsets;

    Shares(int blocks, int count, const std::function<int(int block)>& share_of)
    {
        for (int block = 0; block < blocks; ++block) {
            counts.push_back(share_of(block));
            offsets.push_back(Displacement<Count>{block} * count);
        }
    }
    std::vector<Displacement<Count>> byte_offsets(MPI_Aint extent) const
    {
        std::vector<Displacement<Count>> bytes;
        for (const auto offset : offsets) {
            bytes.push_back(offset * static_cast<Displacement<Count>>(extent));
        }
        return bytes;
    }
};

// "Isend" of "Send".
inline std::string prefixed(const std::string& prefix, std::string name)
{
    name[0] = static_cast<char>(std::tolower(name[0]));
    return prefix + name;
}

// All forms of a call: run<int> and run<MPI_Count> are what makes it, given the form.
using Run = std::function<void(const Form& form, int count)>;

inline void add_forms(std::vector<Call>& to, const std::vector<Form>& forms, const Run& small,
                      const Run& large)
{
    for (const Form& form : forms) {
        to.push_back({form.name, [=](int count) { small(form, count); }});
        if (form.name.starts_with("MPIX_")) {
            continue;
        }
        const Form large_form{form.name + "_c", form.completion};
        to.push_back({large_form.name, [=](int count) { large(large_form, count); }});
    }
}

inline std::vector<Form> blocking(const std::string& name)
{
    return {{"MPI_" + name, Completion::blocking}};
}
inline std::vector<Form> with_nonblocking(const std::string& name)
{
    return {{"MPI_" + name, Completion::blocking},
            {"MPI_" + prefixed("I", name), Completion::nonblocking}};
}
inline std::vector<Form> with_persistent(const std::string& name)
{
    std::vector<Form> forms = with_nonblocking(name);
    forms.push_back({"MPI_" + name + "_init", Completion::persistent});
    return forms;
}

} // namespace calls
