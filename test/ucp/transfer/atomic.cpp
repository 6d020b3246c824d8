// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// 64-bit atomics. All peers work on the same words of a rank at once, and the sets of fetched and
// final values are those that only atomic operations can give. Operands are in host memory, the
// words in memory of the far kind.
#include <algorithm>
#include <cstring>

#include "../support/failure.hpp"
#include "../support/remote_memory.hpp"
#include "transfer.hpp"

namespace ucptest {
namespace {

using Words = std::vector<uint64_t>;

constexpr uint64_t kGuardWord = 0x5aa55aa55aa55aa5ull;

// The words that peers work on in this rank's memory, between guards, and access to the peers'.
class Targets {
  public:
    Targets(Place& place, const Case& c)
        : place_(place), case_(c), memory_(c.far, (c.window + 2) * sizeof(uint64_t)),
          exposed_(place.worker, memory_)
    {
        Words image(c.window + 2, kGuardWord);
        for (size_t index = 0; index < c.window; ++index) {
            image[index + 1] = initial(place.ranks.rank(), index);
        }
        memory_.store(0, image.data(), memory_.size());
        const auto packed = place.ranks.exchange([&](int) { return exposed_.packed(); },
                                                 place.worker, "remote words");
        for (int peer : place.ranks.peers()) {
            remote_[peer] = std::make_unique<RemoteMemory>(place.endpoints.to(peer),
                                                           packed.at(static_cast<size_t>(peer)));
        }
    }

    uint64_t initial(int rank, size_t index) const
    {
        return seed_of({case_.number, static_cast<uint64_t>(rank), index});
    }

    void start(InFlight& operations, int peer, ucp_atomic_op_t opcode, const uint64_t* operand,
               uint64_t* reply, size_t index)
    {
        operations.atomic(place_.endpoints.to(peer), opcode, operand, reply,
                          remote_[peer]->address((index + 1) * sizeof(uint64_t)),
                          remote_[peer]->rkey());
    }

    // Completes everything everywhere.
    void settle(InFlight& operations)
    {
        for (int peer : place_.ranks.peers()) {
            operations.flush(place_.endpoints.to(peer));
        }
        operations.wait("atomics and flush");
        place_.ranks.barrier(place_.worker, "all is flushed");
    }

    // This rank's words after all peers are done.
    Words final_words()
    {
        Words image(case_.window + 2);
        memory_.load(image.data(), 0, memory_.size());
        if (image.front() != kGuardWord || image.back() != kGuardWord) {
            place_.report.failed("a guard around the words is overwritten");
        }
        return {image.begin() + 1, image.end() - 1};
    }

    // Gives each peer what this rank fetched from it, in order; returns what all peers together
    // fetched from this rank, by word.
    std::vector<Words> fetched_from_here(const std::map<int, std::vector<Words>>& fetched)
    {
        const auto all = place_.ranks.exchange(
            [&](int peer) {
                Bytes bytes;
                for (const Words& word : fetched.at(peer)) {
                    const auto* data = reinterpret_cast<const uint8_t*>(word.data());
                    bytes.insert(bytes.end(), data, data + word.size() * sizeof(uint64_t));
                }
                return bytes;
            },
            place_.worker, "fetched values");
        std::vector<Words> here(case_.window);
        for (int peer : place_.ranks.peers()) {
            const Bytes& bytes = all.at(static_cast<size_t>(peer));
            const size_t each = bytes.size() / case_.window;
            for (size_t index = 0; index < case_.window; ++index) {
                Words values(each / sizeof(uint64_t));
                std::memcpy(values.data(), bytes.data() + index * each, each);
                here[index].insert(here[index].end(), values.begin(), values.end());
            }
        }
        return here;
    }

    void expect(size_t index, const char* what, uint64_t found, uint64_t expected)
    {
        if (found != expected) {
            place_.report.failed(format("rank %d word %zu: %s is 0x%llx instead of 0x%llx",
                                        place_.ranks.rank(), index, what,
                                        static_cast<unsigned long long>(found),
                                        static_cast<unsigned long long>(expected)));
        }
    }

