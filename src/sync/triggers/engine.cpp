// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The life of operations and waits.
#include "sync/triggers/engine.hpp"

#include "sync/triggers/flush.hpp"
#include "sync/triggers/node.hpp"
#include "sync/ucx/log.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace gdr::sync {

ugdr_context_counters_t Engine::counters() const
{
    return {triggered_, posted_, completed_, failed_, flushes_, 0};
}

unsigned Engine::progress()
{
    unsigned served = 0;
    for (Served* one = served_; one != nullptr; one = one->next) {
        served += one->progress();
    }
    if (!has_work()) {
        return served;
    }
    if (settings_.lock != nullptr) {
        settings_.lock(settings_.lock_arg);
    }
    // First: a trigger that was just found may be for an operation that is still in the inbox.
    unsigned events = served + handle_commands();
    events += begin_rounds();
    events += look_at_streams();
    if (settings_.worker != nullptr && (outstanding_ > 0 || settings_.own)) {
        events += ucx_.ucp_worker_progress(settings_.worker);
        events += handle_commands(); // the completions of that progress
    }
    events += test_calls();
    if (settings_.unlock != nullptr) {
        settings_.unlock(settings_.lock_arg);
    }
    release_streams(true);
    open_gates(true);
    return events;
}

bool Engine::has_work()
{
    return find_rounds() || outstanding_ > 0 || calls_ != nullptr || settings_.own ||
           !inbox_.empty() ||
           std::any_of(watched_.begin(), watched_.end(),
                       [](const WatchedStream& stream) { return stream.triggered(); });
}

unsigned Engine::handle_commands()
{
    unsigned count = 0;
    for (Command* command = inbox_.take(); command != nullptr; ++count) {
        Command* next = command->next; // handling the command may recycle it
        Operation* operation = command->operation;
        switch (command->kind) {
        case Command::Kind::start:
            if (operation->node != nullptr) {
                attach(*operation);
                break;
            }
            if (operation->joins != nullptr) {
                await(*operation->joins, *operation);
            }
            link(*operation);
            arm(*operation);
            break;
        case Command::Kind::finished:
            --outstanding_;
            finish(*operation, operation->ucp_status);
            break;
        case Command::Kind::cancel:
            cancel(*operation);
            break;
        case Command::Kind::wait:
            begin(*command->waiting);
            break;
        case Command::Kind::wait_closed:
            std::erase(open_waits_, command->waiting);
            complete_one(*command->waiting);
            break;
        case Command::Kind::node:
            take(*command->node);
            break;
        case Command::Kind::node_ended:
            end(*command->node);
            break;
        case Command::Kind::serve:
            command->served->next = served_;
            served_ = command->served;
            break;
        case Command::Kind::leave:
            leave(*command->served);
            break;
        }
        command = next;
    }
    return count;
}

void Engine::leave(Served& served)
{
    Served** place = &served_;
    while (*place != &served) {
        place = &(*place)->next;
    }
    *place = served.next;
    served.left.store(true, std::memory_order_release); // it may be gone then
}

// ---- conditions

// Inserts the operation after those of its own and of earlier points. look_at_streams() starts it,
// even if the stream has already reached its point.
void Engine::arm(Operation& operation)
{
    Stream* stream = operation.stream;
    if (stream == nullptr) {
        start(operation);
        return;
    }
    operation.next_armed = nullptr;
    if (stream->armed == nullptr) {
        stream->armed = stream->last_armed = &operation;
        watched_.push_back({&stream->words.host->reached, operation.point, stream});
    } else if (stream->last_armed->point <= operation.point) {
        stream->last_armed = stream->last_armed->next_armed = &operation;
    } else {
        Operation** place = &stream->armed;
        while ((*place)->point <= operation.point) {
            place = &(*place)->next_armed;
        }
        operation.next_armed = *place;
        *place = &operation;
        if (place == &stream->armed) {
            watch_of(*stream).point = operation.point;
        }
    }
}

