// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opening the copy interface, and buffers.
#include "copy_support.hpp"

#include "abi/component.hpp"
#include "abi/host.hpp"
#include "abi/series.hpp"
#include "copy/component.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>

extern "C" {
#include <ucp/api/ucp_version.h>

ucs_status_t ucs_async_context_create(ucs_async_mode_t mode, ucs_async_context_t** async);
void ucs_async_context_destroy(ucs_async_context_t* async);
}

namespace copy_test {

namespace {

constexpr char kTransport[] = "gdr";

char byte_at(unsigned seed, size_t position)
{
    uint64_t x = (position / 8 + 1) * 0x9e3779b97f4a7c15 + seed * 0xbf58476d1ce4e5b9;
    x ^= x >> 31;
    return static_cast<char>(x >> 8 * (position % 8));
}

constexpr char kGuardByte = 0x5a;

} // namespace

void require(ucs_status_t status, const char* call)
{
    if (status != UCS_OK) {
        throw std::runtime_error(std::string(call) + ": " + ucs_status_string(status));
    }
}

void require(CUresult result, const char* call)
{
    if (result != CUDA_SUCCESS) {
        throw std::runtime_error(std::string(call) + ": CUresult " + std::to_string(result));
    }
}

uct_component_h find_component()
{
    return find_component(gdr::copy::component());
}

uct_component_h find_component(const gdr::abi::Component& component)
{
    if (!gdr::abi::choose_series()) {
        throw std::runtime_error(gdr::abi::why_not());
    }
    gdr::abi::register_component(component); // once
    uct_component_h* components;
    unsigned count;
    require(uct_query_components(&components, &count), "uct_query_components");
    uct_component_h found = nullptr;
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr = {};
        attr.field_mask =
            UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        require(uct_component_query(components[i], &attr), "uct_component_query");
        if (strcmp(attr.name, component.name) == 0 && attr.md_resource_count > 0) {
            found = components[i];
        }
    }
    uct_release_component_list(components);
    return found;
}

Transport::Transport() : Transport(gdr::copy::component(), "cuda")
{
    connect(address());
}

Transport::Transport(const gdr::abi::Component& component, const std::string& device,
                     const std::vector<char>& peer)
    : Transport(component, device)
{
    connect(peer);
}