  private:
    Place& place_;
    const Case& case_;
    Memory memory_;
    ExposedMemory exposed_;
    std::map<int, std::unique_ptr<RemoteMemory>> remote_;
};

constexpr size_t kRounds = 8;

std::map<int, std::vector<Words>> room_for_fetched(Place& place, const Case& c, size_t rounds)
{
    std::map<int, std::vector<Words>> fetched;
    for (int peer : place.ranks.peers()) {
        fetched[peer].assign(c.window, Words(rounds));
    }
    return fetched;
}

} // namespace

void atomic_add(Place& place, const Case& c)
{
    Targets targets(place, c);
    InFlight operations(place.worker);
    const uint64_t operand = 0x100000001ull + static_cast<uint64_t>(place.ranks.rank());
    for (size_t round = 0; round < kRounds; ++round) {
        for (size_t index = 0; index < c.window; ++index) {
            for (int peer : place.ranks.peers()) {
                targets.start(operations, peer, UCP_ATOMIC_OP_ADD, &operand, nullptr, index);
            }
        }
    }
    targets.settle(operations);
    uint64_t added = 0;
    for (int peer : place.ranks.peers()) {
        added += kRounds * (0x100000001ull + static_cast<uint64_t>(peer));
    }
    const Words words = targets.final_words();
    for (size_t index = 0; index < c.window; ++index) {
        targets.expect(index, "the sum", words[index],
                       targets.initial(place.ranks.rank(), index) + added);
    }
}

// Everybody adds one: the fetched values of a word are consecutive numbers, each seen once.
void atomic_fetch_add(Place& place, const Case& c)
{
    Targets targets(place, c);
    InFlight operations(place.worker);
    const uint64_t one = 1;
    auto fetched = room_for_fetched(place, c, kRounds);
    for (size_t round = 0; round < kRounds; ++round) {
        for (size_t index = 0; index < c.window; ++index) {
            for (int peer : place.ranks.peers()) {
                targets.start(operations, peer, UCP_ATOMIC_OP_ADD, &one,
                              &fetched[peer][index][round], index);
            }
        }
    }
    targets.settle(operations);
    auto here = targets.fetched_from_here(fetched);
    const Words words = targets.final_words();
    for (size_t index = 0; index < c.window; ++index) {
        const uint64_t initial = targets.initial(place.ranks.rank(), index);
        targets.expect(index, "the sum", words[index], initial + here[index].size());
        for (uint64_t& value : here[index]) {
            value -= initial; // the initial value may be so large that the sum wraps
        }
        std::sort(here[index].begin(), here[index].end());
        for (size_t step = 0; step < here[index].size(); ++step) {
            targets.expect(index, "a fetched value", here[index][step], step);
        }
    }
}

// What is fetched and what stays at the end is what was there and what was swapped in.
void atomic_swap(Place& place, const Case& c)
{
    Targets targets(place, c);
    InFlight operations(place.worker);
    const auto swapped_in = [&](int from, size_t round) {
        return seed_of({~c.number, static_cast<uint64_t>(from), round});
    };
    Words operands(kRounds);
    auto fetched = room_for_fetched(place, c, kRounds);
    for (size_t round = 0; round < kRounds; ++round) {
        operands[round] = swapped_in(place.ranks.rank(), round);
        for (size_t index = 0; index < c.window; ++index) {
            for (int peer : place.ranks.peers()) {
                targets.start(operations, peer, UCP_ATOMIC_OP_SWAP, &operands[round],
                              &fetched[peer][index][round], index);
            }
        }
    }
    targets.settle(operations);
    auto here = targets.fetched_from_here(fetched);
    const Words words = targets.final_words();
    for (size_t index = 0; index < c.window; ++index) {
        here[index].push_back(words[index]);
        Words expected{targets.initial(place.ranks.rank(), index)};
        for (int peer : place.ranks.peers()) {
            for (size_t round = 0; round < kRounds; ++round) {
                expected.push_back(swapped_in(peer, round));
            }
        }
        std::sort(here[index].begin(), here[index].end());
        std::sort(expected.begin(), expected.end());
        for (size_t step = 0; step < expected.size(); ++step) {
            targets.expect(index, "a value", here[index][step], expected[step]);
        }
    }
}

// Everybody tries to replace the initial value with a number of its own: one wins. A second try
// with a value that is not there changes nothing.
void atomic_compare_swap(Place& place, const Case& c)
{
    Targets targets(place, c);
    InFlight operations(place.worker);
    const auto own = [&](int rank) { return seed_of({~c.number, static_cast<uint64_t>(rank)}); };
    auto fetched = room_for_fetched(place, c, 1);
    auto again = room_for_fetched(place, c, 1);
    std::map<int, Words> compared;
    for (int peer : place.ranks.peers()) {
        compared[peer].resize(c.window);
        for (size_t index = 0; index < c.window; ++index) {
            compared[peer][index] = targets.initial(peer, index);
            fetched[peer][index][0] = own(place.ranks.rank()); // holds the swap value beforehand
            targets.start(operations, peer, UCP_ATOMIC_OP_CSWAP, &compared[peer][index],
                          &fetched[peer][index][0], index);
        }
    }
    targets.settle(operations);
    for (int peer : place.ranks.peers()) {
        for (size_t index = 0; index < c.window; ++index) {
            again[peer][index][0] = ~own(place.ranks.rank());
            targets.start(operations, peer, UCP_ATOMIC_OP_CSWAP, &compared[peer][index],
                          &again[peer][index][0], index);
        }
    }
    targets.settle(operations);
    const auto here = targets.fetched_from_here(fetched);
    const auto here_again = targets.fetched_from_here(again);
    const Words words = targets.final_words();
    const auto peers = place.ranks.peers();
    for (size_t index = 0; index < c.window; ++index) {
        const uint64_t initial = targets.initial(place.ranks.rank(), index);
        size_t winners = 0;
        for (size_t at = 0; at < peers.size(); ++at) {
            const bool won = here[index][at] == initial;
            winners += won;
            targets.expect(index, won ? "the winner's value" : "a loser's fetched value",
                           won ? own(peers[at]) : here[index][at], words[index]);
            targets.expect(index, "what a failed compare fetched", here_again[index][at],
                           words[index]);
        }
        targets.expect(index, "the number of winners", winners, 1);
    }
}

// And, or and exclusive or, each without and with fetching. Every peer has words of its own.
void atomic_bitwise(Place& place, const Case& c)
{
    Targets targets(place, c);
    const auto peers = place.ranks.peers();
    // The peers of rank 0 share its words by turns; rank 0 alone works on theirs.
    const auto mine = [&](int target, int worker, size_t index) {
        return target != 0 || index % static_cast<size_t>(place.ranks.count() - 1) ==
                                  static_cast<size_t>(worker - 1);
    };
    const struct {
        ucp_atomic_op_t opcode;
        uint64_t operand;
    } steps[] = {{UCP_ATOMIC_OP_AND, 0x0ff0ffff0f0ff0ffull},
                 {UCP_ATOMIC_OP_OR, 0x1000200040008001ull},
                 {UCP_ATOMIC_OP_XOR, 0xf0f0f0f012345678ull}};
    const auto apply = [](ucp_atomic_op_t opcode, uint64_t value, uint64_t operand) {
        switch (opcode) {
        case UCP_ATOMIC_OP_AND:
            return value & operand;
        case UCP_ATOMIC_OP_OR:
            return value | operand;
        default:
            return value ^ operand;
        }
    };
    auto fetched = room_for_fetched(place, c, 1);
    std::map<int, Words> expected;
    for (int peer : peers) {
        for (size_t index = 0; index < c.window; ++index) {
            expected[peer].push_back(targets.initial(peer, index));
        }
    }
    for (const bool fetching : {false, true}) {
        for (const auto& step : steps) {
            InFlight operations(place.worker);
            const uint64_t operand = fetching ? ~step.operand : step.operand;
            for (int peer : peers) {
                for (size_t index = 0; index < c.window; ++index) {
                    if (mine(peer, place.ranks.rank(), index)) {
                        targets.start(operations, peer, step.opcode, &operand,
                                      fetching ? &fetched[peer][index][0] : nullptr, index);
                    }
                }
            }
            targets.settle(operations);
            for (int peer : peers) {
                for (size_t index = 0; index < c.window; ++index) {
                    if (!mine(peer, place.ranks.rank(), index)) {
                        continue;
                    }
                    uint64_t& value = expected[peer][index];
                    if (fetching) {
                        targets.expect(index, "the fetched value", fetched[peer][index][0], value);
                    }
                    value = apply(step.opcode, value, operand);
                }
            }
        }
    }
    const Words words = targets.final_words();
    for (size_t index = 0; index < c.window; ++index) {
        uint64_t value = targets.initial(place.ranks.rank(), index);
        for (const bool fetching : {false, true}) {
            for (const auto& step : steps) {
                value = apply(step.opcode, value, fetching ? ~step.operand : step.operand);
            }
        }
        targets.expect(index, "the word", words[index], value);
    }
}

} // namespace ucptest