WatchedStream& Engine::watch_of(Stream& stream)
{
    return *std::find_if(watched_.begin(), watched_.end(),
                         [&](const WatchedStream& one) { return one.stream == &stream; });
}

unsigned Engine::look_at_streams()
{
    unsigned count = 0;
    for (size_t i = 0; i < watched_.size();) {
        if (!watched_[i].triggered()) {
            ++i;
            continue;
        }
        Stream* stream = watched_[i].stream;
        const uint64_t reached = stream->words.host->reached.load(std::memory_order_acquire);
        stream->hold(); // its last operation may end when it starts
        while (stream->armed != nullptr && stream->armed->point <= reached) {
            Operation* operation = stream->armed;
            stream->armed = operation->next_armed;
            start(*operation);
            ++count;
        }
        if (stream->armed == nullptr) {
            watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
            watched_[i++].point = stream->armed->point;
        }
        stream->let_go();
    }
    return count;
}

// ---- operations

void Engine::start(Operation& operation)
{
    Phase waiting = Phase::waiting;
    if (!operation.phase.compare_exchange_strong(waiting, Phase::started)) {
        finish(operation, UCS_ERR_CANCELED);
        return;
    }
    ++triggered_;
    ++posted_;
    if (const Call* call = operation.as<Call>()) {
        const ucs_status_t status = call->start(call->argument);
        if (status != UCS_INPROGRESS) {
            finish(operation, status);
        } else if (call->test == nullptr) {
            finish(operation, UCS_ERR_INVALID_PARAM);
        } else {
            operation.next_call = calls_;
            calls_ = &operation;
        }
        return;
    }
    ++outstanding_; // before the post: the callback may come before UCP's function returns
    const ucs_status_ptr_t request = post(operation);
    if (UCS_PTR_IS_PTR(request)) {
        operation.ucp_request = request;
        return;
    }
    --outstanding_;
    finish(operation, UCS_PTR_STATUS(request));
}

unsigned Engine::test_calls()
{
    unsigned count = 0;
    for (Operation** place = &calls_; *place != nullptr;) {
        Operation* operation = *place;
        const Call& call = *operation->as<Call>();
        const ucs_status_t status = call.test(call.argument);
        if (status == UCS_INPROGRESS) {
            place = &operation->next_call;
            continue;
        }
        *place = operation->next_call;
        finish(*operation, status);
        ++count;
    }
    return count;
}

void Engine::finish(Operation& operation, ucs_status_t status)
{
    tell(operation, status);
    if (operation.ucp_request != nullptr) {
        ucx_.ucp_request_free(std::exchange(operation.ucp_request, nullptr));
    }
    ++completed_;
    if (status != UCS_OK) {
        fail(operation, status);
    }
    if (operation.node != nullptr) {
        end_run(operation, status);
        return;
    }
    unlink(operation);
    unfinished_.fetch_sub(1, std::memory_order_release); // before anybody can see the status
    operation.tell(status);
    for (Wait* wait : operation.waits) {
        complete_one(*wait);
    }
    operation.waits.clear();
    if (operation.stream != nullptr) {
        operation.stream->let_go();
    }
    operation.let_go();
}

// Calls the application's callback with the arguments that UCP would pass.
void Engine::tell(Operation& operation, ucs_status_t status)
{
    if (const TagReceive* receive = operation.as<TagReceive>()) {
        if (receive->user_info != nullptr && status == UCS_OK) {
            *receive->user_info = receive->info;
        }
        if (operation.user_callback.recv != nullptr) {
            operation.user_callback.recv(operation.ucp_request, status, &receive->info,
                                         operation.user_data);
        }
    } else if (operation.user_callback.send != nullptr) {
        operation.user_callback.send(operation.ucp_request, status, operation.user_data);
    }
}

void Engine::fail(const Operation& operation, ucs_status_t status)
{
    ++failed_;
    if (status_ == UCS_OK) {
        report(status, std::string(name_of(operation.arguments)) + " failed");
    }
}

