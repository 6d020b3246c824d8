// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The engine's part in graphs. A round: at every launch the operations of a node run once. The
// node's gate opens again when all of them are ready for the next launch.
#include "sync/triggers/engine.hpp"

#include "sync/triggers/node.hpp"

#include <algorithm>

namespace gdr::sync {

void Engine::take(Node& node)
{
    node.number = ++nodes_;
    if (node.triggers) {
        triggers_.push_back(&node);
    } else {
        waiters_.push_back(&node);
    }
    // Later calls do not allocate.
    rounds_.reserve(triggers_.size());
    looks_.reserve(triggers_.size());
    opened_.reserve(triggers_.size() + waiters_.size());
    if (node.triggers) {
        looks_.push_back(node.watch());
        return;
    }
    for (Operation* operation : node.awaited) {
        if (!operation->retired) {
            await(node, *operation);
        }
        operation->let_go();
    }
    node.awaited.clear();
    if (node.waits_for_all) {
        for (const Node* other : triggers_) {
            if (other->capture == node.capture && other->handle == node.handle &&
                other->thread == node.thread) {
                for (Operation* operation : other->operations) {
                    await(node, *operation);
                }
            }
        }
    }
    node.remaining = node.operations.size();
    if (node.operations.empty()) {
        node.gates.host->done.abandon(UCS_ERR_CANCELED);
    }
}

void Engine::await(Node& node, Operation& operation)
{
    node.operations.push_back(&operation);
    operation.awaited_by.push_back(&node);
}

void Engine::attach(Operation& operation)
{
    if (!operation.node->retired) {
        operation.node->operations.push_back(&operation);
    } else {
        retire(operation);
    }
}

// Operations that were attached to a node before its trigger are in the inbox or have been taken
// from it. A node that has triggered was preceded by others whose triggers the next look sees, so
// the looks go on until one finds nothing. Then nothing that comes before a found node is missing,
// and the nodes are sorted by launch and within a launch by creation.
bool Engine::find_rounds()
{
    rounds_.clear();
    size_t found = 0;
    do {
        found = rounds_.size();
        for (size_t i = 0; i < looks_.size();) {
            if (!looks_[i].triggered()) {
                ++i;
                continue;
            }
            looks_[i].node->running = true;
            rounds_.push_back(looks_[i].node);
            looks_[i] = looks_.back();
            looks_.pop_back();
        }
    } while (rounds_.size() > found);
    // Insertion sort: there are few, and std::stable_sort allocates.
    for (size_t i = 1; i < rounds_.size(); ++i) {
        for (size_t k = i; k > 0 && comes_before(*rounds_[k], *rounds_[k - 1]); --k) {
            std::swap(rounds_[k], rounds_[k - 1]);
        }
    }
    return !rounds_.empty();
}

bool Engine::comes_before(const Node& one, const Node& other)
{
    return one.rounds != other.rounds ? one.rounds < other.rounds : one.number < other.number;
}

unsigned Engine::begin_rounds()
{
    for (Node* node : rounds_) {
        ++node->rounds;
        node->remaining = node->operations.size() + 1; // one for this function
        node->status = UCS_OK;
        for (Operation* operation : node->operations) {
            operation->under_way = true;
            operation->status.store(UCS_INPROGRESS, std::memory_order_release);
            start(*operation);
        }
        end_of_one(*node);
    }
    return static_cast<unsigned>(rounds_.size());
}

// A run of an operation of a node is over.
void Engine::end_run(Operation& operation, ucs_status_t status)
{
    Node& node = *operation.node;
    operation.under_way = false;
    ++operation.runs;
    operation.phase.store(Phase::waiting, std::memory_order_relaxed);
    operation.tell(status);
    if (status != UCS_OK) {
        node.status = status;
    }
    for (Node* waiter : operation.awaited_by) {
        end_of_one(*waiter);
    }
    if (operation.leaving) {
        std::erase(node.operations, &operation);
        retire(operation);
    }
    end_of_one(node);
}

void Engine::end_of_one(Node& node)
{
    if (--node.remaining > 0) {
        return;
    }
    if (!node.triggers) {
        ++node.rounds;
        node.remaining = node.operations.size();
        opened_.push_back(&node);
        return;
    }
    if (node.one_gate) {
        opened_.push_back(&node); // the trigger is open again after that
        return;
    }
    node.gates.host->trigger.reopen(node.status);
    if (node.waits) {
        opened_.push_back(&node);
    }
    end_round(node);
}

// The node may be triggered again.
void Engine::end_round(Node& node)
{
    node.running = false;
    if (node.ended) {
        retire(node);
    } else {
        looks_.push_back(node.watch());
    }
}

// Data that HCAs have written must be visible before the waiting GPU work goes on.
void Engine::open_gates(bool may_flush)
{
    for (Node* node : opened_) {
        if (may_flush && !node->abilities.sees_writes) {
            flush(node->context);
        }
        (node->one_gate ? node->gates.host->trigger : node->gates.host->done).reopen(node->status);
    }
    while (!opened_.empty()) {
        Node& node = *opened_.back();
        opened_.pop_back();
        if (node.one_gate) {
            end_round(node);
        }
    }
}

// The operation will not run again.
void Engine::retire(Operation& operation)
{
    operation.retired = true;
    for (Node* waiter : operation.awaited_by) {
        forget(*waiter, operation);
    }
    operation.awaited_by.clear();
    unfinished_.fetch_sub(1, std::memory_order_release); // before anybody can see the status
    int never_ran = UCS_INPROGRESS;
    operation.status.compare_exchange_strong(never_ran, UCS_ERR_CANCELED);
    operation.wake();
    operation.node->let_go();
    operation.let_go();
}

// The waiter waits for its other operations only; if there are none, its gate stays open.
void Engine::forget(Node& waiter, Operation& operation)
{
    const bool waits_for_it = operation.runs <= waiter.rounds;
    std::erase(waiter.operations, &operation);
    if (waiter.operations.empty()) {
        waiter.gates.host->done.abandon(UCS_ERR_CANCELED);
    } else if (waits_for_it) {
        end_of_one(waiter);
    }
}

void Engine::cancel_for_good(Operation& operation)
{
    if (operation.retired) {
        return;
    }
    if (operation.under_way) {
        operation.leaving = true;
        if (operation.as<TagReceive>() != nullptr && operation.ucp_request != nullptr) {
            ucx_.ucp_request_cancel(settings_.worker, operation.ucp_request);
        }
        return;
    }
    std::erase(operation.node->operations, &operation);
    operation.status.store(UCS_ERR_CANCELED, std::memory_order_release);
    retire(operation);
}

// Nothing triggers the node any more. What it has triggered still completes.
void Engine::end(Node& node)
{
    node.ended = true;
    if (!node.running && !(node.triggers && node.triggered())) {
        retire(node);
    }
}

void Engine::retire(Node& node)
{
    node.retired = true;
    if (node.one_gate) {
        node.gates.host->trigger.abandon(UCS_ERR_CANCELED); // a late launch must not wait forever
    }
    while (!node.operations.empty()) {
        Operation& operation = *node.operations.back();
        node.operations.pop_back();
        if (node.triggers) {
            retire(operation);
        } else {
            std::erase(operation.awaited_by, &node);
        }
    }
    std::erase(node.triggers ? triggers_ : waiters_, &node);
    std::erase(opened_, &node);
    std::erase_if(looks_, [&](const WatchedNode& look) { return look.node == &node; });
    unfinished_.fetch_sub(1, std::memory_order_release);
    node.let_go();
}

bool Engine::abandon_nodes()
{
    bool ucp_has_some = false;
    for (const auto* nodes : {&triggers_, &waiters_}) {
        for (Node* node : *nodes) {
            node->belongs_to(nullptr);
            node->gates.host->trigger.abandon(UCS_ERR_CANCELED);
            node->gates.host->done.abandon(UCS_ERR_CANCELED);
        }
    }
    rounds_.clear();
    opened_.clear();
    while (!waiters_.empty()) {
        retire(*waiters_.back());
    }
    while (!triggers_.empty()) {
        Node& node = *triggers_.back();
        node.ended = false; // so that end_round() does not retire it too
        while (!node.operations.empty()) {
            Operation& operation = *node.operations.back();
            operation.leaving = true;
            if (operation.under_way) {
                ucp_has_some |= abandon(operation);
            } else {
                node.operations.pop_back();
                operation.status.store(UCS_ERR_CANCELED, std::memory_order_release);
                retire(operation);
            }
        }
        opened_.clear();
        retire(node);
    }
    return ucp_has_some;
}

} // namespace gdr::sync