Transport::Transport(const gdr::abi::Component& component, const std::string& device)
{
    uct_component_h handle = find_component(component);
    if (handle == nullptr) {
        throw std::runtime_error(std::string("no component ") + component.name +
                                 " with a memory domain");
    }
    uct_md_config_t* config;
    require(uct_md_config_read(handle, nullptr, nullptr, &config), "uct_md_config_read");
    ucs_status_t status = uct_md_open(handle, component.name, config, &md_);
    uct_config_release(config);
    require(status, "uct_md_open");
    require(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async_),
            "ucs_async_context_create");
    require(uct_worker_create(async_, UCS_THREAD_MODE_SINGLE, &worker_), "uct_worker_create");
    open_iface(device);
    require(uct_iface_query(iface_, &attributes_.own), "uct_iface_query");
    uct_iface_progress_enable(iface_, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

void Transport::connect(const std::vector<char>& peer)
{
    uct_ep_params_t params = {};
    params.field_mask =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = iface_;
    params.iface_addr = reinterpret_cast<const uct_iface_addr_t*>(peer.data());
    require(uct_ep_create(&params, &ep_), "uct_ep_create");
}

void Transport::open_iface(const std::string& device)
{
    uct_iface_config_t* config;
    require(uct_md_iface_config_read(md_, kTransport, nullptr, nullptr, &config),
            "uct_md_iface_config_read");
    uct_iface_params_t params = {};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = kTransport;
    params.mode.device.dev_name = device.c_str();
    ucs_status_t status = uct_iface_open(md_, worker_, &params, config, &iface_);
    uct_config_release(config);
    require(status, "uct_iface_open");
}

Transport::~Transport()
{
    if (ep_ != nullptr) {
        uct_ep_destroy(ep_);
    }
    if (iface_ != nullptr) {
        uct_iface_close(iface_);
    }
    if (worker_ != nullptr) {
        uct_worker_destroy(worker_);
    }
    if (async_ != nullptr) {
        ucs_async_context_destroy(async_);
    }
    if (md_ != nullptr) {
        uct_md_close(md_);
    }
}

std::vector<char> Transport::address() const
{
    std::vector<char> bytes(attributes_.own.iface_addr_len);
    require(uct_iface_get_address(iface_, reinterpret_cast<uct_iface_addr_t*>(bytes.data())),
            "uct_iface_get_address");
    return bytes;
}

void Transport::progress()
{
    const auto version = gdr::abi::series().version;
    if (version.major == UCP_API_MAJOR && version.minor == UCP_API_MINOR) {
        uct_worker_progress(worker_);
    } else {
        uct_iface_progress(iface_);
    }
}

void Transport::wait(const uct_completion_t& completion)
{
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (completion.count > 0) {
        progress();
        if (std::chrono::steady_clock::now() > deadline) {
            throw std::runtime_error("a copy did not complete");
        }
    }
}

std::string name_of(Memory memory)
{
    switch (memory) {
    case Memory::host:
        return "host";
    case Memory::pinned:
        return "pinned";
    case Memory::device:
        return "device";
    case Memory::managed:
        return "managed";
    case Memory::pool:
        return "pool";
    }
    return "?";
}

Current::Current(CUcontext context)
{
    require(cuCtxGetCurrent(&before_), "cuCtxGetCurrent");
    require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

Current::~Current()
{
    cuCtxSetCurrent(before_);
}

CUcontext primary_context(CUdevice device)
{
    require(cuInit(0), "cuInit");
    CUcontext context;
    require(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    return context; // kept: tests come and go
}

Buffer::Buffer(Memory memory, size_t length, CUcontext context)
    : memory_(memory), length_(length), context_(context != nullptr ? context : primary_context(0))
{
    Current current(context_);
    size_t whole = length + 2 * kGuard;
    CUdeviceptr pointer = 0;
    switch (memory_) {
    case Memory::host:
        start_ = static_cast<char*>(malloc(whole));
        break;
    case Memory::pinned:
        require(cuMemAllocHost(reinterpret_cast<void**>(&start_), whole), "cuMemAllocHost");
        break;
    case Memory::device:
        require(cuMemAlloc(&pointer, whole), "cuMemAlloc");
        start_ = reinterpret_cast<char*>(pointer);
        break;
    case Memory::managed:
        require(cuMemAllocManaged(&pointer, whole, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
        start_ = reinterpret_cast<char*>(pointer);
        break;
    case Memory::pool:
        require(cuMemAllocAsync(&pointer, whole, CU_STREAM_LEGACY), "cuMemAllocAsync");
        require(cuStreamSynchronize(CU_STREAM_LEGACY), "cuStreamSynchronize");
        start_ = reinterpret_cast<char*>(pointer);
        break;
    }
    clear();
}

Buffer::~Buffer()
{
    free();
}

void Buffer::free()
{
    if (start_ == nullptr) {
        return;
    }
    Current current(context_);
    if (memory_ == Memory::host) {
        ::free(start_);
    } else if (memory_ == Memory::pinned) {
        require(cuMemFreeHost(start_), "cuMemFreeHost");
    } else {
        require(cuMemFree(reinterpret_cast<CUdeviceptr>(start_)), "cuMemFree");
    }
    start_ = nullptr;
}

void Buffer::write(const std::vector<char>& bytes)
{
    Current current(context_);
    if (memory_ == Memory::device || memory_ == Memory::pool) {
        require(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(start_), bytes.data(), bytes.size()),
                "cuMemcpyHtoD");
    } else {
        memcpy(start_, bytes.data(), bytes.size());
    }
}

std::vector<char> Buffer::read() const
{
    Current current(context_);
    std::vector<char> bytes(length_ + 2 * kGuard);
    if (memory_ == Memory::device || memory_ == Memory::pool) {
        require(cuMemcpyDtoH(bytes.data(), reinterpret_cast<CUdeviceptr>(start_), bytes.size()),
                "cuMemcpyDtoH");
    } else {
        memcpy(bytes.data(), start_, bytes.size());
    }
    return bytes;
}

void Buffer::fill(unsigned seed)
{
    std::vector<char> bytes(length_ + 2 * kGuard, kGuardByte);
    for (size_t i = 0; i < length_; ++i) {
        bytes[kGuard + i] = byte_at(seed, i);
    }
    write(bytes);
}

void Buffer::clear()
{
    write(std::vector<char>(length_ + 2 * kGuard, kGuardByte));
}

bool Buffer::holds(unsigned seed, size_t offset, size_t length, size_t from) const
{
    std::vector<char> bytes = read();
    for (size_t i = 0; i < kGuard; ++i) {
        if (bytes[i] != kGuardByte || bytes[kGuard + length_ + i] != kGuardByte) {
            return false;
        }
    }
    for (size_t i = 0; i < length; ++i) {
        if (bytes[kGuard + offset + i] != byte_at(seed, from + i)) {
            return false;
        }
    }
    return true;
}

Completion::Completion(int operations)
{
    func = [](uct_completion_t*) {};
    count = operations;
    status = UCS_OK;
}

} // namespace copy_test
