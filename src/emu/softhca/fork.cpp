// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Forks as before Linux 5.12, see fork.hpp. The kernel tells which pages a child gets to share:
// those of private mappings, unless they are not inherited. An HCA's regions there are moved to a
// copy, which stands for the pages that it keeps.
#include "emu/softhca/fork.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/verbs_abi.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace softhca {
namespace {

constexpr std::uint64_t kPage = 4096;

struct Range {
    std::uint64_t start, end; // whole pages
};

Range pages_of(std::uint64_t address, std::uint64_t length)
{
    return {address & ~(kPage - 1), (address + length + kPage - 1) & ~(kPage - 1)};
}

struct Forks {
    std::mutex mutex;
    bool initialized =
        std::getenv("RDMAV_FORK_SAFE") != nullptr || std::getenv("IBV_FORK_SAFE") != nullptr;
    bool too_late = false;                        // there are regions whose pages children get
    std::map<std::uint64_t, unsigned> registered; // by page: by how many regions
    std::set<Mr*> regions;
};

Forks& forks()
{
    static Forks& instance = *new Forks; // regions end after static objects do
    return instance;
}

// Counts one region more or less for each page; with the first and the last one the page's
// inheritance changes.
int count_region(const Range& pages, bool more)
{
    Forks& all = forks();
    std::uint64_t from = 0, to = 0; // to be changed together
    const auto change = [&] {
        return from == to || madvise(reinterpret_cast<void*>(from), to - from,
                                     more ? MADV_DONTFORK : MADV_DOFORK) == 0;
    };
    for (std::uint64_t page = pages.start; page < pages.end; page += kPage) {
        unsigned& regions = all.registered[page];
        const bool changes = more ? regions++ == 0 : --regions == 0;
        if (regions == 0) {
            all.registered.erase(page);
        }
        if (!changes) {
            continue;
        }
        if (page != to) {
            if (!change()) {
                return errno;
            }
            from = page;
        }
        to = page + kPage;
    }
    return change() ? 0 : errno;
}

// The parts of this process's memory that a child shares until one of both writes.
std::vector<Range> shared_with_children()
{
    std::vector<Range> shared;
    std::FILE* maps = std::fopen("/proc/self/smaps", "re");
    if (maps == nullptr) {
        return shared;
    }
    char line[4096];
    Range range = {};
    bool is_private = false;
    while (std::fgets(line, sizeof line, maps) != nullptr) {
        unsigned long start, end;
        char permissions[5];
        if (std::sscanf(line, "%lx-%lx %4s", &start, &end, permissions) == 3) {
            range = {start, end};
            is_private = permissions[3] == 'p';
        } else if (std::strncmp(line, "VmFlags:", 8) == 0 && is_private &&
                   std::strstr(line, " dc") == nullptr) {
            shared.push_back(range);
        }
    }
    std::fclose(maps);
    return shared;
}

// What can be read of it, and zeros.
void copy_present(void* to, std::uint64_t from, std::uint64_t length)
{
    for (std::uint64_t done = 0; done < length; done += kPage) {
        const iovec target = {static_cast<char*>(to) + done, kPage};
        const iovec source = {reinterpret_cast<void*>(from + done), kPage};
        process_vm_readv(getpid(), &target, 1, &source, 1, 0);
    }
}

// Lets the HCA have a copy for the region's memory.
void part(Arena& arena, Mr& mr, const std::vector<Range>& shared)
{
    MrShared& region = arena.mrs[mr.base.handle];
    const Extent extent = region.extent;
    const Range pages = pages_of(extent.address, extent.length);
    bool parts = false;
    for (const Range& range : shared) {
        parts |= range.start < pages.end && pages.start < range.end;
    }
    if (!parts || mr.mapping != nullptr) { // not, or by an earlier fork
        return;
    }
    void* copy = mmap(nullptr, pages.end - pages.start, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) {
        return;
    }
    copy_present(copy, pages.start, pages.end - pages.start);
    mr.mapping = copy;
    mr.mapping_length = pages.end - pages.start;
    const std::uint64_t moved = reinterpret_cast<std::uint64_t>(copy) - pages.start;
    region.describe({extent.iova, extent.length, extent.address + moved});
    if (region.windows.load() == 0) {
        return; // and the table is not looked through, which is large
    }
    for (MrShared& window : arena.mrs) {
        if (window.key.load() != 0 && window.window != kNoWindow &&
            window.region == mr.base.handle) {
            window.describe(
                {window.extent.iova, window.extent.length, window.extent.address + moved});
        }
    }
}

void before_fork()
{
    forks().mutex.lock();
}

void in_parent()
{
    if (Process* process = Process::current(); process != nullptr && !forks().regions.empty()) {
        const std::vector<Range> shared = shared_with_children();
        for (Mr* mr : forks().regions) {
            part(process->arena(), *mr, shared);
        }
    }
    forks().mutex.unlock();
}

void in_child()
{
    forks().regions.clear();
    forks().registered.clear();
    forks().mutex.unlock();
}

} // namespace

bool forks_part_memory()
{
    return !config().copy_on_fork;
}

int keep_from_children(void* start, std::size_t length)
{
    const std::lock_guard<std::mutex> guard(forks().mutex);
    if (!forks().initialized) {
        forks().too_late = true;
        return 0;
    }
    return count_region(pages_of(reinterpret_cast<std::uint64_t>(start), length), true);
}

int give_to_children(void* start, std::size_t length)
{
    const std::lock_guard<std::mutex> guard(forks().mutex);
    return forks().initialized
               ? count_region(pages_of(reinterpret_cast<std::uint64_t>(start), length), false)
               : 0;
}

void watch_forks(Mr& mr)
{
    static const int registered = pthread_atfork(before_fork, in_parent, in_child);
    static_cast<void>(registered);
    const std::lock_guard<std::mutex> guard(forks().mutex);
    forks().regions.insert(&mr);
}

void unwatch_forks(Mr& mr)
{
    const std::lock_guard<std::mutex> guard(forks().mutex);
    forks().regions.erase(&mr);
}

int fork_init()
{
    if (!forks_part_memory()) {
        return 0;
    }
    const std::lock_guard<std::mutex> guard(forks().mutex);
    if (!forks().initialized && forks().too_late) {
        return EINVAL;
    }
    forks().initialized = true;
    return 0;
}

int dontfork_range(void* start, std::size_t length)
{
    return forks_part_memory() ? keep_from_children(start, length) : 0;
}

int dofork_range(void* start, std::size_t length)
{
    return forks_part_memory() ? give_to_children(start, length) : 0;
}

ibv_fork_status is_fork_initialized()
{
    if (!forks_part_memory()) {
        return IBV_FORK_UNNEEDED;
    }
    const std::lock_guard<std::mutex> guard(forks().mutex);
    return forks().initialized ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

} // namespace softhca
