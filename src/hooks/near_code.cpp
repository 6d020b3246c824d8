// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Jumps in a page of their own.
#include "hooks/near_code.hpp"

#ifdef __x86_64__
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include <sys/mman.h>

namespace gdr::hooks {
namespace {

constexpr size_t kPage = 4096;
constexpr uintptr_t kReach = uintptr_t{2000} << 20; // 2 GiB less more than a page

bool is_near(const void* one, const void* other)
{
    const auto distance = reinterpret_cast<intptr_t>(one) - reinterpret_cast<intptr_t>(other);
    return distance < static_cast<intptr_t>(kReach) && -distance < static_cast<intptr_t>(kReach);
}

// "jmp *0(%rip)" and the address after it.
struct [[gnu::packed]] FarJump {
    uint8_t opcode[6] = {0xff, 0x25};
    void* target;
};

char* page_at(uintptr_t address)
{
    void* const wanted = reinterpret_cast<void*>(address);
    void* const page = mmap(wanted, kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (page == wanted) {
        return static_cast<char*>(page);
    }
    if (page != MAP_FAILED) {
        munmap(page, kPage); // a kernel that takes the address as a hint
    }
    return nullptr;
}

// Takes a page after a mapping with free space, but not after the heap, which grows.
char* page_near(void* function)
{
    std::ifstream maps("/proc/self/maps");
    uintptr_t behind = 0;
    for (std::string line; std::getline(maps, line);) {
        unsigned long start = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx", &start, &end) != 2) {
            continue;
        }
        if (behind != 0 && start - behind >= kPage &&
            is_near(function, reinterpret_cast<void*>(behind))) {
            if (char* const page = page_at(behind)) {
                return page;
            }
        }
        behind = line.ends_with("[heap]") ? 0 : end;
    }
    return nullptr;
}

} // namespace

// As UCX's patcher does, but from a page that stays writable, since its code may be running.
void* code_near(void* function, void* target)
{
    static char* page = nullptr;
    static size_t used = 0;
    if (is_near(function, target)) {
        return target;
    }
    if (page == nullptr || !is_near(function, page) || used + sizeof(FarJump) > kPage) {
        page = page_near(function);
        used = 0;
    }
    if (page == nullptr) {
        return nullptr;
    }
    void* const code = page + used;
    const FarJump jump{.target = target};
    std::memcpy(code, &jump, sizeof(jump));
    used += sizeof(jump);
    return code;
}

} // namespace gdr::hooks
#else
namespace gdr::hooks {

void* code_near(void*, void* target)
{
    return target;
}

} // namespace gdr::hooks
#endif
