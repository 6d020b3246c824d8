// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Contexts and each thread's stack of them.
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/device.hpp"
#include "emu/softcuda/entry.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/softcuda.h"
#include "emu/softcuda/stream.hpp"

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace softcuda {

namespace {

struct Contexts {
    std::mutex mutex;
    std::set<CUcontext> all;
    std::map<int, CUcontext> primary;
    std::set<std::pair<CUcontext, CUcontext>> peers; // the first may access the second
    std::map<int, uint64_t> made;                    // by the device's number in the machine
    uint64_t next_id = 1;
};

Contexts& contexts()
{
    static auto& instance = *new Contexts;
    return instance;
}

/// Destroyed by nobody: what ends with a thread may call CUDA, too, in whatever order.
class Stack {
  public:
    bool empty() const { return size_ == 0; }
    CUcontext back() const { return contexts_[size_ - 1]; }
    void push_back(CUcontext context)
    {
        require(size_ < contexts_.size(), CUDA_ERROR_OUT_OF_MEMORY);
        contexts_[size_++] = context;
    }
    void pop_back() { --size_; }

  private:
    std::array<CUcontext, 64> contexts_{};
    size_t size_ = 0;
};

thread_local constinit Stack stack;

/// Called with the lock held.
void bring_to_life(CUcontext context)
{
    context->id = contexts().next_id++;
    ++contexts().made[device(context->device).number()];
    if (context->legacy_stream == nullptr) {
        context->legacy_stream = create_legacy_stream(context);
    }
    context->failure = CUDA_SUCCESS;
    context->alive = true;
}

CUcontext new_context(int ordinal, unsigned flags, bool primary)
{
    auto* context = new CUctx_st{};
    context->device = ordinal;
    context->flags = flags;
    context->primary = primary;
    contexts().all.insert(context);
    return context;
}

/// Called with the lock held; the contexts of all devices exist from their first use on.
CUcontext primary_of(int ordinal)
{
    CUcontext& context = contexts().primary[device(ordinal).ordinal()];
    if (context == nullptr) {
        context = new_context(ordinal, 0, true);
    }
    return context;
}

void check_no_capture(CUcontext context)
{
    require_not_captured(context);
    require_no_capture();
}

/// Ends a context with all that belongs to it. Called without the lock: operations under way may
/// run host functions.
void end(CUcontext context)
{
    destroy_streams(context);
    forget_openings(context);
    release_memory(context);
    context->alive = false;
}

void synchronise(CUcontext context)
{
    check_no_capture(context);
    wait_for_context(context);
    require_no_failure(context);
}

/// Whether a context may be made current. A primary context that is not active may: it is at its
/// use that this is noticed, and it may have come to life again until then.
void check_current(CUcontext context)
{
    std::lock_guard guard(contexts().mutex);
    require(contexts().all.contains(context), CUDA_ERROR_INVALID_CONTEXT);
    require(context->alive || context->primary, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

CUresult create(CUcontext* handle, unsigned flags, CUdevice ordinal)
{
    require(handle != nullptr);
    device(ordinal);
    std::lock_guard guard(contexts().mutex);
    CUcontext context = new_context(ordinal, flags, false);
    bring_to_life(context);
    stack.push_back(context);
    *handle = context;
    return CUDA_SUCCESS;
}

} // namespace

CUcontext current_context()
{
    return stack.empty() ? nullptr : stack.back();
}

CUcontext live_context(CUcontext context)
{
    if (context == nullptr) {
        context = current_context();
        require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    } else {
        std::lock_guard guard(contexts().mutex);
        require(contexts().all.contains(context), CUDA_ERROR_INVALID_CONTEXT);
    }
    require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return context;
}

void require_no_failure(CUcontext context)
{
    const CUresult failure = context->failure;
    require(failure == CUDA_SUCCESS, failure);
}

} // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT uint64_t softcuda_contexts(int device)
{
    std::lock_guard guard(contexts().mutex);
    const auto made = contexts().made.find(device);
    return made == contexts().made.end() ? 0 : made->second;
}

// ---- primary contexts

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr);
        std::lock_guard guard(contexts().mutex);
        CUcontext context = primary_of(ordinal);
        if (!context->alive) {
            bring_to_life(context);
        }
        ++context->retained;
        *handle = context;
    });
}

SOFTCUDA_ENTRY(cuDevicePrimaryCtxRelease_v2)
SOFTCUDA_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        CUcontext last = nullptr;
        {
            std::lock_guard guard(contexts().mutex);
            CUcontext context = primary_of(ordinal);
            require(context->retained > 0, CUDA_ERROR_INVALID_CONTEXT);
            if (context->retained == 1) {
                check_no_capture(context);
                last = context;
            }
            --context->retained;
        }
        if (last != nullptr && last->alive) {
            end(last);
        }
    });
}

