// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// If all buffers of a call are in host memory, the call costs a look at each of them.
#include "mpi/serve.hpp"

#include "cuda/driver.hpp"
#include "log/log.hpp"
#include "mem/host_pages.hpp"
#include "mem/process_memory.hpp"
#include "mpi/collectives/gpu_collectives.hpp"
#include "mpi/collectives/predefined_reductions.hpp"
#include "mpi/gpu/device_memory.hpp"
#include "mpi/gpu/window_memory.hpp"
#include "mpi/hints/collective_hint.hpp"
#include "mpi/hints/memory_kinds.hpp"
#include "mpi/interface/apply.hpp"
#include "mpi/interface/calling_library.hpp"
#include "mpi/interface/failure.hpp"
#include "mpi/interface/puts.hpp"
#include "mpi/interface/scope_end.hpp"
#include "mpi/interface/statuses.hpp"
#include "mpi/staging/attached_buffers.hpp"
#include "mpi/staging/epochs.hpp"
#include "mpi/staging/operation.hpp"
#include "mpi/staging/partitions.hpp"
#include "mpi/staging/requests.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include <dlfcn.h>

namespace gdr::mpi {

namespace {

Collectives collectives = Collectives::library;

int is_host_memory(Word buffer)
{
    constexpr Word kConstants = 4096; // no ABI has memory at MPI_IN_PLACE and the other constants
    return static_cast<int>(mem::in_process_memory(buffer) || mem::host_pages::contains(buffer) ||
                            (buffer != 0 && buffer + kConstants < 2 * kConstants));
}

// A type that is relative to an address without memory may lead anywhere.
bool may_lead_to_gpu(KnownDeviceMemory& memory, const void* buffer)
{
    bool of_cuda = false;
    return memory.find(buffer, &of_cuda) != nullptr ||
           (!of_cuda && !is_host_memory(reinterpret_cast<Word>(buffer)));
}

// A type relative to MPI_BOTTOM may also lead to GPU memory.
bool may_be_on_gpu(KnownDeviceMemory& memory, const Arguments& arguments, const Side& side)
{
    if (!side.exists() || arguments.in_place(side)) {
        return false;
    }
    const void* buffer = arguments.pointer(side.buffer);
    if (buffer == nullptr) {
        return side.counts || arguments.count(side, 0) != 0;
    }
    return side.bytes() ? memory.find(buffer) != nullptr : may_lead_to_gpu(memory, buffer);
}

// Whether the request belongs to a receive, so that MPI keeps the message's status in it.
bool receives_message(const Library& library, const Call& call, const Word* words)
{
    const int8_t peer = call.receive.peer;
    return peer >= 0 && static_cast<int>(words[peer]) != library.abi->proc_null;
}

// Calls MPI exactly once.
int make_staged(const Library& library, const Call& call, gdr_mpi_function* function, Word* words,
                Operation& operation)
{
    const bool complete = call.form == Form::blocking && call.kind != Kind::epoch;
    std::optional<Statuses> status;
    if (complete && operation.counted()) {
        status.emplace(library, call, words, 1);
    }
    const int result = apply(function, call, words);
    if (result != 0) {
        return result;
    }
    try {
        if (complete) {
            operation.put_back(status ? status->received(0) : 0);
            return result;
        }
        RequestedOperation begun =
            call.kind == Kind::epoch
                ? RequestedOperation(add_to_epoch(library, call, words, std::move(operation)))
                : RequestedOperation(std::move(operation));
        if (call.form != Form::blocking) {
            add_request(library,
                        library.abi->handle_at(reinterpret_cast<void*>(words[call.request]), 0),
                        std::move(begun), call.form == Form::persistent,
                        receives_message(library, call, words));
        }
    } catch (const std::exception& error) {
        return fail(library, call, words, error);
    }
    return result;
}

// For a call that is passed on unchanged.
void look_at_buffers(const cuda::Driver& driver, const Call& call, const Word* words)
{
    KnownDeviceMemory memory(driver);
    for (const Side* side : {&call.send, &call.receive, &call.compare}) {
        if (side->exists() && device_memory_is_untold() &&
            may_lead_to_gpu(memory, reinterpret_cast<const void*>(words[side->buffer]))) {
            tell_of_device_memory();
        }
    }
}

int call_with_buffers(const cuda::Driver& driver, const Library& library, const Call& call,
                      gdr_mpi_function* function, Word* words)
{
    std::array<Word, kMostArguments> replaced;
    std::copy_n(words, call.arguments, replaced.begin());
    try {
        const Arguments arguments(library, call, replaced.data());
        if (arguments.no_comm()) {
            return apply(function, call, words);
        }
        if (call.kind == Kind::unstaged) {
            look_at_buffers(driver, call, words);
            return apply(function, call, words);
        }
        if (call.kind == Kind::attach) {
            return attach_buffer(driver, arguments, function);
        }
        if (call.kind == Kind::partitioned) {
            return init_partitions(driver, arguments, function);
        }
        if (call.kind == Kind::window) {
            return make_window(driver, arguments, function);
        }
        KnownDeviceMemory memory(driver);
        if (may_be_on_gpu(memory, arguments, call.send) ||
            may_be_on_gpu(memory, arguments, call.receive) ||
            may_be_on_gpu(memory, arguments, call.compare)) {
            if (const int error = check_types(arguments); error != 0) {
                return error;
            }
            Operation operation(memory, arguments);
            if (operation.replaces()) {
                return make_staged(library, call, function, replaced.data(), operation);
            }
        }
    } catch (const std::exception& error) {
        return fail(library, call, words, error);
    }
    return apply(function, call, words);
}

// Who makes a call. Not the MPI library if the ranks vote on it.
Collectives makers_of(const Library& library, const Call& call, const Word* words)
{
    if (call.kind != Kind::collective || call.comm < 0) {
        return Collectives::library;
    }
    return any_collective_hints()
               ? hinted_collectives(library, library.abi->handle(words[call.comm]), collectives)
               : collectives;
}

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
    const bool also_host_memory =
        collectives != Collectives::library || any_collective_hints() || any_freed();
    static const gdr_mpi_service with_a_look = service_with_a_look();
    static const gdr_mpi_service for_all = service_for_all();
    gdr_mpi_serve_type* const serve = layer_serve.load();
    return serve != nullptr && serve(also_host_memory ? &for_all : &with_a_look) != 0;
}

int make(unsigned index, gdr_mpi_function* function, Word* words)
{
    const Call& call = calls()[index];
    const cuda::Driver* driver = cuda::open_driver(); // NULL in a forked child
    const Library* library =
        driver == nullptr && collectives == Collectives::library ? nullptr : library_of(function);
    if (library == nullptr) {
        return apply(function, call, words);
    }
    if (const Collectives by = makers_of(*library, call, words); by != Collectives::library) {
        if (const std::optional<int> result =
                call_on_gpus(*library, call, words, by == Collectives::nccl)) {
            return *result;
        }
    }
    if (call.kind == Kind::set_name) {
        keep_meaning(*library, library->abi->handle(words[0]));
    }
    if (driver == nullptr || call.kind == Kind::set_name) {
        return apply(function, call, words);
    }
    if (call.kind == Kind::get_info) {
        return get_info(*library, call, function, words);
    }
    if (call.kind == Kind::set_info) {
        const int result = set_info(*library, call, function, words);
        offer();
        return result;
    }
    if (call.kind == Kind::synchronise) {
        return number_in_epochs() != 0 ? synchronise(*library, call, function, words)
                                       : apply(function, call, words);
    }
    if (call.kind == Kind::detach) {
        return detach_buffer(call, function, words);
    }
    if (call.kind == Kind::attach || call.kind == Kind::collective || call.kind == Kind::message ||
        call.kind == Kind::partitioned || call.kind == Kind::window || call.kind == Kind::epoch ||
        call.kind == Kind::unstaged) {
        return call_with_buffers(*driver, *library, call, function, words);
    }
    if (call.kind == Kind::ready || call.kind == Kind::ready_range ||
        call.kind == Kind::ready_list || call.kind == Kind::arrived) {
        return call_with_partitions(*library, call, function, words);
    }
    return number_of_requests() != 0 ? call_with_requests(*driver, *library, call, function, words)
                                     : apply(function, call, words);
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
        const bool had_freed = any_freed();
        const int result = make(index, function, words);
        if (any_freed() && of_thread.former == 0) { // MPI may call back from there, too
            collect_freed(*library_of(function));
        }
        if (any_freed() != had_freed) {
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
    collectives = chosen;
    calls_come = listener.calls_come;
    set_device_memory_listener(listener.device_memory_comes);
    set_processor_may_put(processor_may_put);
    layer_serve = reinterpret_cast<gdr_mpi_serve_type*>(dlsym(layer, "gdr_mpi_serve"));
    if (!offer()) {
        gdr_log(warn,
                "MPI calls on GPU memory are not staged: libgdr_mpi.so.0 is of another ucx-gdr");
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
