// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Open MPI makes hundreds of streams and events in MPI_Init, even if a GPU is never used. CUDA
// streams and events are made at their first use.
#include "openmpi/accelerator.hpp"

#include "cuda/context.hpp"
#include "openmpi/copies.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>

#include <unistd.h>

namespace gdr::openmpi {

namespace {

// The GPU of the latest buffer, for a thread without a context.
std::atomic<CUdevice> latest_device{kNoDevice};

// Runs work(driver) if there is CUDA; otherwise returns `without`. An exception is printed and
// becomes kError.
template <typename Work>
int with_cuda(const char* what, int without, const Work& work)
{
    const cuda::Driver* const driver = cuda::initialised_driver();
    if (driver == nullptr) {
        return without;
    }
    try {
        return work(*driver);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gdr: pid %d: Open MPI's accelerator component (%s): %s\n", getpid(),
                     what, error.what());
        return kError;
    }
}

// A context for calls without a buffer: for kNoDevice the current one if there is one, otherwise
// the device's primary context.
class AnyContext {
  public:
    AnyContext(const cuda::Driver& driver, int device)
    {
        CUcontext current = nullptr;
        cuda::check(driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
        if (device == kNoDevice && current == nullptr) {
            device = latest_device;
        }
        if (device != kNoDevice) {
            primary_.emplace(driver, device);
            current_.emplace(driver, primary_->handle());
        }
        cuda::check(driver.cuCtxGetDevice(&device_), "cuCtxGetDevice");
    }

    CUdevice device() const { return device_; }

  private:
    std::optional<cuda::PrimaryContext> primary_;
    std::optional<cuda::CurrentContext> current_;
    CUdevice device_ = kNoDevice;
};

CUcontext context_of(const cuda::Driver& driver, CUstream stream)
{
    CUcontext context = nullptr;
    cuda::check(driver.cuStreamGetCtx(stream, &context), "cuStreamGetCtx");
    return context;
}

// ---- memory

int check_addr(const void* address, int* device, uint64_t* flags)
{
    *device = kNoDevice;
    *flags = 0;
    return with_cuda("check_addr", 0, [&](const cuda::Driver& driver) {
        const auto memory = find_device_memory(driver, address);
        if (!memory) {
            return 0;
        }
        latest_device.store(memory->device, std::memory_order_relaxed);
        *device = memory->device;
        return 1;
    });
}

int mem_copy(int, int, void* to, const void* from, size_t length, TransferType)
{
    if (cuda::initialised_driver() == nullptr) {
        std::memcpy(to, from, length);
        return kSuccess;
    }
    return with_cuda("mem_copy", kError, [&](const cuda::Driver& driver) {
        copy(driver, to, from, length);
        return kSuccess;
    });
}

int mem_move(int, int, void* to, const void* from, size_t length, TransferType)
{
    if (cuda::initialised_driver() == nullptr) {
        std::memmove(to, from, length);
        return kSuccess;
    }
    return with_cuda("mem_move", kError, [&](const cuda::Driver& driver) {
        move(driver, to, from, length);
        return kSuccess;
    });
}

int mem_alloc(int device, void** address, size_t length)
{
    return with_cuda("mem_alloc", kError, [&](const cuda::Driver& driver) {
        const AnyContext context(driver, device);
        CUdeviceptr allocated = 0;
        cuda::check(driver.cuMemAlloc(&allocated, length), "cuMemAlloc");
        *address = reinterpret_cast<void*>(allocated);
        return kSuccess;
    });
}

int mem_release(int, void* address)
{
    if (address == nullptr) {
        return kSuccess;
    }
    return with_cuda("mem_release", kError, [&](const cuda::Driver& driver) {
        const cuda::CurrentContext context(driver, cuda::classify(driver, address));
        cuda::check(driver.cuMemFree(reinterpret_cast<CUdeviceptr>(address)), "cuMemFree");
        return kSuccess;
    });
}

int get_address_range(int, const void* address, void** base, size_t* length)
{
    return with_cuda("get_address_range", kError, [&](const cuda::Driver& driver) {
        const auto memory = find_device_memory(driver, address);
        if (!memory) {
            return kBadParameter;
        }
        *base = reinterpret_cast<void*>(memory->base);
        *length = memory->length;
        return kSuccess;
    });
}

int get_buffer_id(int, const void* address, uint64_t* id)
{
    return with_cuda("get_buffer_id", kError, [&](const cuda::Driver& driver) {
        *id = cuda::buffer_id(driver, address);
        return *id != 0 ? kSuccess : kBadParameter;
    });
}

int host_register(int device, void* address, size_t length)
{
    return with_cuda("host_register", kError, [&](const cuda::Driver& driver) {
        const AnyContext context(driver, device);
        cuda::check(driver.cuMemHostRegister(address, length, CU_MEMHOSTREGISTER_PORTABLE),
                    "cuMemHostRegister");
        return kSuccess;
    });
}

int host_unregister(int device, void* address)
{
    return with_cuda("host_unregister", kError, [&](const cuda::Driver& driver) {
        if (!cuda::classify(driver, address).pinned) {
            return kBadParameter; // not registered: CUDA was not in use then
        }
        const AnyContext context(driver, device);
        cuda::check(driver.cuMemHostUnregister(address), "cuMemHostUnregister");
        return kSuccess;
    });
}

// ---- streams and events

void destroy_stream(Object* object)
{
    auto* const stream = reinterpret_cast<Stream*>(object);
    const cuda::Driver* const driver = cuda::initialised_driver();
    if (stream->stream != nullptr && driver != nullptr) {
        driver->cuStreamDestroy(static_cast<CUstream>(stream->stream));
    }
}

void destroy_event(Object* object)
{
    auto* const event = reinterpret_cast<Event*>(object);
    const cuda::Driver* const driver = cuda::initialised_driver();
    if (event->event != nullptr && driver != nullptr) {
        driver->cuEventDestroy(static_cast<CUevent>(event->event));
    }
}

template <typename Made, void (*destroy)(Object*)>
int make(Made** made)
{
    static void (*construct[])(Object*) = {nullptr};
    static void (*destruct[])(Object*) = {destroy, nullptr};
    static Class its_class = {.cls_name = "gdr_accelerator_object",
                              .cls_parent = nullptr,
                              .cls_construct = nullptr,
                              .cls_destruct = destroy,
                              .cls_initialized = 1,
                              .cls_depth = 1,
                              .cls_construct_array = construct,
                              .cls_destruct_array = destruct,
                              .cls_sizeof = sizeof(Made)};
    *made = static_cast<Made*>(std::calloc(1, sizeof(Made)));
    if (*made == nullptr) {
        return kOutOfResource;
    }
    (*made)->super = {&its_class, 1};
    return kSuccess;
}

int create_stream(int, Stream** stream)
{
    return make<Stream, destroy_stream>(stream);
}

int create_event(int, Event** event)
{
    return make<Event, destroy_event>(event);
}

int mem_copy_async(int to_device, int from_device, void* to, const void* from, size_t length,
                   Stream* stream, TransferType type)
{
    if (cuda::initialised_driver() == nullptr) {
        return mem_copy(to_device, from_device, to, from, length, type);
    }
    return with_cuda("mem_copy_async", kError, [&](const cuda::Driver& driver) {
        if (stream->stream == nullptr) {
            const AnyContext context(driver, kNoDevice);
            CUstream made = nullptr;
            cuda::check(driver.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
            stream->stream = made;
        }
        auto* const on = static_cast<CUstream>(stream->stream);
        const cuda::CurrentContext context(driver, context_of(driver, on));
        cuda::check(driver.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                         reinterpret_cast<CUdeviceptr>(from), length, on),
                    "cuMemcpyAsync");
        return kSuccess;
    });
}

// There is nothing to wait for on a stream that has not been used yet.
int record_event(int, Event* event, Stream* stream)
{
    if (stream->stream == nullptr) {
        return kSuccess;
    }
    return with_cuda("record_event", kError, [&](const cuda::Driver& driver) {
        auto* const on = static_cast<CUstream>(stream->stream);
        const cuda::CurrentContext context(driver, context_of(driver, on));
        if (event->event == nullptr) {
            CUevent made = nullptr;
            cuda::check(driver.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
            event->event = made;
        }
        cuda::check(driver.cuEventRecord(static_cast<CUevent>(event->event), on), "cuEventRecord");
        return kSuccess;
    });
}

int query_event(int, Event* event)
{
    if (event->event == nullptr) {
        return kSuccess;
    }
    return with_cuda("query_event", kError, [&](const cuda::Driver& driver) {
        const CUresult result = driver.cuEventQuery(static_cast<CUevent>(event->event));
        if (result == CUDA_ERROR_NOT_READY) {
            return kResourceBusy;
        }
        cuda::check(result, "cuEventQuery");
        return kSuccess;
    });
}

// ---- streams in Open MPI 6

int mem_copy_now(int to_device, int from_device, void* to, const void* from, size_t length, Stream*,
                 TransferType type)
{
    return mem_copy(to_device, from_device, to, from, length, type);
}

int mem_move_now(int to_device, int from_device, void* to, const void* from, size_t length, Stream*,
                 TransferType type)
{
    return mem_move(to_device, from_device, to, from, length, type);
}

int mem_alloc_now(int device, void** address, size_t length, Stream*)
{
    return mem_alloc(device, address, length);
}

int mem_release_now(int device, void* address, Stream*)
{
    return mem_release(device, address);
}

// ---- devices

int num_devices(int* devices)
{
    *devices = 0;
    return with_cuda("num_devices", kSuccess, [&](const cuda::Driver& driver) {
        cuda::check(driver.cuDeviceGetCount(devices), "cuDeviceGetCount");
        return kSuccess;
    });
}

int get_device(int* device)
{
    return with_cuda("get_device", kError, [&](const cuda::Driver& driver) {
        *device = AnyContext(driver, kNoDevice).device();
        return kSuccess;
    });
}

int get_device_pci_attr(int device, PciAttributes* attributes)
{
    return with_cuda("get_device_pci_attr", kError, [&](const cuda::Driver& driver) {
        char id[32];
        unsigned domain = 0, bus = 0, slot = 0, function = 0;
        cuda::check(driver.cuDeviceGetPCIBusId(id, sizeof(id), device), "cuDeviceGetPCIBusId");
        if (std::sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) {
            return kError;
        }
        *attributes = {static_cast<uint16_t>(domain), static_cast<uint8_t>(bus),
                       static_cast<uint8_t>(slot), static_cast<uint8_t>(function)};
        return kSuccess;
    });
}

int device_can_access_peer(int* access, int device, int peer)
{
    return with_cuda("device_can_access_peer", kError, [&](const cuda::Driver& driver) {
        cuda::check(driver.cuDeviceCanAccessPeer(access, device, peer), "cuDeviceCanAccessPeer");
        return kSuccess;
    });
}

} // namespace

Module& module()
{
    static Module functions = {
        .check_addr = check_addr,
        .create_stream = create_stream,
        .create_event = create_event,
        .record_event = record_event,
        .query_event = query_event,
        .mem_copy_async = mem_copy_async,
        .mem_copy = mem_copy,
        .mem_move = mem_move,
        .mem_alloc = mem_alloc,
        .mem_release = mem_release,
        .get_address_range = get_address_range,
        .host_register = host_register,
        .host_unregister = host_unregister,
        .get_device = get_device,
        .get_device_pci_attr = get_device_pci_attr,
        .device_can_access_peer = device_can_access_peer,
        .get_buffer_id = get_buffer_id,
    };
    return functions;
}

Module6& module_6(const Module6& null)
{
    static Module6 functions = [&] {
        Module6 made = null;
        made.check_addr = check_addr;
        made.mem_copy_async = mem_copy_now;
        made.mem_copy = mem_copy;
        made.mem_move_async = mem_move_now;
        made.mem_move = mem_move;
        made.mem_alloc = mem_alloc;
        made.mem_release = mem_release;
        made.mem_alloc_stream = mem_alloc_now;
        made.mem_release_stream = mem_release_now;
        made.get_address_range = get_address_range;
        made.host_register = host_register;
        made.host_unregister = host_unregister;
        made.get_device = get_device;
        made.get_device_pci_attr = get_device_pci_attr;
        made.device_can_access_peer = device_can_access_peer;
        made.get_buffer_id = get_buffer_id;
        made.num_devices = num_devices;
        return made;
    }();
    return functions;
}

} // namespace gdr::openmpi
