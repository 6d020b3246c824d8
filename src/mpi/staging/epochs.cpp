// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/epochs.hpp"

#include "abi/host.hpp"
#include "mpi/library/apply.hpp"
#include "mpi/library/failure.hpp"

#include <atomic>
#include <exception>
#include <list>
#include <mutex>
#include <utility>

namespace gdr::mpi {

namespace {

constexpr int kEveryTarget = -1;

struct Pending {
    Word window;
    int target;
    Operation operation;
};

struct Table {
    std::mutex mutex;
    std::list<Pending> pending;
    std::atomic<size_t> size{0};
};

Table& table()
{
    static auto& instance = *new Table; // outlives static destructors that still call MPI
    return instance;
}

int target_of(const Call& call, const Word* words)
{
    return call.target < 0 ? kEveryTarget : static_cast<int>(words[call.target]);
}

// In MPI_Win_free alone by its address.
Word window_of(const Abi& abi, const Call& call, const Word* words)
{
    return call.window < 0 ? abi.handle_at(reinterpret_cast<void*>(words[0]), 0)
                           : abi.handle(words[call.window]);
}

std::list<Pending> take(Word window, int target)
{
    Table& t = table();
    std::list<Pending> taken;
    const std::lock_guard guard(t.mutex);
    for (auto next = t.pending.begin(); next != t.pending.end();) {
        const auto pending = next++;
        if (pending->window == window && (target == kEveryTarget || pending->target == target))
            taken.splice(taken.end(), t.pending, pending);
    }
    t.size.fetch_sub(taken.size(), std::memory_order_relaxed);
    return taken;
}

} // namespace

void add_to_epoch(const Abi& abi, const Call& call, const Word* words, Operation operation)
{
    std::list<Pending> added;
    added.push_back({window_of(abi, call, words), target_of(call, words), std::move(operation)});
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    t.pending.splice(t.pending.end(), added);
    t.size.fetch_add(1, std::memory_order_relaxed);
}

bool any_in_epochs()
{
    return table().size.load(std::memory_order_relaxed) != 0;
}

int synchronise(const Library& library, const Call& call, gdr_mpi_function* function, Word* words)
{
    const Word window = window_of(*library.abi, call, words); // MPI_Win_free clears it
    const int result = apply(function, call, words);
    if (result != 0)
        return result;
    try {
        EachStep steps;
        for (const Pending& pending : take(window, target_of(call, words)))
            steps.attempt([&] { pending.operation.put_back(); });
        steps.end();
    } catch (const std::exception& error) {
        return fail(library, call, words, error);
    }
    return result;
}

} // namespace gdr::mpi
