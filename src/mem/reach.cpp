// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Asks the caches and remembers the answer as long as their registrations stay.
#include "mem/reach.hpp"

#include "mem/cache.hpp"
#include "mem/caches.hpp"
#include "tables/by_page.hpp"

#include <algorithm>

namespace gdr::mem {
namespace {

// What a thread found out.
struct Answer {
    uint64_t buffer_id = 0;
    uint64_t changes = 0; // Cache::changes() before the question
    bool staged = false;
    uintptr_t start = 0; // the range of the answer
    uintptr_t end = 0;
};

// The last answers, by the beginning of their allocation, or by the address asked about if the
// answer is for a part.
thread_local tables::ByPage<Answer, 6> last;

Reach ask(uintptr_t address, size_t length)
{
    Reach result;
    Caches::instance().visit([&](const std::vector<Cache*>& caches) {
        const bool any_used = std::ranges::any_of(caches, [](const Cache* cache) {
            return cache->of_hca() && cache->serves_device_memory();
        });
        for (Cache* cache : caches) {
            if (!cache->of_hca() || (any_used && !cache->serves_device_memory())) {
                continue;
            }
            const Cache::Proof proof = cache->prove(address, length);
            if (proof.outcome == Cache::Proof::Outcome::not_asked) {
                continue;
            }
            if (!proof.limit.empty()) {
                result.limit = proof.limit;
            }
            if (proof.outcome == Cache::Proof::Outcome::refused) {
                result = {true, address, address + length, proof.limit};
                break;
            }
            result.start = std::max(result.start, proof.start);
            result.end = std::min(result.end, proof.end);
        }
    });
    return result;
}

} // namespace

Reach reach(const cuda::Pointer& memory, uintptr_t address, size_t length)
{
    const uint64_t changes = Cache::changes();
    for (const uintptr_t key : {memory.base, address}) {
        const Answer* known = last.find(key);
        if (known != nullptr && known->buffer_id == memory.buffer_id && known->changes == changes &&
            known->start <= address && address + length <= known->end) {
            return {known->staged, known->start, known->end, {}};
        }
    }
    Reach found = ask(address, length);
    // The buffer id says nothing about the mappings after the first.
    if (address + length <= memory.end()) {
        const bool all = found.start <= memory.base && memory.end() <= found.end;
        last[all ? memory.base : address] = {memory.buffer_id, changes, found.staged, found.start,
                                             found.end};
    }
    return found;
}

} // namespace gdr::mem
