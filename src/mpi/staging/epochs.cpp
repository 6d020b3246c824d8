// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/epochs.hpp"

#include "mpi/interface/failure.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace gdr::mpi {

// If several threads synchronise a window, each waits until the others have put their data back.
struct EpochOperation {
    Word window;
    int target;
    Operation operation;
    bool before_its_data; // the request may complete before the data are there
    std::once_flag put_back{};
    // In the table, under its mutex; empty once the operation is complete.
    std::optional<std::list<std::shared_ptr<EpochOperation>>::iterator> place{};
};

namespace {

constexpr int kEveryTarget = -1;

using Shared = std::shared_ptr<EpochOperation>;

struct Table {
    std::mutex mutex;
    std::list<Shared> pending;
    std::atomic<size_t> size{0};
};

Table& table()
{
    static auto& instance = *new Table; // static destructors may still call MPI
    return instance;
}

int target_of(const Call& call, const Word* words)
{
    return call.target < 0 ? kEveryTarget : static_cast<int>(words[call.target]);
}

// MPI_Win_free alone gets the address of the handle.
Word window_of(const Abi& abi, const Call& call, const Word* words)
{
    return call.window < 0 ? abi.handle_at(reinterpret_cast<void*>(words[0]), 0)
                           : abi.handle(words[call.window]);
}

// MPICH (4.0) makes puts and gets of types with gaps by messages, and the request does not wait for
// those.
bool completes_early(const Library& library, const Call& call)
{
    return library.pml == nullptr && call.form == Form::nonblocking && call.op < 0;
}

// The operations begun so far. Those that other threads begin during the MPI call may not be
// complete.
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

bool is_pending(const Shared& operation)
{
    const std::lock_guard guard(table().mutex);
    return operation->place.has_value();
}

void forget(const Shared& pending)
{
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    if (!pending->place) {
        return;
    }
    t.pending.erase(*std::exchange(pending->place, std::nullopt));
    t.size.fetch_sub(1, std::memory_order_relaxed);
}

// A failed copy is not tried again: the memory may belong to something else by then.
void complete(const Shared& operation)
{
    EachStep steps;
    std::call_once(operation->put_back,
                   [&] { steps.attempt([&] { operation->operation.put_back(); }); });
    forget(operation);
    steps.end();
}

} // namespace

std::shared_ptr<EpochOperation> add_to_epoch(const Library& library, const Call& call,
                                             const Word* words, Operation operation)
{
    std::list<Shared> added;
    added.emplace_back(new EpochOperation{window_of(*library.abi, call, words),
                                          target_of(call, words), std::move(operation),
                                          completes_early(library, call)});
    Shared made = added.front();
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    made->place = added.begin();
    t.pending.splice(t.pending.end(), added);
    t.size.fetch_add(1, std::memory_order_relaxed);
    return made;
}

void complete_by_request(const Library& library, const std::shared_ptr<EpochOperation>& operation)
{
    if (operation->before_its_data && is_pending(operation)) {
        library.Win_flush_local(operation->target, operation->window);
    }
    complete(operation);
}

const std::atomic<size_t>& number_in_epochs()
{
    return table().size;
}

std::optional<int> synchronise(const Invocation& invocation)
{
    if (number_in_epochs() == 0) {
        return std::nullopt;
    }
    const Call& call = invocation.call();
    const std::vector<Shared> ended =
        begun(window_of(*invocation.library().abi, call, invocation.words()),
              target_of(call, invocation.words()));
    const int result = invocation.make();
    if (result != 0) {
        return result;
    }
    EachStep steps;
    for (const Shared& pending : ended) {
        steps.attempt([&] { complete(pending); });
    }
    steps.end();
    return result;
}

} // namespace gdr::mpi
