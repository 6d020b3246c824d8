// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Launches of kernels: host functions that were registered under the kernels' names run in their
// place, on the memory that the device reaches.
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/device.hpp"
#include "emu/softcuda/library.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/module.hpp"
#include "emu/softcuda/softcuda.h"
#include "emu/softcuda/work.hpp"

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace softcuda {

namespace {

struct Registered {
    std::mutex mutex;
    std::map<std::string, softcuda_kernel_function> functions;
    std::set<std::string> missed; // launched in vain, and said so
};

Registered& registered()
{
    static auto& instance = *new Registered;
    return instance;
}

/// Called with the lock held; nullptr if there is none.
softcuda_kernel_function find_function(const std::string& name)
{
    auto found = registered().functions.find(name);
    return found != registered().functions.end() ? found->second : nullptr;
}

softcuda_kernel_function function_of(const std::string& name)
{
    Registered& r = registered();
    std::lock_guard guard(r.mutex);
    if (softcuda_kernel_function found = find_function(name)) {
        return found;
    }
    if (r.missed.insert(name).second) {
        std::fprintf(stderr,
                     "softcuda: not launched: kernel %s: the emulated GPUs run no device code, "
                     "only functions given to softcuda_kernel()\n",
                     name.c_str());
    }
    throw Error{CUDA_ERROR_NOT_SUPPORTED};
}

/// The parameters of a launch, copied, as the driver does, before the call returns.
class Parameters {
  public:
    Parameters(const KernelDeclaration& kernel, void* const* values, void* const* extra)
        : bytes_(kernel.parameter_bytes)
    {
        require(values == nullptr || extra == nullptr);
        require(values != nullptr || extra != nullptr || kernel.parameters.empty());
        if (extra != nullptr) {
            copy_buffer(extra);
        }
        for (size_t i = 0; i < kernel.parameters.size(); ++i) {
            char* own = bytes_.data() + kernel.parameters[i].offset;
            if (values != nullptr) {
                require(values[i] != nullptr);
                std::memcpy(own, values[i], kernel.parameters[i].size);
            }
            pointers_.push_back(own);
        }
    }
    Parameters(const Parameters&) = delete;
    Parameters& operator=(const Parameters&) = delete;

    void* const* values() const { return pointers_.data(); }

  private:
    void copy_buffer(void* const* extra)
    {
        const void* buffer = nullptr;
        const size_t* size = nullptr;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
                buffer = extra[1];
            } else {
                require(*extra == CU_LAUNCH_PARAM_BUFFER_SIZE);
                size = static_cast<const size_t*>(extra[1]);
            }
        }
        require(buffer != nullptr && size != nullptr && *size >= bytes_.size());
        std::memcpy(bytes_.data(), buffer, bytes_.size());
    }

    std::vector<char> bytes_;
    std::vector<void*> pointers_;
};

void check_size(const softcuda_launch& launch, const KernelDeclaration& kernel)
{
    const auto within = [](unsigned size, CUdevice_attribute most) {
        return size > 0 && size <= static_cast<unsigned>(device_attribute(most));
    };
    require(within(launch.grid[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) &&
            within(launch.grid[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) &&
            within(launch.grid[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) &&
            within(launch.block[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) &&
            within(launch.block[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) &&
            within(launch.block[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z));
    const uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
    require(threads <= static_cast<uint64_t>(kernel.max_threads));
    require(launch.shared_memory <= static_cast<unsigned>(device_attribute(
                                        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)));
}

} // namespace

Operation launch_of(const LoadedKernel& kernel, const softcuda_launch& launch, void* const* values,
                    void* const* extra)
{
    check_size(launch, kernel.declaration);
    softcuda_launch how = launch;
    how.device = kernel.context->device;
    auto parameters = std::make_shared<const Parameters>(kernel.declaration, values, extra);
    auto run = [how, parameters, body = function_of(kernel.declaration.name),
                context = kernel.context] {
        if (int result = body(&how, parameters->values()); result != CUDA_SUCCESS) {
            context->failure = static_cast<CUresult>(result);
        }
    };
    return {.run = std::move(run), .delayed = true, .type = CU_GRAPH_NODE_TYPE_KERNEL};
}

bool can_run(const KernelDeclaration& kernel)
{
    std::lock_guard guard(registered().mutex);
    return find_function(kernel.name) != nullptr;
}

} // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT int softcuda_kernel(const char* name, softcuda_kernel_function function)
{
    Registered& r = registered();
    std::lock_guard guard(r.mutex);
    auto [place, added] = r.functions.emplace(name, function);
    return added || place->second == function ? 0 : -1;
}

SOFTCUDA_EXPORT int softcuda_kernel_memory(const struct softcuda_launch* launch,
                                           const void* address, struct softcuda_range* range)
{
    const uintptr_t where = as_address(address);
    const std::optional<Allocation> allocation = find(where);
    if (!allocation || !allocation->contains(where, 1) ||
        (allocation->on_device() && !allocation->reached_by(launch->device))) {
        return -1;
    }
    range->address = allocation->base;
    range->length = allocation->size;
    range->bytes = as_pointer(allocation->base);
    range->view = 0;
    if (allocation->on_device()) {
        range->bytes = allocation->alias(allocation->base);
        range->view = allocation->extent.view;
    }
    return 0;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared_memory, CUstream stream, void** values, void** extra)
{
    return api(__func__, Needs::init, [&] {
        const softcuda_launch how{
            {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_memory, 0};
        CUstream on = resolve_stream(stream);
        const LoadedKernel kernel = launched_kernel(function, on->context);
        require(on->context == kernel.context, CUDA_ERROR_INVALID_HANDLE);
        enqueue(on, launch_of(kernel, how, values, extra));
    });
}

SOFTCUDA_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                             unsigned grid_z, unsigned block_x, unsigned block_y,
                                             unsigned block_z, unsigned shared_memory,
                                             CUstream stream, void** values, void** extra)
{
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                          shared_memory, stream == nullptr ? CU_STREAM_PER_THREAD : stream, values,
                          extra);
}
