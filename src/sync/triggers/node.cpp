// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/triggers/node.hpp"

#include "sync/triggers/engine.hpp"

#include <mutex>
#include <utility>

namespace gdr::sync {
namespace {

// The end of a node and the end of its engine may race.
std::mutex& lock()
{
    static auto& mutex = *new std::mutex;
    return mutex;
}

} // namespace

Node::Node(const cuda::Driver& driver, CUcontext context)
    : Node(driver, context, take_words<Gates>(driver, context), nullptr)
{
}

Node::Node(const cuda::Driver& driver, CUcontext context, const Mapped<Gates>& gates,
           std::shared_ptr<const void> owner)
    : context(context), abilities(current_abilities(driver)), gates(gates), owner_(std::move(owner))
{
    gates.host->trigger.reopen(UCS_OK);
    gates.host->done.open = 0;
    start_command = {nullptr, Command::Kind::node, nullptr, nullptr, this, nullptr};
    ended_command = {nullptr, Command::Kind::node_ended, nullptr, nullptr, this, nullptr};
}

void Node::belongs_to(Engine* engine)
{
    const std::lock_guard guard(lock());
    engine_ = engine;
}

void Node::end()
{
    {
        const std::lock_guard guard(lock());
        if (engine_ != nullptr) {
            engine_->submit(&ended_command);
        }
    }
    let_go();
}

void Node::let_go()
{
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
        return;
    }
    new (gates.host) Gates{};
    if (owner_ == nullptr) {
        give_words_back(context, gates);
    }
    delete this;
}

} // namespace gdr::sync