void Engine::report(ucs_status_t status, const std::string& failure)
{
    int none = UCS_OK;
    if (status == UCS_ERR_CANCELED || !status_.compare_exchange_strong(none, status)) {
        return;
    }
    const std::string what = failure + ": " + ucx_.ucs_status_string(status);
    log_once(ucx_, settings_.error != nullptr ? UCS_LOG_LEVEL_DIAG : UCS_LOG_LEVEL_ERROR, what);
    if (settings_.error != nullptr) {
        settings_.error(settings_.error_arg, status, what.c_str());
    }
}

ucs_status_t Engine::cancel_soon(Operation& operation)
{
    Phase phase = Phase::waiting;
    if (operation.node == nullptr &&
        !operation.phase.compare_exchange_strong(phase, Phase::cancelled) &&
        phase != Phase::cancelled && operation.as<TagReceive>() == nullptr) {
        return operation.complete() ? UCS_OK : UCS_ERR_BUSY;
    }
    if (!operation.cancelling.exchange(true)) {
        operation.hold();
        submit(&operation.cancel_command);
    }
    return UCS_OK;
}

void Engine::wait_for(const Operation& operation)
{
    while (!operation.complete()) {
        if (settings_.by_caller) {
            progress();
        } else {
            operation.awaited.store(true);
            operation.status.wait(UCS_INPROGRESS);
        }
    }
}

void Engine::call(const std::function<void()>& body)
{
    struct Task {
        const std::function<void()>& body;
        std::exception_ptr thrown{};
    } task{body};
    const auto start = [](void* argument) {
        auto& started = *static_cast<Task*>(argument);
        try {
            started.body();
        } catch (...) {
            started.thrown = std::current_exception();
        }
        return UCS_OK;
    };
    Operation* const operation = Operation::take(Call{start, nullptr, &task});
    prepare(*operation);
    submit_new(&operation->start_command);
    wait_for(*operation);
    operation->let_go();
    if (task.thrown) {
        std::rethrow_exception(task.thrown);
    }
}

void Engine::cancel(Operation& operation)
{
    if (operation.node != nullptr) {
        cancel_for_good(operation);
    } else if (!operation.complete()) {
        if (operation.phase == Phase::cancelled) {
            Stream* stream = operation.stream;
            Operation** place = &stream->armed;
            Operation* before = nullptr;
            while (*place != nullptr && *place != &operation) {
                before = *place;
                place = &before->next_armed;
            }
            if (*place != nullptr) {
                *place = operation.next_armed;
                if (stream->last_armed == &operation) {
                    stream->last_armed = before;
                }
                if (stream->armed == nullptr) {
                    std::erase_if(watched_,
                                  [&](const WatchedStream& one) { return one.stream == stream; });
                }
                finish(operation, UCS_ERR_CANCELED);
            }
        } else if (operation.phase == Phase::started && operation.ucp_request != nullptr) {
            ucx_.ucp_request_cancel(settings_.worker, operation.ucp_request);
        }
    }
    operation.let_go();
}

// ---- waits

void Engine::begin(Wait& wait)
{
    Stream* stream = wait.stream.get();
    wait.next = nullptr;
    wait.remaining = 0;
    if (wait.open) {
        open_waits_.push_back(&wait);
        wait.remaining = 1;
    }
    if (wait.all) {
        for (Operation* operation = stream->live; operation != nullptr;
             operation = operation->next_live) {
            await(wait, *operation);
        }
    }
    for (Operation* operation : wait.operations) {
        if (!operation->complete()) {
            await(wait, *operation);
        }
        operation->let_go();
    }
    wait.operations.clear();
    if (stream->waiting == nullptr) {
        stream->waiting = &wait;
    } else {
        stream->last_waiting->next = &wait;
    }
    stream->last_waiting = &wait;
    if (wait.remaining == 0) {
        wait.remaining = 1;
        complete_one(wait);
    }
}

