// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/epochs.hpp"

#include "abi/host.hpp"
#include "mpi/library/apply.hpp"
#include "mpi/library/failure.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gdr::mpi {

namespace {

constexpr int kEveryTarget = -1;

struct Pending {
    Word window;
    int target;
    Operation operation;
    std::once_flag put_back{};
};

// Of several threads that synchronise a window each waits for what the others put back.
using Shared = std::shared_ptr<Pending>;

struct Table {
    std::mutex mutex;
    std::list<Shared> pending;
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

// What has been begun by now: what other threads begin while MPI is called may not be complete.
std::vector<Shared> begun(Word window, int target)
{
    Table& t = table();
    std::vector<Shared> found;
    const std::lock_guard guard(t.mutex);
    std::ranges::copy_if(t.pending, std::back_inserter(found), [&](const Shared& pending) {
        return pending->window == window && (target == kEveryTarget || pending->target == target);
    });
    return found;
}

void forget(const Shared& pending)
{
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    t.size.fetch_sub(t.pending.remove(pending), std::memory_order_relaxed);
}

} // namespace

void add_to_epoch(const Abi& abi, const Call& call, const Word* words, Operation operation)
{
    std::list<Shared> added;
    added.emplace_back(
        new Pending{window_of(abi, call, words), target_of(call, words), std::move(operation)});
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
    const std::vector<Shared> ended =
        begun(window_of(*library.abi, call, words), target_of(call, words));
    const int result = apply(function, call, words);
    if (result != 0)
        return result;
    try {
        EachStep steps;
        for (const Shared& pending : ended) {
            steps.attempt(
                [&] { std::call_once(pending->put_back, [&] { pending->operation.put_back(); }); });
            forget(pending);
        }
        steps.end();
    } catch (const std::exception& error) {
        return fail(library, call, words, error);
    }
    return result;
}

} // namespace gdr::mpi
