// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The hooks, and the table of patched functions.
#include "hooks/freeing_calls.hpp"

#include "abi/patcher.hpp"
#include "cuda/driver.hpp"
#include "cuda/recent.hpp"
#include "hooks/near_code.hpp"

#include <cuda.h>

#include <initializer_list>
#include <optional>

namespace gdr::hooks {
namespace {

constinit Listener listener{};

// The driver's functions as they were before the patch.
struct Original {
    CUresult (*free)(CUdeviceptr address);
    CUresult (*unmap)(CUdeviceptr address, size_t length);
    CUresult (*destroy_context)(CUcontext context);
    CUresult (*release_primary)(CUdevice device);
    CUresult (*reset_primary)(CUdevice device);
};
constinit Original original{};

// Does nothing in a forked child: threads that are not there may hold locks.
void tell_of_range(CUdeviceptr address, size_t length)
{
    if (!cuda::in_forked_child()) {
        listener.before_free(address, address + length);
    }
}

void tell_of_allocation(CUdeviceptr address)
{
    if (address == 0 || cuda::in_forked_child()) {
        return;
    }
    CUdeviceptr base = 0;
    size_t length = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void* values[] = {&base, &length};
    if (cuda::plain_driver().cuPointerGetAttributes(2, attributes, values, address) ==
        CUDA_SUCCESS) {
        tell_of_range(base, length);
    }
}

void tell_of_context()
{
    if (!cuda::in_forked_child()) {
        listener.after_context();
    }
}

// What the driver has said of memory holds no longer. In a forked child nothing is asked.
class AnswersEnd {
  public:
    AnswersEnd()
    {
        if (!cuda::in_forked_child()) {
            freeing_.emplace();
        }
    }

  private:
    std::optional<cuda::Freeing> freeing_;
};

CUresult free_memory(CUdeviceptr address)
{
    const AnswersEnd end;
    tell_of_allocation(address);
    return original.free(address);
}

CUresult unmap(CUdeviceptr address, size_t length)
{
    const AnswersEnd end;
    tell_of_range(address, length);
    return original.unmap(address, length);
}

CUresult destroy_context(CUcontext context)
{
    const AnswersEnd end;
    const CUresult result = original.destroy_context(context);
    tell_of_context();
    return result;
}

// Others may still retain the context.
CUresult release_primary(CUdevice device)
{
    const AnswersEnd end;
    const CUresult result = original.release_primary(device);
    unsigned flags = 0;
    int active = 0;
    if (cuda::plain_driver().cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS ||
        active == 0) {
        tell_of_context();
    }
    return result;
}

CUresult reset_primary(CUdevice device)
{
    const AnswersEnd end;
    const CUresult result = original.reset_primary(device);
    tell_of_context();
    return result;
}

struct Patch {
    const char* name;
    void* hook;
    void** original;
};

template <class Function>
Patch patch(const char* name, Function* hook, Function*& before)
{
    return {name, reinterpret_cast<void*>(hook), reinterpret_cast<void**>(&before)};
}

// Empty: done, or the driver has no such function.
std::string apply(const Patch& patch)
{
    void* const function = cuda::entry(patch.name);
    if (function == nullptr) {
        return {};
    }
    void* const hook = code_near(function, patch.hook);
    const std::string failure =
        hook == nullptr ? "no memory for code near the driver"
                        : abi::patch_function(function, hook, patch.name, patch.original);
    return failure.empty() ? failure : std::string(patch.name) + " is not patched, " + failure;
}

} // namespace

std::string watch_frees(const Listener& told)
{
    if (!abi::user_allows_patches()) {
        return "UCX_MEM_CUDA_HOOK_MODE is not bistro";
    }
    listener = told;
    std::string failure;
    for (const Patch& each :
         {patch("cuMemFree_v2", free_memory, original.free),
          patch("cuMemUnmap", unmap, original.unmap),
          patch("cuCtxDestroy_v2", destroy_context, original.destroy_context),
          patch("cuDevicePrimaryCtxRelease_v2", release_primary, original.release_primary),
          patch("cuDevicePrimaryCtxReset_v2", reset_primary, original.reset_primary)}) {
        const std::string failed = apply(each);
        failure += failure.empty() ? failed : "";
    }
    return failure;
}

} // namespace gdr::hooks