void Engine::await(Wait& wait, Operation& operation)
{
    operation.waits.push_back(&wait);
    ++wait.remaining;
}

void Engine::complete_one(Wait& wait)
{
    if (--wait.remaining == 0 && !wait.stream->freed) {
        wait.stream->freed = true;
        freed_.push_back(wait.stream.get());
    }
}

// A stream's waits end in its order; the released word tells the last one that is over. Data that
// the HCA has written must be visible before that.
void Engine::release_streams(bool may_flush)
{
    for (Stream* stream : freed_) {
        stream->freed = false;
        uint64_t number = 0, count = 0;
        Wait* over = stream->waiting;
        Wait* end = over;
        for (; end != nullptr && end->remaining == 0; end = end->next, ++count) {
            number = end->number;
        }
        stream->waiting = end;
        if (number == 0) {
            continue; // an earlier wait is not over
        }
        if (may_flush && !stream->abilities.sees_writes) {
            flush(stream->name.context);
        }
        unfinished_.fetch_sub(count, std::memory_order_release); // before anybody can see the word
        stream->words.host->released.store(number, std::memory_order_release);
        while (over != end) {
            Wait* next = over->next;
            over->over.store(true, std::memory_order_release);
            over->let_go();
            over = next;
        }
    }
    freed_.clear();
}

void Engine::flush(CUcontext context)
{
    if (flush_writes(ucx_, context)) {
        ++flushes_;
    }
}

// ---- the operations that are not complete

Stream& Engine::home_of(Operation& operation)
{
    return operation.stream != nullptr ? *operation.stream : nowhere_;
}

void Engine::link(Operation& operation)
{
    Stream& home = home_of(operation);
    operation.previous_live = nullptr;
    operation.next_live = home.live;
    if (home.live != nullptr) {
        home.live->previous_live = &operation;
    } else {
        home.busy_index = busy_.size();
        busy_.push_back(&home);
    }
    home.live = &operation;
}

void Engine::unlink(Operation& operation)
{
    Stream& home = home_of(operation);
    if (operation.next_live != nullptr) {
        operation.next_live->previous_live = operation.previous_live;
    }
    if (operation.previous_live != nullptr) {
        operation.previous_live->next_live = operation.next_live;
    } else {
        home.live = operation.next_live;
    }
    if (home.live == nullptr) {
        busy_[home.busy_index] = busy_.back();
        busy_[home.busy_index]->busy_index = home.busy_index;
        busy_.pop_back();
    }
}

// Returns whether UCP, or a thread that UCP has called back, still uses the operation and this
// engine.
bool Engine::abandon(Operation& operation)
{
    Phase phase = Phase::started;
    if (operation.as<Call>() != nullptr ||
        !operation.phase.compare_exchange_strong(phase, Phase::abandoned)) {
        const bool told = phase == Phase::finished;
        if (told) {
            operation.hold(); // for good
        }
        finish(operation, told ? operation.ucp_status : UCS_ERR_CANCELED);
        return told;
    }
    operation.hold(); // until UCP is done with it
    void* request = std::exchange(operation.ucp_request, nullptr);
    const bool receive = operation.as<TagReceive>() != nullptr;
    finish(operation, UCS_ERR_CANCELED);
    if (receive) {
        ucx_.ucp_request_cancel(settings_.worker, request);
    }
    return true;
}

bool Engine::abandon()
{
    if (settings_.lock != nullptr) {
        settings_.lock(settings_.lock_arg);
    }
    handle_commands();
    calls_ = nullptr;
    watched_.clear();
    bool ucp_has_some = abandon_nodes();
    while (!busy_.empty()) {
        ucp_has_some |= abandon(*busy_.back()->live);
    }
    for (Wait* wait : open_waits_) {
        complete_one(*wait);
    }
    open_waits_.clear();
    if (settings_.unlock != nullptr) {
        settings_.unlock(settings_.lock_arg);
    }
    release_streams(false);
    return ucp_has_some;
}

} // namespace gdr::sync
