// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Two ranges of the process, of which the second grows, and one of each thread.
#include "mem/process_memory.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <link.h>
#include <pthread.h>

// The C library's variable, which sbrk(0) returns. UCX's hooks keep it up to date, but their sbrk()
// asks the kernel.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" uintptr_t __curbrk;

namespace gdr::mem {

namespace {

struct Range {
    uintptr_t start = 1, last = 0;
};

// The loader names the program first. Its variables are in one segment.
Range find_variables()
{
    Range variables;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* to) {
            for (size_t i = 0; i < object->dlpi_phnum; ++i) {
                const ElfW(Phdr)& segment = object->dlpi_phdr[i];
                const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
                if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0) {
                    *static_cast<Range*>(to) = {start, start + segment.p_memsz - 1};
                }
            }
            return 1;
        },
        &variables);
    return variables;
}

// The beginning of the heap; if the kernel does not show it, the heap counts as empty.
uintptr_t find_heap()
{
    uintptr_t found = UINTPTR_MAX;
    std::FILE* file = std::fopen("/proc/self/maps", "re");
    if (file == nullptr) {
        return found;
    }
    char line[512];
    while (found == UINTPTR_MAX && std::fgets(line, sizeof(line), file) != nullptr) {
        uintptr_t start = 0;
        if (std::strstr(line, "[heap]") != nullptr && std::sscanf(line, "%" SCNxPTR, &start) == 1) {
            found = start;
        }
    }
    std::fclose(file);
    return found;
}

Stack find_stack()
{
    constexpr Stack kNone = {1, 1};
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return kNone;
    }
    void* address = nullptr;
    size_t length = 0;
    const bool known = pthread_attr_getstack(&attributes, &address, &length) == 0;
    pthread_attr_destroy(&attributes);
    if (!known) {
        return kNone;
    }
    // Without a limit the stack would seem to begin in memory that is mapped for something else.
    constexpr size_t kLongest = size_t{1} << 30;
    const uintptr_t end = reinterpret_cast<uintptr_t>(address) + length;
    return {end - std::min(length, kLongest), end};
}

} // namespace

const ProcessMemory& process_memory()
{
    static const ProcessMemory memory = [] {
        const Range variables = find_variables();
        return ProcessMemory{variables.start, variables.last, find_heap(), &__curbrk};
    }();
    return memory;
}

Stack stack_of_thread()
{
    static thread_local Stack stack{0, 0}; // 0: not looked up yet
    if (stack.end == 0) {
        stack = find_stack();
    }
    return stack;
}

bool in_process_memory(uintptr_t address)
{
    const ProcessMemory& memory = process_memory();
    if (address >= memory.variables && address <= memory.variables_last) {
        return true;
    }
    if (address >= memory.heap && address < __atomic_load_n(memory.heap_end, __ATOMIC_RELAXED)) {
        return true;
    }
    const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    const Stack stack = stack_of_thread();
    return address >= frame && address < stack.end && frame >= stack.start;
}

} // namespace gdr::mem
