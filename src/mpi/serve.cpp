// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/serve.hpp"

#include "cuda/driver.hpp"
#include "log/log.hpp"
#include "mem/host_pages.hpp"
#include "mem/process_memory.hpp"
#include "mpi/dispatch.hpp"
#include "mpi/gpu/device_memory.hpp"
#include "mpi/gpu/host_memory.hpp"
#include "mpi/gpu/passed_on.hpp"
#include "mpi/hints/collective_hint.hpp"
#include "mpi/interface/apply.hpp"
#include "mpi/interface/calling_library.hpp"
#include "mpi/interface/puts.hpp"
#include "mpi/interface/scope_end.hpp"
#include "mpi/staging/epochs.hpp"
#include "mpi/staging/partitions.hpp"
#include "mpi/staging/requests.hpp"

#include <atomic>
#include <exception>
#include <mutex>

#include <dlfcn.h>

namespace gdr::mpi {

namespace {

int enabled(gdr_mpi_function* function)
{
    return static_cast<int>(cuda::open_driver() != nullptr && library_of(function) != nullptr);
}

std::atomic<void (*)()> calls_come{nullptr};

// The MPI library's own components call this as well.
void first_called(gdr_mpi_function* function)
{
    static std::atomic<bool> heard{false};
    if (heard || library_of(function) == nullptr || is_in_mpi_library()) {
        return;
    }
    calls_come.load()();
    heard = true;
}

void forwarded(unsigned index, const Word* words)
{
    const cuda::Driver* driver = cuda::open_driver();
    if (driver == nullptr) {
        return;
    }
    try {
        look_at_buffers(*driver, calls()[index], words);
    } catch (const cuda::Error&) {
        tell_of_device_memory();
    }
}

int call(unsigned index, gdr_mpi_function* function, gdr_mpi_word* words, int* depth);

const Word* counter(const std::atomic<size_t>& number)
{
    static_assert(std::atomic<size_t>::is_always_lock_free && sizeof(number) == sizeof(Word));
    return reinterpret_cast<const Word*>(&number);
}

const Word* words_of(const mem::host_pages::Sets& sets)
{
    static_assert(sizeof(mem::host_pages::Set) == GDR_PAGE_WAYS * sizeof(Word));
    return reinterpret_cast<const Word*>(&sets);
}

gdr_mpi_service service(const gdr_mpi_host_memory& host, int (*is_host_memory)(Word))
{
    return {.calls = static_cast<unsigned>(calls().size()),
            .enabled = enabled,
            .first_called = first_called,
            .forwarded = forwarded,
            .host = host,
            .stack_of_thread =
                [] {
                    const mem::Stack stack = mem::stack_of_thread();
                    return gdr_mpi_stack{stack.start, stack.end};
                },
            .is_host_memory = is_host_memory,
            .requests = counter(number_of_requests()),
            .partitions = counter(number_of_partitions()),
            .in_epochs = counter(number_in_epochs()),
            .call = call};
}

gdr_mpi_service service_with_a_look()
{
    const mem::ProcessMemory& process = mem::process_memory();
    return service({.variables = process.variables,
                    .variables_last = process.variables_last,
                    .heap = process.heap,
                    .heap_end = process.heap_end,
                    .any_stack = 1,
                    .pages = words_of(mem::host_pages::sets)},
                   is_host_memory);
}

gdr_mpi_service service_for_all()
{
    static constexpr Word kNone = 0;
    return service({.variables = UINTPTR_MAX,
                    .variables_last = 0,
                    .heap = UINTPTR_MAX,
                    .heap_end = &kNone,
                    .any_stack = 0,
                    .pages = words_of(mem::host_pages::no_sets)},
                   [](Word) { return 0; });
}

// From libgdr_mpi.so.0, once that is loaded.
std::atomic<gdr_mpi_serve_type*> layer_serve{nullptr};

// Calls with host memory also have to come here if they may take part in collectives between GPUs,
// or if requests have been freed: any call may find out what has become of those.
bool offer()
{
    static std::mutex mutex; // the last offer must be the current state
    const std::lock_guard lock(mutex);
    const bool also_host_memory = gpus_may_make_collectives() || any_freed();
    static const gdr_mpi_service with_a_look = service_with_a_look();
    static const gdr_mpi_service for_all = service_for_all();
    gdr_mpi_serve_type* const serve = layer_serve.load();
    return serve != nullptr && serve(also_host_memory ? &for_all : &with_a_look) != 0;
}

int call(unsigned index, gdr_mpi_function* function, gdr_mpi_word* words, int* depth)
{
    struct Depth {
        int *now, former;
    } of_thread{depth, *depth};
    const ScopeEnd inside(
        [](void* left) {
            const auto& thread = *static_cast<Depth*>(left);
            *thread.now = thread.former;
        },
        &of_thread);
    ++*depth;
    try {
        const Call& made = calls()[index];
        const bool had_freed = any_freed();
        const int result = dispatch(made, function, words);
        bool has_freed = any_freed();
        if (has_freed && of_thread.former == 0) { // MPI may call back from there, too
            collect_freed(*library_of(function));
            has_freed = any_freed();
        }
        if (has_freed != had_freed || made.kind == Kind::set_info) {
            offer();
        }
        return result;
    } catch (const Thrown& thrown) {
        std::rethrow_exception(thrown.exception);
    }
}

} // namespace

void serve(Collectives chosen, const Listener& listener, bool (*processor_may_put)())
{
    // dlsym() by the name of a function does not find a library that was loaded as a dependency of
    // a part of the program.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    static bool offered = false;
    void* const layer = offered ? nullptr : dlopen("libgdr_mpi.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (layer == nullptr) {
        return;
    }
    offered = true; // for good: libgdr_mpi.so.0 stays loaded, too
    set_collectives(chosen);
    calls_come = listener.calls_come;
    set_device_memory_listener(listener.device_memory_comes);
    set_processor_may_put(processor_may_put);
    layer_serve = reinterpret_cast<gdr_mpi_serve_type*>(dlsym(layer, "gdr_mpi_serve"));
    if (!offer()) {
        gdr_log(warn,
                "MPI calls on GPU memory are not staged: libgdr_mpi.so.0 and gdr_module.so are of "
                "different versions of ucx-gdr. Install both from one");
    }
}

Way way_of(const char* function)
{
    void* const layer = dlopen("libgdr_mpi.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (layer == nullptr) {
        return Way::without_layer;
    }
    const auto heard = reinterpret_cast<gdr_mpi_heard_type*>(dlsym(layer, "gdr_mpi_heard"));
    return heard == nullptr || heard(function) != 0 ? Way::by_layer : Way::past_layer;
}

} // namespace gdr::mpi
