// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The driver's state in this process: initialisation, fork, and the counts of API calls.
#include "emu/softcuda/api.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/device.hpp"
#include "emu/softcuda/softcuda.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

namespace softcuda {

namespace {

enum class State { fresh, ready, forked, gone };

std::atomic<State> state{State::fresh};
std::atomic<CallCounter*> counters{nullptr};

void print_calls()
{
    std::vector<const CallCounter*> sorted;
    for (const CallCounter* c = counters.load(); c != nullptr; c = c->next) {
        sorted.push_back(c);
    }
    std::sort(sorted.begin(), sorted.end(),
              [](auto a, auto b) { return std::string_view(a->name) < b->name; });
    std::fprintf(stderr, "softcuda: %llu driver API calls\n",
                 static_cast<unsigned long long>(softcuda_calls()));
    for (const CallCounter* c : sorted) {
        std::fprintf(stderr, "softcuda: %12llu %s\n",
                     static_cast<unsigned long long>(c->calls.load()), c->name);
    }
}

/// Why there is no driver in this process.
CUresult refusal()
{
    return state == State::gone ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
}

/// Whether `name` is `asked`, with or without a version suffix.
bool names(std::string_view name, std::string_view asked)
{
    if (!name.starts_with(asked)) {
        return false;
    }
    std::string_view suffix = name.substr(asked.size());
    return suffix.empty() || (suffix.starts_with("_v") && suffix.size() == 3);
}

} // namespace

std::atomic<void (*)(const char*)> call_watcher{nullptr};

CallCounter::CallCounter(const char* function) : name(function), next(counters.load())
{
    while (!counters.compare_exchange_weak(next, this)) {
    }
}

CUresult initialise()
{
    static std::mutex mutex;
    if (state == State::forked || state == State::gone) {
        return refusal();
    }
    std::lock_guard guard(mutex);
    if (state == State::ready) {
        return CUDA_SUCCESS;
    }
    if (const CUresult result = open_devices(); result != CUDA_SUCCESS) {
        return result;
    }
    pthread_atfork(nullptr, nullptr, [] { state = State::forked; });
    // As with the real driver: what was there before it, and so is destroyed after it, finds it
    // gone.
    std::atexit([] {
        State ready = State::ready;
        state.compare_exchange_strong(ready, State::gone);
    });
    if (const char* stats = std::getenv("SOFTCUDA_STATS"); stats != nullptr && *stats == '1') {
        std::atexit(print_calls);
    }
    state = State::ready;
    return CUDA_SUCCESS;
}

bool initialised()
{
    return state.load(std::memory_order_acquire) == State::ready;
}

CUresult admit(Needs needs)
{
    if (needs == Needs::nothing) {
        return CUDA_SUCCESS;
    }
    if (!initialised()) {
        return refusal();
    }
    if (needs == Needs::context) {
        CUcontext current = current_context();
        if (current == nullptr) {
            return CUDA_ERROR_INVALID_CONTEXT;
        }
        if (!current->alive) {
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        }
        return current->failure;
    }
    return CUDA_SUCCESS;
}

} // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT uint64_t softcuda_calls(void)
{
    uint64_t sum = 0;
    for (const CallCounter* c = counters.load(); c != nullptr; c = c->next) {
        sum += c->calls.load(std::memory_order_relaxed);
    }
    return sum;
}

SOFTCUDA_EXPORT uint64_t softcuda_call_count(const char* name)
{
    uint64_t sum = 0;
    for (const CallCounter* c = counters.load(); c != nullptr; c = c->next) {
        if (names(c->name, name)) {
            sum += c->calls.load(std::memory_order_relaxed);
        }
    }
    return sum;
}

SOFTCUDA_EXPORT void softcuda_watch_calls(void (*watcher)(const char* name))
{
    call_watcher.store(watcher, std::memory_order_release);
}

CUresult cuInit(unsigned int flags)
{
    return api(__func__, Needs::nothing, [&]() -> CUresult {
        require(flags == 0);
        return initialise();
    });
}

CUresult cuDriverGetVersion(int* version)
{
    return api(__func__, Needs::nothing, [&] {
        require(version != nullptr);
        *version = 13000;
    });
}
