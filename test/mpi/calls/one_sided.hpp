// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One-sided calls, each in all its forms: each rank acts on the next one's window.
#pragma once

#include "call.hpp"
#include "library.hpp"

namespace calls {

// What the buffers of the calls are: the window, the origin, and what is fetched into.
struct OneSided {
    Buffer &window, &origin, &result;
    int count;

    // Each may be what the window of this rank was, or that of the next one.
    void expect_put() { window.expect(0, count, mark(previous() + kOrigin)); }
    void expect_fetched() { result.expect(0, count, mark(next())); }
    void expect_sum()
    {
        window.expect(0, count, [](size_t i) {
            return mark(rank) + mark(previous() + kOrigin) + 2 * static_cast<int>(i);
        });
    }

    static constexpr int kOrigin = 100; // added to a rank
};

using Act = std::function<void(OneSided& buffers, MPI_Win window)>;

// Of the window, and of what goes there and comes from there.
struct Layouts {
    Layout window, local;
};
constexpr Layouts kPredefined = {Layout::contiguous, Layout::contiguous};

// MPICH has the CPU handle types with gaps at the target, whose window may be in GPU memory, and
// has it read there what is fetched into such types in host memory.
inline bool cpu_is_at_target()
{
    return Buffer::memory != Buffer::Memory::host && mpich() != Series{};
}
inline Layouts of_puts()
{
    return {cpu_is_at_target() ? Layout::contiguous : Buffer::usual_layout, Buffer::usual_layout};
}
inline Layouts of_gets()
{
    const bool fetched_there = cpu_is_at_target() && Buffer::memory != Buffer::Memory::gpu;
    return fetched_there ? kPredefined : of_puts();
}

// Over UCX Open MPI 4 writes past types with gaps at the target, in host memory, too.
inline Layouts of_sums()
{
    const bool writes_past_them = open_mpi() != Series{} && open_mpi() < Series{5, 0};
    return {writes_past_them ? Layout::contiguous : Buffer::usual_layout, Buffer::usual_layout};
}

// In an epoch of fences, or, with a request, of locks.
inline void one_sided(const Form& form, int n, Layouts layouts, const Act& act,
                      const std::function<void(OneSided&)>& verify)
{
    Buffer exposed(n, mark(rank), layouts.window);
    Buffer origin(n, mark(rank + OneSided::kOrigin), layouts.local), result(n, 0, layouts.local);
    OneSided buffers{exposed, origin, result, n};
    MPI_Win window;
    MPI_Win_create(exposed.data(), n * exposed.extent(), static_cast<int>(exposed.extent()),
                   MPI_INFO_NULL, world, &window);
    if (form.completion == Completion::blocking) {
        MPI_Win_fence(0, window);
        act(buffers, window);
        MPI_Win_fence(0, window);
    } else {
        MPI_Win_lock_all(0, window);
        act(buffers, window);
        MPI_Win_unlock_all(window);
        MPI_Barrier(world);
    }
    verify(buffers);
    MPI_Win_free(&window);
}

constexpr MPI_Aint kAtStart = 0;

template <class Count>
void put(const Form& form, int n)
{
    one_sided(
        form, n, of_puts(),
        [&](OneSided& b, MPI_Win window) {
            sending(form, b.origin.data(), Count{n}, b.origin.type(), next(), kAtStart, Count{n},
                    b.window.type(), window);
        },
        [](OneSided& b) { b.expect_put(); });
}

template <class Count>
void get(const Form& form, int n)
{
    one_sided(
        form, n, of_gets(),
        [&](OneSided& b, MPI_Win window) {
            sending(form, b.result.data(), Count{n}, b.result.type(), next(), kAtStart, Count{n},
                    b.window.type(), window);
        },
        [](OneSided& b) { b.expect_fetched(); });
}

template <class Count>
void accumulate(const Form& form, int n)
{
    one_sided(
        form, n, of_sums(),
        [&](OneSided& b, MPI_Win window) {
            sending(form, b.origin.data(), Count{n}, b.origin.type(), next(), kAtStart, Count{n},
                    b.window.type(), MPI_SUM, window);
        },
        [](OneSided& b) { b.expect_sum(); });
}

template <class Count>
void get_accumulate(const Form& form, int n)
{
    one_sided(
        form, n, of_sums(),
        [&](OneSided& b, MPI_Win window) {
            sending(form, b.origin.data(), Count{n}, b.origin.type(), b.result.data(), Count{n},
                    b.result.type(), next(), kAtStart, Count{n}, b.window.type(), MPI_SUM, window);
        },
        [](OneSided& b) {
            b.expect_fetched();
            b.expect_sum();
        });
}

// Of the first element alone, which is of a predefined type.
inline void fetch_and_op(int n)
{
    one_sided(
        blocking("Fetch_and_op").front(), n, kPredefined,
        [](OneSided& b, MPI_Win window) {
            MPI_Fetch_and_op(b.origin.data(), b.result.data(), MPI_INT, next(), 0, MPI_SUM, window);
        },
        [](OneSided& b) {
            b.result.expect(0, 1, mark(next()));
            b.window.expect(0, 1, mark(rank) + mark(previous() + OneSided::kOrigin));
            b.window.expect(1, b.count - 1, mark(rank) + 1);
        });
}

inline void compare_and_swap(int n)
{
    Buffer expected(1, mark(next()), Layout::contiguous);
    one_sided(
        blocking("Compare_and_swap").front(), n, kPredefined,
        [&](OneSided& b, MPI_Win window) {
            MPI_Compare_and_swap(b.origin.data(), expected.data(), b.result.data(), MPI_INT, next(),
                                 0, window);
        },
        [](OneSided& b) {
            b.result.expect(0, 1, mark(next()));
            b.window.expect(0, 1, mark(previous() + OneSided::kOrigin));
            b.window.expect(1, b.count - 1, mark(rank) + 1);
        });
}

// MPI_X and MPI_RX.
inline std::vector<Form> with_request(const std::string& name)
{
    return {{"MPI_" + name, Completion::blocking},
            {"MPI_" + prefixed("R", name), Completion::nonblocking}};
}

inline std::vector<Call> one_sided_calls()
{
    std::vector<Call> made;
    add_forms(made, with_request("Put"), put<int>, put<MPI_Count>);
    add_forms(made, with_request("Get"), get<int>, get<MPI_Count>);
    add_forms(made, with_request("Accumulate"), accumulate<int>, accumulate<MPI_Count>);
    add_forms(made, with_request("Get_accumulate"), get_accumulate<int>, get_accumulate<MPI_Count>);
    made.push_back({"MPI_Fetch_and_op", fetch_and_op});
    made.push_back({"MPI_Compare_and_swap", compare_and_swap});
    return made;
}

} // namespace calls
