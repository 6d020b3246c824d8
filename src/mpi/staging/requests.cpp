// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/requests.hpp"

#include "log/log.hpp"
#include "mpi/interface/failure.hpp"
#include "mpi/interface/scope_end.hpp"
#include "mpi/interface/statuses.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gdr::mpi {

namespace {

int integer_at(Word address, int index = 0)
{
    return reinterpret_cast<const int*>(address)[index];
}

bool several_statuses(const Call& call)
{
    return call.kind == Kind::waitall || call.kind == Kind::testall || call.kind == Kind::some;
}

struct Request {
    RequestedOperation operation;
    bool persistent;
    bool started; // and not yet known to be complete
};

struct Freed { // freed by the application, while it is active
    Word handle;
    Request request;
};

// The active requests that no call works on. A call takes its own out, since MPI may reuse a handle
// as soon as it has completed the request, before the call returns.
struct Table {
    using Requests = std::unordered_map<Word, Request>;

    std::mutex mutex;
    Requests by_handle;
    std::vector<Freed> freed;
    std::mutex collecting;             // one thread at a time
    size_t collected = 0;              // freed requests that this thread has taken out
    std::atomic<size_t> size{0};       // of by_handle and freed
    std::atomic<size_t> freed_size{0}; // of freed

    void put(Requests::node_type request)
    {
        const std::lock_guard guard(mutex);
        by_handle.insert(std::move(request));
        count();
    }

    // Empty if it is not one of ours.
    Requests::node_type take(Word handle)
    {
        const std::lock_guard guard(mutex);
        auto request = by_handle.extract(handle);
        count();
        return request;
    }

    // Called by the thread that collects.
    void end_collecting()
    {
        {
            const std::lock_guard guard(mutex);
            collected = 0;
            count();
        }
        collecting.unlock();
    }

    // Under the mutex.
    void count()
    {
        const size_t all_freed = freed.size() + collected;
        size.store(by_handle.size() + all_freed, std::memory_order_relaxed);
        freed_size.store(all_freed, std::memory_order_relaxed);
    }
};

Table& table()
{
    static auto& instance = *new Table; // static destructors may still call MPI
    return instance;
}

// received: bytes, if the operation is counted().
void put_back(const Library& library, const RequestedOperation& operation, uint64_t received)
{
    if (const auto* in_epoch = std::get_if<std::shared_ptr<EpochOperation>>(&operation)) {
        complete_by_request(library, *in_epoch);
    } else {
        std::get<Operation>(operation).put_back(received);
    }
}

// Once for each start.
void put_back(const Library& library, Request& request, uint64_t received)
{
    if (std::exchange(request.started, false)) {
        put_back(library, request.operation, received);
    }
}

// There is no call left that could fail.
void put_back_freed(const Library& library, Request& request, uint64_t received)
{
    try {
        put_back(library, request, received);
    } catch (const std::exception& error) {
        gdr_log(error,
                "a buffer on a GPU lacks what MPI has received: the program freed the request "
                "(MPI_Request_free), and the copy failed afterwards: %s",
                error.what());
    }
}

// The requests of one call, taken out of the table while it lasts. Those that stay active, or are
// persistent, return to the table.
class Requests {
  public:
    Requests(const Library& library, void* array, size_t count) : library_(library), array_(array)
    {
        requests_.reserve(count);
        for (size_t i = 0; i < count; ++i) {
            requests_.push_back(table().take(library.abi->handle_at(array, i)));
        }
    }
    // Provides the statuses in which the call will report lengths.
    void ask_how_much(const Call& call, Word* words)
    {
        if (std::ranges::any_of(requests_, is_counted)) {
            statuses_.emplace(library_, call, words, several_statuses(call) ? requests_.size() : 1);
        }
    }
    Requests(const Requests&) = delete;
    Requests& operator=(const Requests&) = delete;
    ~Requests()
    {
        for (Node& request : requests_) {
            if (!request.empty()) {
                table().put(std::move(request));
            }
        }
    }

    void fetch(const cuda::Driver& driver) const
    {
        RowCopies copies(driver, Direction::from_device);
        for (const Node& request : requests_) {
            if (request.empty()) {
                continue;
            }
            if (const auto* operation = std::get_if<Operation>(&request.mapped().operation)) {
                operation->fetch(copies);
            }
        }
        copies.wait();
    }
    // MPI has started them. A request that it refused to start has nothing to put back.
    void started()
    {
        for (Node& request : requests_) {
            if (!request.empty()) {
                request.mapped().started = true;
            }
        }
    }

