// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/requests.hpp"

#include "abi/host.hpp"
#include "mpi/apply.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace gdr::mpi {

namespace {

struct Request {
    Operation operation;
    const bool persistent;
    bool started; // and not yet seen to be complete; one thread at a time has a request
};
using Shared = std::shared_ptr<Request>;

struct Freed { // by the application, while it goes on
    Word handle;
    Shared request;
};

// Handles are those of requests that are under way: see add_request. MPI may give one away anew as
// soon as a call has completed its request, when the thread that called has not yet come back to
// remove it here: of two with the same handle the newer is the one that a call to come is about.
struct Table {
    std::mutex mutex;
    std::multimap<Word, Shared> by_handle; // of the same handle, the newest last
    std::vector<Freed> freed;
    std::atomic<size_t> size{0}; // of both
};

Table& table()
{
    static auto& instance = *new Table; // outlives static destructors that still call MPI
    return instance;
}

// Before the call that may complete it. Empty if it is not one of ours.
Shared find(Word handle)
{
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    const auto [oldest, end] = t.by_handle.equal_range(handle);
    return oldest == end ? nullptr : std::prev(end)->second;
}

void remove(Word handle, const Shared& request)
{
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    const auto [oldest, end] = t.by_handle.equal_range(handle);
    t.by_handle.erase(
        std::find_if(oldest, end, [&](const auto& entry) { return entry.second == request; }));
    t.size.fetch_sub(1, std::memory_order_relaxed);
}

// Once for each start.
void put_back(Request& request)
{
    if (std::exchange(request.started, false))
        request.operation.put_back();
}

// Those that the application freed and MPI has completed by now.
void collect_freed(const Library& library)
{
    Table& t = table();
    std::vector<Freed> open;
    {
        const std::lock_guard guard(t.mutex);
        open.swap(t.freed);
    }
    for (Freed& freed : open) {
        int done = 0;
        library.Test(&freed.handle, &done, library.abi->status_ignore);
        if (done != 0) {
            put_back(*freed.request);
            if (freed.request->persistent)
                library.Request_free(&freed.handle);
            t.size.fetch_sub(1, std::memory_order_relaxed);
        } else {
            const std::lock_guard guard(t.mutex);
            t.freed.push_back(std::move(freed));
        }
    }
}

// The requests of one call, as they were before it.
class Requests {
  public:
    Requests(const Library& library, void* array, size_t count) : library_(library), array_(array)
    {
        for (size_t i = 0; i < count; ++i)
            before_.emplace_back(now(i), find(now(i)));
    }

    void start() const
    {
        for (const auto& [handle, request] : before_) {
            if (request) {
                request->operation.fetch();
                request->started = true;
            }
        }
    }

    // MPI has completed it.
    void complete(size_t index) const
    {
        const auto& [handle, request] = before_[index];
        if (!request)
            return;
        if (now(index) == library_.request_null)
            remove(handle, request);
        put_back(*request);
    }
    void complete_all() const
    {
        for (size_t i = 0; i < before_.size(); ++i)
            complete(i);
    }
    // After an error MPI has freed those that are complete.
    void complete_freed() const
    {
        for (size_t i = 0; i < before_.size(); ++i) {
            if (now(i) == library_.request_null)
                complete(i);
        }
    }

  private:
    Word now(size_t index) const { return library_.abi->handle_at(array_, index); }

    const Library& library_;
    void* array_;
    std::vector<std::pair<Word, Shared>> before_;
};

int integer_at(Word address, int index = 0)
{
    return reinterpret_cast<const int*>(address)[index];
}

void complete_what_is(const Call& call, const Requests& requests, const Word* words, int result)
{
    if (result != 0) {
        requests.complete_freed();
        return;
    }
    switch (call.kind) {
    case Kind::wait:
    case Kind::waitall:
        requests.complete_all();
        break;
    case Kind::test:
        if (integer_at(words[1]) != 0)
            requests.complete_all();
        break;
    case Kind::testall:
        if (integer_at(words[2]) != 0)
            requests.complete_all();
        break;
    case Kind::waitany:
        if (integer_at(words[2]) >= 0) // not MPI_UNDEFINED
            requests.complete(integer_at(words[2]));
        break;
    case Kind::testany:
        if (integer_at(words[3]) != 0 && integer_at(words[2]) >= 0)
            requests.complete(integer_at(words[2]));
        break;
    case Kind::some:
        for (int i = 0; i < integer_at(words[2]); ++i) // MPI_UNDEFINED is negative
            requests.complete(integer_at(words[3], i));
        break;
    default:
        break;
    }
}

// What goes on keeps its stand-ins: the request is freed later.
int free_request(const Library& library, const Call& call, gdr_mpi_function* function, Word* words)
{
    void* const place = reinterpret_cast<void*>(words[0]);
    const Word handle = library.abi->handle_at(place, 0);
    Shared request = find(handle);
    if (!request)
        return apply(function, call, words);
    remove(handle, request);
    if (!request->started)
        return apply(function, call, words);
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    t.freed.push_back({handle, std::move(request)});
    t.size.fetch_add(1, std::memory_order_relaxed);
    std::memcpy(place, &library.request_null, library.abi->handle_size());
    return 0;
}

} // namespace

bool any_requests()
{
    return table().size.load(std::memory_order_relaxed) != 0;
}

void add_request(const Library& library, Word handle, Operation operation, bool persistent)
{
    collect_freed(library);
    int done = 0;
    if (!persistent)
        library.Request_get_status(handle, &done, library.abi->status_ignore);
    if (done != 0) {
        operation.put_back();
        return;
    }
    auto request = std::make_shared<Request>(std::move(operation), persistent, !persistent);
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    t.by_handle.emplace(handle, std::move(request));
    t.size.fetch_add(1, std::memory_order_relaxed);
}

int call_with_requests(const Library& library, const Call& call, gdr_mpi_function* function,
                       Word* words)
{
    int result = 0;
    bool called = false;
    try {
        collect_freed(library);
        if (call.kind == Kind::free)
            return free_request(library, call, function, words);
        const bool several =
            call.kind != Kind::wait && call.kind != Kind::test && call.kind != Kind::start;
        const auto count =
            several ? static_cast<size_t>(std::max(0, static_cast<int>(words[0]))) : 1;
        const Requests requests(library, reinterpret_cast<void*>(words[several ? 1 : 0]), count);
        if (call.kind == Kind::start || call.kind == Kind::startall)
            requests.start();
        called = true;
        result = apply(function, call, words);
        complete_what_is(call, requests, words, result);
    } catch (const std::exception& error) {
        gdr_log(error, "MPI_%s: a buffer on a GPU could not be copied: %s", call.name,
                error.what());
        return called && result != 0 ? result : library.abi->error_other;
    }
    return result;
}

} // namespace gdr::mpi
