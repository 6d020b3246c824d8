// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finds and initialises libcuda.so.1, once per process.
#include "cuda/driver.hpp"
#include "cuda/inventory.hpp"
#include "cuda/relaxed_capture.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include <dlfcn.h>
#include <pthread.h>

namespace gdr::cuda {

namespace {

constexpr const char* kLibrary = "libcuda.so.1";

struct Loader {
    constexpr Loader() = default;

    std::mutex mutex;
    bool loaded = false;               // library and table are filled in
    void* handle = nullptr;            // from dlopen
    std::atomic<bool> looked{false};   // open_driver() has run
    bool tried = false;                // driver() has run
    Driver library{};                  // the driver's own functions
    Driver table{};                    // the functions that callers use
    std::optional<std::string> reason; // for unavailable_reason()
    std::atomic<const Driver*> open{nullptr};
    std::atomic<const Driver*> initialised{nullptr};
    std::atomic<bool> forked{false};
};

// Constructed before the program runs, so that no caller has to check for it. Never destroyed,
// because static destructors still call CUDA.
constinit union Lasting {
    constexpr Lasting() : loader() {}
    ~Lasting() {}

    Loader loader;
} lasting;

Loader& loader()
{
    return lasting.loader;
}

template <typename Function>
bool look_up(void* library, const char* symbol, Function& function)
{
    function = reinterpret_cast<Function>(dlsym(library, symbol));
    return function != nullptr;
}

// Calls a driver function in the scope of a RelaxedCapture.
template <auto Driver::*function>
struct Relaxed;
template <typename... Arguments, CUresult (*Driver::*function)(Arguments...)>
struct Relaxed<function> {
    static CUresult call(Arguments... arguments)
    {
        const Driver& library = loader().library;
        const RelaxedCapture relaxed(library);
        return (library.*function)(arguments...);
    }
};

// Returns the error, empty on success.
std::string fill(Driver& table, void* library)
{
// The preprocessor expands the argument's macros before it becomes a string: "cuMemAlloc_v2".
#define GDR_CUDA_NAME(function) #function
#define GDR_CUDA_LOOK_UP(function)                                                                 \
    if (!look_up(library, GDR_CUDA_NAME(function), table.function))                                \
        return std::string(kLibrary) + " has no " GDR_CUDA_NAME(function) ": the driver is too "   \
                                                                          "old";
    GDR_CUDA_FUNCTIONS(GDR_CUDA_LOOK_UP)
#undef GDR_CUDA_LOOK_UP
#define GDR_CUDA_LOOK_UP_OPTIONAL(function)                                                        \
    look_up(library, GDR_CUDA_NAME(function), table.function);
    GDR_CUDA_OPTIONAL_FUNCTIONS(GDR_CUDA_LOOK_UP_OPTIONAL)
#undef GDR_CUDA_LOOK_UP_OPTIONAL
#undef GDR_CUDA_NAME
    look_up(library, "cuStreamGetId", table.cuStreamGetId);
    look_up(library, "cuStreamGetCaptureInfo_v2", table.capture_info);
    look_up(library, "cuStreamUpdateCaptureDependencies", table.update_capture_dependencies);
    look_up(library, "cuMemGetHandleForAddressRange", table.cuMemGetHandleForAddressRange);
    look_up(library, "cuFlushGPUDirectRDMAWrites", table.cuFlushGPUDirectRDMAWrites);
    look_up(library, "cuCtxGetId", table.cuCtxGetId);
    return {};
}

Driver relax(const Driver& library)
{
    Driver table = library;
#define GDR_CUDA_RELAX(function) table.function = Relaxed<&Driver::function>::call;
    GDR_CUDA_RELAXED_FUNCTIONS(GDR_CUDA_RELAX)
#undef GDR_CUDA_RELAX
    if (library.cuMemGetHandleForAddressRange != nullptr) {
        table.cuMemGetHandleForAddressRange = Relaxed<&Driver::cuMemGetHandleForAddressRange>::call;
    }
    if (library.cuFlushGPUDirectRDMAWrites != nullptr) {
        table.cuFlushGPUDirectRDMAWrites = Relaxed<&Driver::cuFlushGPUDirectRDMAWrites>::call;
    }
    return table;
}

template <typename... Arguments>
void refuse(CUresult (*&function)(Arguments...))
{
    function = [](Arguments...) { return CUDA_ERROR_NOT_INITIALIZED; };
}

// From now on every function in the table returns CUDA_ERROR_NOT_INITIALIZED, so callers need not
// check whether they run in a forked child.
void refuse_all(Driver& table)
{
#define GDR_CUDA_REFUSE(function) refuse(table.function);
    GDR_CUDA_FUNCTIONS(GDR_CUDA_REFUSE)
    GDR_CUDA_OPTIONAL_FUNCTIONS(GDR_CUDA_REFUSE)
#undef GDR_CUDA_REFUSE
    refuse(table.cuMemGetHandleForAddressRange);
    refuse(table.cuFlushGPUDirectRDMAWrites);
    refuse(table.cuCtxGetId);
    refuse(table.cuStreamGetId);
    refuse(table.capture_info);
    refuse(table.update_capture_dependencies);
}

// Whether CUDA is initialised; if so, sets devices.
bool is_initialised(const Driver& driver, int* devices)
{
    return driver.cuDeviceGetCount(devices) == CUDA_SUCCESS;
}

// Runs in a forked child.
void forget()
{
    Loader& l = loader();
    if (l.initialised == nullptr) {
        return; // the child may use CUDA
    }
    l.open = nullptr;
    l.initialised = nullptr;
    l.forked = true;
    refuse_all(l.library);
    refuse_all(l.table);
}

// Returns the error, empty on success.
std::string load(Loader& l)
{
    if (l.loaded) {
        return {};
    }
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return dlerror(); // names the file
    }
    if (std::string missing = fill(l.library, library); !missing.empty()) {
        return missing;
    }
    l.table = relax(l.library);
    l.handle = library;
    l.loaded = true;
    pthread_atfork([] { initialised_driver(); }, nullptr, forget);
    return {};
}

std::string initialise(Loader& l)
{
    if (std::string missing = load(l); !missing.empty()) {
        return missing;
    }
    if (CUresult result = l.table.cuInit(0); result != CUDA_SUCCESS) {
        return "cuInit: " + error_text(l.table, result);
    }
    int devices = 0;
    if (CUresult result = l.table.cuDeviceGetCount(&devices); result != CUDA_SUCCESS) {
        return "cuDeviceGetCount: " + error_text(l.table, result);
    }
    if (devices == 0) {
        return "the CUDA driver has no device";
    }
    l.open = &l.table;
    l.initialised = &l.table;
    return {};
}

void look(Loader& l)
{
    const std::lock_guard guard(l.mutex);
    if (l.looked) {
        return;
    }
    l.reason = load(l);
    int devices = 0;
    if (l.reason->empty() && !is_initialised(l.table, &devices)) {
        l.reason = why_no_gpu();
    }
    if (l.reason->empty()) {
        l.open = &l.table;
    }
    l.looked = true;
}

} // namespace

