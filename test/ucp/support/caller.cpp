// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which library is responsible for a call.
#include "caller.hpp"

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include <link.h>
#include <unwind.h>

namespace ucptest {
namespace {

constexpr int kTransparent = -1;

struct Range {
    uintptr_t begin;
    uintptr_t end;
    int library; // index, or kTransparent
};

Range ranges[512];
int range_count = 0;
char names[kCallers][64];
int name_count = 0;

bool passes_on(const char* name)
{
    for (const char* prefix : {"libc.so", "libstdc++", "ld-linux", "libucs.so", "libgcc_s",
                               "libasan", "libubsan", "libtsan", "linux-vdso"}) {
        if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) {
            return true;
        }
    }
    return false;
}

int remember(dl_phdr_info* info, size_t, void*)
{
    const char* slash = std::strrchr(info->dlpi_name, '/');
    const char* name = slash == nullptr ? info->dlpi_name : slash + 1;
    int library = kTransparent;
    if (*name == '\0') {
        library = 0; // the program
    } else if (!passes_on(name)) {
        if (name_count == kCallers) {
            return 0;
        }
        library = name_count++;
        std::strncpy(names[library], name, sizeof(names[library]) - 1);
    }
    for (int header = 0; header < info->dlpi_phnum; ++header) {
        const auto& segment = info->dlpi_phdr[header];
        if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || range_count == 512) {
            continue;
        }
        const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
        ranges[range_count++] = {begin, begin + segment.p_memsz, library};
    }
    return 0;
}

struct Walk {
    int skip;
    int library;
};

_Unwind_Reason_Code step(_Unwind_Context* context, void* argument)
{
    Walk& walk = *static_cast<Walk*>(argument);
    if (walk.skip-- > 0) {
        return _URC_NO_REASON;
    }
    const uintptr_t address = _Unwind_GetIP(context);
    for (int at = 0; at < range_count; ++at) {
        if (address < ranges[at].begin || address >= ranges[at].end) {
            continue;
        }
        if (ranges[at].library == kTransparent) {
            return _URC_NO_REASON;
        }
        walk.library = ranges[at].library;
        return _URC_END_OF_STACK;
    }
    return _URC_NO_REASON; // the kernel's signal frame
}

} // namespace

void remember_libraries()
{
    range_count = 0;
    name_count = 1;
    std::strncpy(names[0], "the program", sizeof(names[0]) - 1);
    dl_iterate_phdr(remember, nullptr);
    caller(0); // the unwinder initialises itself on the first walk
}

int caller(int skip)
{
    Walk walk{skip + 1, 0};
    _Unwind_Backtrace(step, &walk);
    return walk.library;
}

const char* caller_name(int index)
{
    return index < name_count ? names[index] : nullptr;
}

bool is_ours(int index)
{
    const std::string_view name = caller_name(index);
    return name.starts_with("libuct_gdr.so") || name == "gdr_module.so";
}

} // namespace ucptest
