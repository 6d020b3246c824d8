// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/triggers/operation.hpp"

#include "sync/triggers/engine.hpp"

#include <algorithm>

namespace gdr::sync {

Operation* Operation::take(const Arguments& arguments)
{
    Operation* operation = Pool<Operation>::instance().take();
    operation->arguments = arguments;
    operation->stream = nullptr;
    operation->joins = nullptr;
    operation->node = nullptr;
    operation->runs = 0;
    operation->under_way = operation->leaving = operation->retired = false;
    operation->ucp_request = nullptr;
    operation->user_callback = {};
    operation->param = {};
    operation->phase.store(Phase::waiting, std::memory_order_relaxed);
    operation->cancelling.store(false, std::memory_order_relaxed);
    operation->status.store(UCS_INPROGRESS, std::memory_order_relaxed);
    operation->awaited.store(false, std::memory_order_relaxed);
    operation->holds_.store(2, std::memory_order_relaxed);
    operation->start_command = {nullptr, Command::Kind::start, operation, nullptr, nullptr,
                                nullptr};
    operation->cancel_command = {nullptr, Command::Kind::cancel, operation, nullptr, nullptr,
                                 nullptr};
    operation->finished_command = {nullptr, Command::Kind::finished, operation, nullptr, nullptr,
                                   nullptr};
    return operation;
}

void Operation::let_go()
{
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        Pool<Operation>::instance().give_back(this);
    }
}

HeldWait Wait::take(Stream& stream, size_t operations)
{
    HeldWait wait(Pool<Wait>::instance().take());
    wait->holds_.store(1, std::memory_order_relaxed);
    wait->operations.reserve(std::max<size_t>(operations, 1)); // kept when the wait is reused
    wait->stream = stream.held();
    wait->all = false;
    wait->open = false;
    wait->command = {nullptr, Command::Kind::wait, nullptr, wait.get(), nullptr, nullptr};
    wait->closed_command = {nullptr, Command::Kind::wait_closed, nullptr, wait.get(), nullptr,
                            nullptr};
    wait->over.store(false, std::memory_order_relaxed);
    return wait;
}

void Wait::close()
{
    if (!over.load(std::memory_order_acquire)) {
        engine->submit(&closed_command);
    }
    let_go();
}

void Wait::let_go()
{
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
        return;
    }
    stream.reset();
    Pool<Wait>::instance().give_back(this);
}

} // namespace gdr::sync