void* entry(const char* name)
{
    void* const library = open_driver() != nullptr ? loader().handle : nullptr;
    return library != nullptr ? dlsym(library, name) : nullptr;
}

const Driver& plain_driver()
{
    return loader().library;
}

const Driver* open_driver()
{
    Loader& l = loader();
    if (const Driver* open = l.open.load(std::memory_order_acquire)) [[likely]] {
        return open;
    }
    if (!l.looked.load(std::memory_order_acquire)) {
        look(l);
    }
    return l.open.load(std::memory_order_acquire);
}

const Driver* initialised_driver()
{
    Loader& l = loader();
    if (const Driver* initialised = l.initialised.load(std::memory_order_acquire)) {
        return initialised;
    }
    const Driver* const open = l.open.load(std::memory_order_acquire);
    int devices = 0;
    if (open == nullptr || !is_initialised(*open, &devices)) {
        return nullptr;
    }
    l.initialised.store(open, std::memory_order_release);
    return open;
}

bool is_untouched()
{
    return initialised_driver() == nullptr && !in_forked_child();
}

const Driver* driver()
{
    if (const Driver* initialised = initialised_driver()) {
        return initialised;
    }
    Loader& l = loader();
    if (l.forked) {
        return nullptr;
    }
    const std::lock_guard guard(l.mutex);
    if (!l.tried) {
        l.tried = true;
        l.reason = initialise(l);
    }
    return l.initialised;
}

bool in_forked_child()
{
    return loader().forked;
}

std::string unavailable_reason()
{
    Loader& l = loader();
    if (l.forked) {
        return "CUDA was in use before this process was forked, and does not work in a forked "
               "child";
    }
    std::lock_guard guard(l.mutex);
    return l.reason.value_or("");
}

} // namespace gdr::cuda