    // MPI has completed the request and reports it in this status.
    void complete(size_t index, size_t status)
    {
        put_back_from(index, is_counted(requests_[index]) ? statuses_->received(status) : 0);
    }
    void complete_all()
    {
        EachStep steps;
        for (size_t i = 0; i < requests_.size(); ++i) {
            steps.attempt([&] { complete(i, i); });
        }
        steps.end();
    }
    // After an error MPI has freed the requests that are complete, but not persistent ones, whose
    // state has to be queried. status_of(index): which status reports how a request ended.
    template <typename StatusOf>
    void complete_ended(StatusOf status_of)
    {
        EachStep steps;
        for (size_t i = 0; i < requests_.size(); ++i) {
            if (const std::optional<uint64_t> received = received_if_ended(i, status_of)) {
                steps.attempt([&] { put_back_from(i, *received); });
            }
        }
        steps.end();
    }

  private:
    using Node = Table::Requests::node_type;

    static bool is_counted(const Node& request)
    {
        const auto* operation =
            request.empty() ? nullptr : std::get_if<Operation>(&request.mapped().operation);
        return operation != nullptr && operation->counted();
    }
    void put_back_from(size_t index, uint64_t received)
    {
        Node& request = requests_[index];
        if (request.empty()) {
            return;
        }
        if (!is_null(index)) {
            put_back(library_, request.mapped(), received);
            return;
        }
        Node completed = std::move(request);
        put_back(library_, completed.mapped(), received);
    }
    bool is_null(size_t index) const
    {
        return library_.abi->handle_at(array_, index) == library_.request_null;
    }
    bool has_ended(size_t index, const Statuses& status) const
    {
        const Node& request = requests_[index];
        int done = 0;
        if (!request.empty() && request.mapped().persistent && request.mapped().started) {
            library_.Request_get_status(request.key(), &done, status.word());
        }
        return done != 0;
    }
    // 0 for a failed request. Some libraries have completed more than they report.
    template <typename StatusOf>
    std::optional<uint64_t> received_if_ended(size_t index, StatusOf status_of) const
    {
        const Statuses asked(library_);
        if (!is_null(index) && !has_ended(index, asked)) {
            return std::nullopt;
        }
        if (!is_counted(requests_[index])) {
            return 0;
        }
        const std::optional<size_t> told = status_of(index);
        if (told && !statuses_->failed(*told)) {
            return statuses_->received(*told);
        }
        return is_null(index) ? 0 : asked.received(0);
    }

    const Library& library_;
    void* array_;
    std::vector<Node> requests_;
    std::optional<Statuses> statuses_; // if one of them is counted
};

// Nothing: MPI does not report how this one of several requests ended.
std::optional<size_t> status_of(const Call& call, const Word* words, size_t request)
{
    if (call.kind == Kind::waitall || call.kind == Kind::testall) {
        return request;
    }
    for (int i = 0; call.kind == Kind::some && i < integer_at(words[2]); ++i) {
        if (integer_at(words[3], i) == static_cast<int>(request)) {
            return static_cast<size_t>(i);
        }
    }
    return std::nullopt;
}

void complete_what_is(const Call& call, Requests& requests, const Word* words, int result)
{
    if (result != 0) {
        requests.complete_ended([&](size_t request) { return status_of(call, words, request); });
        return;
    }
    switch (call.kind) {
    case Kind::wait:
    case Kind::waitall:
        requests.complete_all();
        break;
    case Kind::test:
    case Kind::status:
        if (integer_at(words[1]) != 0) {
            requests.complete_all();
        }
        break;
    case Kind::testall:
        if (integer_at(words[2]) != 0) {
            requests.complete_all();
        }
        break;
    case Kind::waitany:
        if (integer_at(words[2]) >= 0) { // not MPI_UNDEFINED
            requests.complete(integer_at(words[2]), 0);
        }
        break;
    case Kind::testany:
        if (integer_at(words[3]) != 0 && integer_at(words[2]) >= 0) {
            requests.complete(integer_at(words[2]), 0);
        }
        break;
    case Kind::some: {
        EachStep steps;
        for (int i = 0; i < integer_at(words[2]); ++i) { // MPI_UNDEFINED is negative
            steps.attempt([&] { requests.complete(integer_at(words[3], i), i); });
        }
        steps.end();
        break;
    }
    default:
        break;
    }
}

// The place of the call's request or requests, and their number.
struct Place {
    void* array;
    size_t count;
};

Place one_at(void* place)
{
    return {place, place == nullptr ? 0U : 1U}; // MPI complains
}

Place several_of(const Invocation& invocation)
{
    void* const array = invocation.pointer(1);
    return {array, array == nullptr ? 0U : static_cast<size_t>(std::max(0, invocation.integer(0)))};
}

} // namespace

