// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One-sided calls, each in all its forms: each rank acts on the next one's window.
#pragma once

#include "call.hpp"

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

// In an epoch of fences, or, with a request, of locks.
inline void one_sided(const Form& form, int n, const Act& act,
                      const std::function<void(OneSided&)>& verify)
{
    Buffer exposed(n, mark(rank)), origin(n, mark(rank + OneSided::kOrigin)), result(n, 0);
    OneSided buffers{exposed, origin, result, n};
    MPI_Win window;
    MPI_Win_create(exposed.data(), n * static_cast<MPI_Aint>(sizeof(int)), sizeof(int),
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
        form, n,
        [&](OneSided& b, MPI_Win window) {
            sending(form, b.origin.data(), Count{n}, MPI_INT, next(), kAtStart, Count{n}, MPI_INT,
                    window);
        },
        [](OneSided& b) { b.expect_put(); });
}

template <class Count>
void get(const Form& form, int n)
{
    one_sided(
        form, n,
        [&](OneSided& b, MPI_Win window) {
            sending(form, b.result.data(), Count{n}, MPI_INT, next(), kAtStart, Count{n}, MPI_INT,
                    window);
        },
        [](OneSided& b) { b.expect_fetched(); });
}

template <class Count>
void accumulate(const Form& form, int n)
{
    one_sided(
        form, n,
        [&](OneSided& b, MPI_Win window) {
            sending(form, b.origin.data(), Count{n}, MPI_INT, next(), kAtStart, Count{n}, MPI_INT,
                    MPI_SUM, window);
        },
        [](OneSided& b) { b.expect_sum(); });
}

template <class Count>
void get_accumulate(const Form& form, int n)
{
    one_sided(
        form, n,
        [&](OneSided& b, MPI_Win window) {
            sending(form, b.origin.data(), Count{n}, MPI_INT, b.result.data(), Count{n}, MPI_INT,
                    next(), kAtStart, Count{n}, MPI_INT, MPI_SUM, window);
        },
        [](OneSided& b) {
            b.expect_fetched();
            b.expect_sum();
        });
}

// Of the first element alone.
inline void fetch_and_op(int n)
{
    one_sided(
        blocking("Fetch_and_op").front(), n,
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
    Buffer expected(1, mark(next()));
    one_sided(
        blocking("Compare_and_swap").front(), n,
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
