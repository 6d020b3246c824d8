// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Three ranges: of the process two, of which the second grows, and of each thread one.
#include "mem/process_memory.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <link.h>
#include <pthread.h>

// The C library's, and what sbrk(0) returns. UCX's hooks keep it, too, but have sbrk() ask the
// kernel.
extern "C" uintptr_t __curbrk;

namespace gdr::mem {

namespace {

struct Range {
    uintptr_t start = 0, end = 0;
};

// The first object that the loader names is the program. Its variables are in one segment.
Range find_variables()
{
    Range variables;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* to) {
            for (size_t i = 0; i < object->dlpi_phnum; ++i) {
                const ElfW(Phdr)& segment = object->dlpi_phdr[i];
                const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
                if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0)
                    *static_cast<Range*>(to) = {start, start + segment.p_memsz};
            }
            return 1;
        },
        &variables);
    return variables;
}

// Where the kernel lets the heap begin; where it does not tell, there is none for us.
uintptr_t find_heap()
{
    uintptr_t found = UINTPTR_MAX;
    std::FILE* file = std::fopen("/proc/self/maps", "re");
    if (file == nullptr)
        return found;
    char line[512];
    while (found == UINTPTR_MAX && std::fgets(line, sizeof(line), file) != nullptr) {
        uintptr_t start = 0;
        if (std::strstr(line, "[heap]") != nullptr && std::sscanf(line, "%" SCNxPTR, &start) == 1)
            found = start;
    }
    std::fclose(file);
    return found;
}

uintptr_t find_stack_end()
{
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return 0;
    void* start = nullptr;
    size_t length = 0;
    const bool known = pthread_attr_getstack(&attributes, &start, &length) == 0;
    pthread_attr_destroy(&attributes);
    return known ? reinterpret_cast<uintptr_t>(start) + length : 0;
}

} // namespace

const ProcessMemory& process_memory()
{
    static const ProcessMemory memory = [] {
        const Range variables = find_variables();
        return ProcessMemory{variables.start, variables.end, find_heap(), &__curbrk};
    }();
    return memory;
}

uintptr_t end_of_stack()
{
    static thread_local uintptr_t end = 0; // 0: not asked yet
    if (end == 0)
        end = std::max(find_stack_end(), uintptr_t{1});
    return end;
}

bool in_process_memory(uintptr_t address)
{
    const ProcessMemory& memory = process_memory();
    if (address >= memory.variables && address < memory.variables_end)
        return true;
    if (address >= memory.heap && address < __atomic_load_n(memory.heap_end, __ATOMIC_RELAXED))
        return true;
    return address < end_of_stack() &&
           address >= reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
}

} // namespace gdr::mem