const std::atomic<size_t>& number_of_requests()
{
    return table().size;
}

bool any_freed()
{
    return table().freed_size.load(std::memory_order_relaxed) != 0;
}

void collect_freed(const Library& library)
{
    // Another thread may have just seen a request incomplete that this thread knows to be complete.
    // So each thread looks itself before its call returns.
    Table& t = table();
    t.collecting.lock();
    const ScopeEnd turn([](void* table) { static_cast<Table*>(table)->end_collecting(); }, &t);
    std::vector<Freed> open;
    {
        const std::lock_guard guard(t.mutex);
        if (t.freed.empty()) {
            return;
        }
        open.swap(t.freed);
        t.collected = open.size();
    }
    for (Freed& freed : open) {
        int done = 0;
        const Statuses status(library);
        library.Test(&freed.handle, &done, status.word());
        if (done != 0) {
            put_back_freed(library, freed.request, status.received(0));
            if (freed.request.persistent) {
                library.Request_free(&freed.handle);
            }
        } else {
            const std::lock_guard guard(t.mutex);
            t.freed.push_back(std::move(freed));
        }
    }
}

void add_request(const Library& library, Word handle, RequestedOperation operation, bool persistent,
                 bool own_handle)
{
    int done = 0;
    const Statuses status(library);
    if (!persistent && !own_handle) {
        library.Request_get_status(handle, &done, status.word());
    }
    if (done != 0) {
        put_back(library, operation, status.received(0));
        return;
    }
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    t.by_handle.insert_or_assign(handle, Request{std::move(operation), persistent, !persistent});
    t.count();
}

std::optional<int> start_requests(const Invocation& invocation)
{
    if (number_of_requests() == 0) {
        return std::nullopt;
    }
    const auto [array, count] = invocation.call().kind == Kind::start
                                    ? one_at(invocation.pointer(0))
                                    : several_of(invocation);
    Requests requests(invocation.library(), array, count);
    requests.fetch(*invocation.driver());
    const int result = invocation.make();
    if (result == 0) {
        requests.started();
    }
    return result;
}

std::optional<int> complete_requests(const Invocation& invocation)
{
    if (number_of_requests() == 0) {
        return std::nullopt;
    }
    const Kind kind = invocation.call().kind;
    Word asked = invocation.handle(0); // by value
    const auto [array, count] = kind == Kind::status ? one_at(&asked)
                                : kind == Kind::wait || kind == Kind::test
                                    ? one_at(invocation.pointer(0))
                                    : several_of(invocation);
    int result = 0;
    try {
        Requests requests(invocation.library(), array, count);
        requests.ask_how_much(invocation.call(), invocation.words());
        result = invocation.make();
        complete_what_is(invocation.call(), requests, invocation.words(), result);
    } catch (const std::exception& error) {
        if (result == 0) {
            throw;
        }
        fail(invocation.library(), invocation.call(), invocation.words(), error);
    }
    return result;
}

// An active request keeps its shadow buffers and is freed later.
std::optional<int> free_request(const Invocation& invocation)
{
    const Library& library = invocation.library();
    void* const place = invocation.pointer(0);
    if (number_of_requests() == 0 || place == nullptr) {
        return std::nullopt;
    }
    Table& t = table();
    auto request = t.take(library.abi->handle_at(place, 0));
    if (request.empty()) {
        return std::nullopt;
    }
    if (!request.mapped().started) {
        return invocation.make();
    }
    // MPI forbids freeing these. What the operation fetches is there when the window is
    // synchronised.
    if (std::holds_alternative<std::shared_ptr<EpochOperation>>(request.mapped().operation)) {
        const int result = invocation.make();
        if (result != 0) {
            t.put(std::move(request));
        }
        return result;
    }
    const std::lock_guard guard(t.mutex);
    t.freed.push_back({request.key(), std::move(request.mapped())});
    t.count();
    std::memcpy(place, &library.request_null, library.abi->handle_size());
    return 0;
}

} // namespace gdr::mpi