SOFTCUDA_ENTRY(cuDevicePrimaryCtxReset_v2)
SOFTCUDA_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        CUcontext context = nullptr;
        {
            std::lock_guard guard(contexts().mutex);
            context = primary_of(ordinal);
        }
        check_no_capture(context);
        if (context->alive) {
            end(context);
        }
    });
}

SOFTCUDA_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(contexts().mutex);
        primary_of(ordinal)->flags = flags;
    });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active)
{
    return api(__func__, Needs::init, [&] {
        require(flags != nullptr && active != nullptr);
        std::lock_guard guard(contexts().mutex);
        CUcontext context = primary_of(ordinal);
        *flags = context->flags;
        *active = context->alive;
    });
}

// ---- contexts of the program's own

SOFTCUDA_EXPORT CUresult cuCtxCreate_v2(CUcontext* handle, unsigned flags, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] { return create(handle, flags, ordinal); });
}

SOFTCUDA_EXPORT CUresult cuCtxCreate_v3(CUcontext* handle, CUexecAffinityParam* affinity, int count,
                                        unsigned flags, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(affinity == nullptr && count == 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        return create(handle, flags, ordinal);
    });
}

// CUctxCreateParams came with CUDA 12.5; its contents ask for features that are not there.
#if CUDA_VERSION >= 12050
using ContextParameters = CUctxCreateParams;
#else
using ContextParameters = void;
#endif

SOFTCUDA_EXPORT CUresult cuCtxCreate_v4(CUcontext* handle, ContextParameters* parameters,
                                        unsigned flags, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
#if CUDA_VERSION >= 12050
        require(parameters == nullptr ||
                    (parameters->execAffinityParams == nullptr && parameters->cigParams == nullptr),
                CUDA_ERROR_NOT_SUPPORTED);
#else
        require(parameters == nullptr, CUDA_ERROR_NOT_SUPPORTED);
#endif
        return create(handle, flags, ordinal);
    });
}

SOFTCUDA_ENTRY(cuCtxDestroy)
CUresult cuCtxDestroy(CUcontext context)
{
    return api(__func__, Needs::init, [&] {
        require(context != nullptr);
        live_context(context);
        require(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
        check_no_capture(context);
        end(context);
        if (current_context() == context) {
            stack.pop_back();
        }
    });
}

// ---- what is current

CUresult cuCtxPushCurrent(CUcontext context)
{
    return api(__func__, Needs::init, [&] {
        require(context != nullptr);
        check_current(context);
        stack.push_back(context);
    });
}

CUresult cuCtxPopCurrent(CUcontext* context)
{
    return api(__func__, Needs::init, [&] {
        require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
        if (context != nullptr) {
            *context = stack.back();
        }
        stack.pop_back();
    });
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    return api(__func__, Needs::init, [&] {
        if (context != nullptr) {
            check_current(context);
        }
        if (!stack.empty()) {
            stack.pop_back();
        }
        if (context != nullptr) {
            stack.push_back(context);
        }
    });
}

CUresult cuCtxGetCurrent(CUcontext* context)
{
    return api(__func__, Needs::init, [&] {
        require(context != nullptr);
        *context = current_context();
    });
}

CUresult cuCtxGetDevice(CUdevice* ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(ordinal != nullptr);
        require(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
        *ordinal = current_context()->device;
    });
}

SOFTCUDA_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* ordinal, CUcontext context)
{
    return api(__func__, Needs::init, [&] {
        require(ordinal != nullptr);
        *ordinal = live_context(context)->device;
    });
}

CUresult cuCtxGetFlags(unsigned* flags)
{
    return api(__func__, Needs::context, [&] {
        require(flags != nullptr);
        *flags = current_context()->flags;
    });
}

SOFTCUDA_EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long* id)
{
    return api(__func__, Needs::init, [&] {
        require(id != nullptr);
        *id = live_context(context)->id;
    });
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version)
{
    return api(__func__, Needs::init, [&] {
        require(version != nullptr);
        live_context(context);
        *version = 3020;
    });
}

CUresult cuCtxSynchronize(void)
{
    return api(__func__, Needs::context, [&] { synchronise(current_context()); });
}

SOFTCUDA_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
    return api(__func__, Needs::init, [&] { synchronise(live_context(context)); });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest)
{
    return api(__func__, Needs::context, [&] {
        if (least != nullptr) {
            *least = kLeastPriority;
        }
        if (greatest != nullptr) {
            *greatest = kGreatestPriority;
        }
    });
}

// ---- peers: every context copies every device's memory; enabling is book-keeping alone

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(flags == 0);
        CUcontext self = current_context();
        require(live_context(peer)->device != self->device, CUDA_ERROR_INVALID_DEVICE);
        require(peers(self->device, live_context(peer)->device),
                CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        std::lock_guard guard(contexts().mutex);
        require(contexts().peers.emplace(self, peer).second,
                CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    return api(__func__, Needs::context, [&] {
        std::lock_guard guard(contexts().mutex);
        require(contexts().peers.erase({current_context(), peer}) == 1,
                CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    });
}
