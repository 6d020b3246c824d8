// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels of the tests that initiate operations, or make partitions of prepared transfers ready:
// one writes rounds of numbers to a peer, each with a signal, another looks at them and says so. As
// partitions.hpp for GPUs and for the host.
#pragma once

#include "sync/ucx-gdr/ugdr_initiate.cuh"
#include "sync/ucx-gdr/ugdr_transfer.cuh"

#include "partitions.hpp"

namespace synctest {

constexpr unsigned kSlots = 128; // of a block: rounds that may be under way

// What a kernel gets, by value. Blocks have a channel each, slots of `length` words in out and in,
// and two words in signals: the round that has come, and that which the peer has seen.
struct Exchange {
    ugdr_dev_t device;
    unsigned long long *out, *in, *signals;
    int* statuses;                // of each block
    unsigned mem, rmem, rsignals; // of out; of the peer's in and signals
    unsigned first, rounds, length;
};

UGDR_DEVICE unsigned long long number_of_round(unsigned round, unsigned index)
{
    return static_cast<unsigned long long>(round) << 32 | index;
}

UGDR_DEVICE unsigned slot_of(const Exchange& with, unsigned block, unsigned round)
{
    return (block * kSlots + round % kSlots) * with.length;
}

// parts: every other round puts, and signals by a value.
UGDR_DEVICE void send_in_rounds(const Block& block, const Exchange& with, bool parts)
{
    const unsigned channel = with.first + block.number;
    int status = 0;
    for (unsigned round = 1; round <= with.rounds && status == 0; ++round) {
        const unsigned slot = slot_of(with, channel, round);
        if (round > kSlots) {
            status = ugdr_dev_signal_wait<UGDR_LEVEL_BLOCK>(
                with.device, with.signals + 2 * channel + 1, round - kSlots);
        }
        for (unsigned i = block.thread; i < with.length; i += block.threads) {
            with.out[slot + i] = number_of_round(round, i);
        }
        if (!parts || round % 2 == 0) {
            ugdr_dev_put_signal<UGDR_LEVEL_BLOCK>(with.device, channel, with.mem, slot * 8ull,
                                                  with.rmem, slot * 8ull, with.length * 8ull,
                                                  with.rsignals, 16ull * channel, round);
        } else {
            ugdr_dev_put<UGDR_LEVEL_BLOCK>(with.device, channel, with.mem, slot * 8ull, with.rmem,
                                           slot * 8ull, with.length * 8ull);
            ugdr_dev_put_value<UGDR_LEVEL_BLOCK>(with.device, channel, round, 8, with.rsignals,
                                                 16ull * channel);
        }
    }
    const int last = ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(with.device, channel);
    if (block.thread == 0) {
        with.statuses[channel] = status != 0 ? status : last;
    }
}

UGDR_DEVICE void send_rounds(const Block& block, const Exchange& with)
{
    send_in_rounds(block, with, false);
}

UGDR_DEVICE void send_parts(const Block& block, const Exchange& with)
{
    send_in_rounds(block, with, true);
}

// A positive status: a number was wrong.
UGDR_DEVICE void receive_rounds(const Block& block, const Exchange& with)
{
    const unsigned channel = with.first + block.number;
    int status = 0;
    for (unsigned round = 1; round <= with.rounds && status == 0; ++round) {
        const unsigned slot = slot_of(with, channel, round);
        status =
            ugdr_dev_signal_wait<UGDR_LEVEL_BLOCK>(with.device, with.signals + 2 * channel, round);
        for (unsigned i = block.thread; i < with.length && status == 0; i += block.threads) {
            const auto* number =
                static_cast<const volatile unsigned long long*>(with.in + slot + i);
            if (*number != number_of_round(round, i)) {
                with.statuses[channel] = static_cast<int>(round);
            }
        }
        if (round % (kSlots / 2) == 0) {
            ugdr_dev_put_value<UGDR_LEVEL_BLOCK>(with.device, channel, round, 8, with.rsignals,
                                                 16ull * channel + 8);
        }
    }
    const int last = ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(with.device, channel);
    if (block.thread == 0 && (status != 0 || last != 0)) {
        with.statuses[channel] = status != 0 ? status : last;
    }
}

// Bytes from `first` of out to `rounds` of the peer's in, by the whole block, and back to the
// second half of out.
UGDR_DEVICE void put_bytes(const Block& block, const Exchange& with)
{
    ugdr_dev_put<UGDR_LEVEL_BLOCK>(with.device, 0, with.mem, with.first, with.rmem, with.rounds,
                                   with.length);
    ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(with.device, 0);
    ugdr_dev_get<UGDR_LEVEL_BLOCK>(with.device, 0, with.mem, with.first + 4096, with.rmem,
                                   with.rounds, with.length);
    const int status = ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(with.device, 0);
    if (block.thread == 0) {
        with.statuses[0] = status;
    }
}

// One mistake, the `first`. length: of the peer's in.
UGDR_DEVICE void wrong(const Block& block, const Exchange& with)
{
    const ugdr_dev_t& device = with.device;
    switch (with.first) {
    case 0:
        ugdr_dev_put<UGDR_LEVEL_BLOCK>(device, 0, with.mem, 0, with.rmem, with.length - 8, 16);
        break;
    case 1:
        ugdr_dev_put<UGDR_LEVEL_BLOCK>(device, 0, with.mem, 0, with.rmem + 4000, 0, 16);
        break;
    case 2:
        ugdr_dev_put<UGDR_LEVEL_BLOCK>(device, 0, with.mem + 4000, 0, with.rmem, 0, 16);
        break;
    case 3:
        ugdr_dev_put<UGDR_LEVEL_BLOCK>(device, 0, with.mem, ~0ull - 7, with.rmem, 0, 16);
        break;
    case 4:
        ugdr_dev_put_value<UGDR_LEVEL_BLOCK>(device, 0, 1, 9, with.rmem, 0);
        break;
    case 5:
        ugdr_dev_atomic_add<UGDR_LEVEL_BLOCK>(device, 0, with.rmem, 4, 1);
        break;
    case 6:
        ugdr_dev_put_signal<UGDR_LEVEL_BLOCK>(device, 0, with.mem, 0, with.rmem, 0, 0,
                                              with.rsignals, 4, 1);
        break;
    default:
        ugdr_dev_put_value<UGDR_LEVEL_BLOCK>(device, 0, 1, 8, with.rmem ^ 1u << 16, 0);
        break;
    }
    const int status = ugdr_dev_quiet<UGDR_LEVEL_BLOCK>(device, 0);
    if (block.thread == 0) {
        with.statuses[0] = status;
    }
}

// What members of a team get that meet after each round.
constexpr unsigned kMostMembers = 4;
struct Meeting {
    ugdr_dev_t device;
    ugdr_dev_team_t team;
    unsigned long long* in; // a word of each member
    int* status;
    unsigned rank, size, rounds;
    unsigned rmem[kMostMembers]; // of each member's in
};

// A positive status: a member had not come so far, or had gone on.
UGDR_DEVICE void meet_rounds(const Block& block, const Meeting& with)
{
    int status = 0;
    for (unsigned round = 1; round <= with.rounds && status == 0; ++round) {
        for (unsigned member = 0; member < with.size; ++member) {
            ugdr_dev_put_value<UGDR_LEVEL_BLOCK>(with.device, 0, round, 8, with.rmem[member],
                                                 8ull * with.rank);
        }
        status = ugdr_dev_barrier<UGDR_LEVEL_BLOCK>(with.device, with.team, 0);
        for (unsigned member = 0; member < with.size && status == 0; ++member) {
            if (static_cast<const volatile unsigned long long*>(with.in)[member] != round) {
                status = static_cast<int>(round);
            }
        }
        if (status == 0) {
            status = ugdr_dev_barrier<UGDR_LEVEL_BLOCK>(with.device, with.team, 0);
        }
    }
    if (block.thread == 0) {
        *with.status = status;
    }
}

// Each operation once, by a warp and by a thread. The words of out that are used, and where what
// comes back goes: see the test.
UGDR_DEVICE void every_kind(const Block& block, const Exchange& with)
{
    const ugdr_dev_t& device = with.device;
    const unsigned channel = with.first;
    ugdr_dev_put<UGDR_LEVEL_WARP>(device, channel, with.mem, 0, with.rmem, 0, 64);
    ugdr_dev_put_signal<UGDR_LEVEL_WARP>(device, channel, with.mem, 64, with.rmem, 64, 64,
                                         with.rsignals, 0, 5, UGDR_SIGNAL_ADD);
    if (block.thread == 0) {
        for (unsigned bytes = 1; bytes <= 8; ++bytes) {
            ugdr_dev_put_value(device, channel, 0x8877665544332211, bytes, with.rmem,
                               128 + 8ull * bytes);
        }
        ugdr_dev_atomic_add(device, channel, with.rmem, 256, 3);
        ugdr_dev_put(device, channel, with.mem, 0, with.rmem, 0, 0);
        const unsigned long long ticket =
            ugdr_dev_atomic_fetch_add(device, channel, with.mem, 512, with.rmem, 256, 1ull << 63);
        with.statuses[channel] = ugdr_dev_quiet(device, channel, ticket);
        ugdr_dev_get(device, channel, with.mem, 1024, with.rmem, 0, 320);
    }
    const int status = ugdr_dev_quiet<UGDR_LEVEL_WARP>(device, channel);
    if (block.thread == 0 && status != 0) {
        with.statuses[channel] = status;
    }
}

// As prepared_test.cpp has them.
UGDR_DEVICE unsigned number_of_iteration(unsigned iteration, unsigned index)
{
    return iteration * 1000003u + index;
}

// A partition for each block: the numbers of an iteration, of `count` in all.
UGDR_DEVICE void make_ready(const Block& block, const ugdr_dev_transfer_t& transfer, unsigned* out,
                            unsigned count, unsigned iteration)
{
    const unsigned part = count / transfer.partitions;
    for (unsigned i = block.thread; i < part; i += block.threads) {
        const unsigned index = block.number * part + i;
        out[index] = number_of_iteration(iteration, index);
    }
#if defined(__CUDACC__) || defined(__CUDA__)
    ugdr_dev_ready_block(transfer, block.number);
#else
    ugdr_dev_ready(transfer, block.number);
#endif
}

UGDR_DEVICE void look_at_arrivals(const Block& block, const ugdr_dev_transfer_t& transfer,
                                  const unsigned* in, unsigned count, unsigned iteration,
                                  int* statuses)
{
    const unsigned part = count / transfer.partitions;
    int status = ugdr_dev_wait_arrived(transfer, block.number);
    if (!ugdr_dev_arrived(transfer, block.number)) {
        status = 1;
    }
    for (unsigned i = block.thread; i < part && status == 0; i += block.threads) {
        const unsigned index = block.number * part + i;
        if (*static_cast<const volatile unsigned*>(in + index) !=
            number_of_iteration(iteration, index)) {
            status = 2;
        }
    }
    if (status != 0) {
        statuses[block.number] = status;
    }
}

} // namespace synctest
