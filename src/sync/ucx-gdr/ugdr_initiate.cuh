/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/** @file
 * Kernels initiate operations of libucx-gdr: they put, get, add and signal by themselves.
 *
 * The device's side of ugdr_device_open() (ugdr.h), for the compilers of ugdr_device.cuh, and for a
 * host's, where a thread stands for a GPU's. ugdr_device_handle() gives the ugdr_dev_t. Memories
 * are named by the ids that ugdr_mem_id() and ugdr_rmem_id() tell. A thread of the library checks
 * what kernels ask for: a wrong id, or a part that is not within its memory, is an error and
 * touches nothing.
 *
 * Each operation goes over one of the device's channels, whose number is taken modulo how many
 * there are. Operations of one channel to one peer take place in the order of their tickets, and a
 * signal comes after the data of its operation and of those before. There is no order between
 * channels or peers, unless by ugdr_dev_quiet().
 *
 * Memory of a peer on the same host that the GPU reaches (CUDA IPC, or memory of this process) is
 * written and read by the caller's own loads and stores: see ugdr_rmem_import(). All else is
 * carried by a thread of the library and an HCA.
 *
 * What the caller has written before, or has seen written by others, is sent along. The local
 * memory must not change before the operation is complete.
 *
 * Functions whose template argument is #UGDR_LEVEL_WARP or #UGDR_LEVEL_BLOCK are to be called by
 * all threads of a warp or block together, with equal arguments: one of them acts for all, and all
 * have its result. What any of them has written before is sent along. That is far faster than many
 * threads that each post; and all of them copy where the kernel does so itself.
 *
 * A thread that posts to a full ring waits until there is room.
 */
#ifndef UGDR_INITIATE_CUH
#define UGDR_INITIATE_CUH

#include "ugdr_device.cuh"

/** @defgroup ugdr_initiate Kernel-initiated operations
 *
 * Each that posts returns a ticket, by which ugdr_dev_done() and ugdr_dev_quiet() know it; ~0 where
 * the caller did the operation itself, which stands for all that was posted so far. The
 * level is who calls: one thread (#UGDR_LEVEL_THREAD), or all threads of a warp (#UGDR_LEVEL_WARP)
 * or block (#UGDR_LEVEL_BLOCK) together, with equal arguments.
 *
 * @{ */

/** Who calls a function. */
typedef enum {
    UGDR_LEVEL_THREAD, /**< one thread, for itself */
    UGDR_LEVEL_WARP,   /**< all threads of a warp, together */
    UGDR_LEVEL_BLOCK   /**< all threads of a block, together */
} ugdr_level_t;

/** What a signal does to its word. */
typedef enum {
    UGDR_SIGNAL_SET, /**< sets it to the value */
    UGDR_SIGNAL_ADD  /**< adds the value to it, atomically */
} ugdr_signal_op_t;

/** @} */

namespace ugdr_detail {

constexpr unsigned long long kEntryWords = 8, kCompletedWords = 8, kCounterWords = 16;
constexpr unsigned kKnown = 8;       // the counter of what is known to be complete; 0: of tickets
constexpr unsigned kNear = 9;        // that of posted operations that peers on the host wait for
constexpr unsigned kStatusBits = 8;  // of a word of `completed`, below the count
constexpr unsigned kMost = 1u << 30; // bytes of one entry
constexpr unsigned kGlances = 1024;  // at a signal, between two looks at the device's status
constexpr int kUnsupported = -22;    // UCS_ERR_UNSUPPORTED
constexpr unsigned kPlaceMask = 0xffff;         // of an id: the memory's place among its kind
constexpr unsigned long long kAllSoFar = ~0ull; // a ticket
constexpr unsigned kPieces = 4;                 // that a thread copies at once

// As gdr::sync::Transfer has them.
enum Kind : unsigned { kPut, kPutSignalSet, kPutSignalAdd, kPutValue, kGet, kAdd, kFetchAdd };

struct Initiated {
    Kind kind;
    unsigned mem, rmem, signal;
    unsigned long long offset, remote_offset, signal_offset, value, length;
};

#if defined(__CUDACC__) || defined(__CUDA__)

UGDR_DEVICE unsigned long long add(unsigned long long* counter)
{
    unsigned long long was;
    asm volatile("atom.relaxed.gpu.add.u64 %0, [%1], 1;" : "=l"(was) : "l"(counter) : "memory");
    return was;
}
UGDR_DEVICE unsigned long long count_of(const unsigned long long* counter)
{
    unsigned long long value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(counter) : "memory");
    return value;
}
UGDR_DEVICE void raise(unsigned long long* counter, unsigned long long to)
{
    asm volatile("red.relaxed.gpu.max.u64 [%0], %1;" ::"l"(counter), "l"(to) : "memory");
}

// What was written before comes before what is stored from now on. Host memory that is to be sent
// has to have left the GPU; its own memory has not.
UGDR_DEVICE void fence(bool host)
{
    if (host) {
        asm volatile("fence.acq_rel.sys;" ::: "memory");
    } else {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
}
UGDR_DEVICE void store(unsigned long long* words, unsigned long long first,
                       unsigned long long second)
{
    asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};" ::"l"(words), "l"(first), "l"(second)
                 : "memory");
}

UGDR_DEVICE void load_pair(const unsigned long long* words, unsigned long long& first,
                           unsigned long long& second)
{
    asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];"
                 : "=l"(first), "=l"(second)
                 : "l"(words)
                 : "memory");
}

// Words of a peer, seen by the whole system.
UGDR_DEVICE void set_word(unsigned long long* word, unsigned long long value)
{
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
UGDR_DEVICE void set_half(unsigned* half, unsigned value)
{
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(half), "r"(value) : "memory");
}
UGDR_DEVICE unsigned long long fetch_and_add(unsigned long long* word, unsigned long long value)
{
    unsigned long long was;
    asm volatile("atom.relaxed.sys.add.u64 %0, [%1], %2;"
                 : "=l"(was)
                 : "l"(word), "l"(value)
                 : "memory");
    return was;
}

#define UGDR_SREG(name)                                                                            \
    UGDR_DEVICE unsigned name(unsigned axis)                                                       \
    {                                                                                              \
        unsigned x, y, z;                                                                          \
        asm("mov.u32 %0, %%" #name ".x;" : "=r"(x));                                               \
        asm("mov.u32 %0, %%" #name ".y;" : "=r"(y));                                               \
        asm("mov.u32 %0, %%" #name ".z;" : "=r"(z));                                               \
        return axis == 0 ? x : axis == 1 ? y : z;                                                  \
    }
UGDR_SREG(tid)
UGDR_SREG(ntid)
#undef UGDR_SREG

UGDR_DEVICE unsigned thread_in_block()
{
    return tid(0) + ntid(0) * (tid(1) + ntid(1) * tid(2));
}

// The threads of the caller's warp: the last warp of a block may have fewer than 32.
UGDR_DEVICE unsigned warp_mask()
{
    const unsigned left = ntid(0) * ntid(1) * ntid(2) - (thread_in_block() & ~31u);
    return left >= 32 ? ~0u : (1u << left) - 1;
}

template <ugdr_level_t level>
UGDR_DEVICE void meet()
{
    if constexpr (level == UGDR_LEVEL_WARP) {
        asm volatile("bar.warp.sync %0;" ::"r"(warp_mask()) : "memory");
    } else if constexpr (level == UGDR_LEVEL_BLOCK) {
        asm volatile("barrier.sync 0;" ::: "memory");
    }
}

template <ugdr_level_t level>
UGDR_DEVICE bool leads()
{
    if constexpr (level == UGDR_LEVEL_WARP) {
        return (thread_in_block() & 31u) == 0;
    } else if constexpr (level == UGDR_LEVEL_BLOCK) {
        return thread_in_block() == 0;
    }
    return true;
}

// What the leader has, for all, and what it has seen.
template <ugdr_level_t level>
UGDR_DEVICE unsigned long long shared(unsigned long long value)
{
    if constexpr (level == UGDR_LEVEL_WARP) {
        meet<level>(); // shfl.sync alone orders no memory
        unsigned low = static_cast<unsigned>(value), high = static_cast<unsigned>(value >> 32);
        const unsigned mask = warp_mask();
        asm volatile("shfl.sync.idx.b32 %0, %0, 0, 31, %2;\n\t"
                     "shfl.sync.idx.b32 %1, %1, 0, 31, %2;"
                     : "+r"(low), "+r"(high)
                     : "r"(mask)
                     : "memory");
        return static_cast<unsigned long long>(high) << 32 | low;
    } else if constexpr (level == UGDR_LEVEL_BLOCK) {
        static __attribute__((shared)) unsigned long long for_all;
        if (leads<level>()) {
            for_all = value;
        }
        meet<level>();
        return for_all; // and the next call meets before it writes
    }
    return value;
}

// The caller's place among those that call together, and how many they are.
template <ugdr_level_t level>
UGDR_DEVICE unsigned own_place()
{
    if constexpr (level == UGDR_LEVEL_WARP) {
        return thread_in_block() & 31u;
    } else if constexpr (level == UGDR_LEVEL_BLOCK) {
        return thread_in_block();
    }
    return 0;
}
template <ugdr_level_t level>
UGDR_DEVICE unsigned callers()
{
    const unsigned threads = ntid(0) * ntid(1) * ntid(2);
    if constexpr (level == UGDR_LEVEL_WARP) {
        const unsigned left = threads - (thread_in_block() & ~31u);
        return left >= 32 ? 32 : left;
    } else if constexpr (level == UGDR_LEVEL_BLOCK) {
        return threads;
    }
    return 1;
}

#else // a host

inline unsigned long long add(unsigned long long* counter)
{
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}
inline unsigned long long count_of(const unsigned long long* counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}
inline void raise(unsigned long long* counter, unsigned long long to)
{
    unsigned long long was = __atomic_load_n(counter, __ATOMIC_RELAXED);
    while (was < to && !__atomic_compare_exchange_n(counter, &was, to, true, __ATOMIC_RELEASE,
                                                    __ATOMIC_RELAXED)) {
    }
}
inline void fence(bool) {} // the stores below release
inline void load_pair(const unsigned long long* words, unsigned long long& first,
                      unsigned long long& second)
{
    first = __atomic_load_n(words, __ATOMIC_ACQUIRE);
    second = __atomic_load_n(words + 1, __ATOMIC_ACQUIRE);
}
inline void set_word(unsigned long long* word, unsigned long long value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
inline void set_half(unsigned* half, unsigned value)
{
    __atomic_store_n(half, value, __ATOMIC_RELEASE);
}
inline unsigned long long fetch_and_add(unsigned long long* word, unsigned long long value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}
inline void store(unsigned long long* words, unsigned long long first, unsigned long long second)
{
    __atomic_store_n(words, first, __ATOMIC_RELEASE);
    __atomic_store_n(words + 1, second, __ATOMIC_RELEASE);
}
template <ugdr_level_t level>
inline void meet()
{
}
template <ugdr_level_t level>
inline bool leads()
{
    return true;
}
template <ugdr_level_t level>
inline unsigned long long shared(unsigned long long value)
{
    return value;
}
template <ugdr_level_t level>
inline unsigned own_place()
{
    return 0;
}
template <ugdr_level_t level>
inline unsigned callers()
{
    return 1;
}

#endif

UGDR_DEVICE unsigned long long look(const ugdr_dev_t& device, unsigned channel)
{
    return load(device.completed + channel * kCompletedWords);
}

UGDR_DEVICE int status_of(unsigned long long completed)
{
    return -static_cast<int>(completed & ((1u << kStatusBits) - 1));
}

// A place in the ring is free when the operation that had it is complete.
UGDR_DEVICE void wait_for_room(const ugdr_dev_t& device, unsigned channel,
                               unsigned long long* counters, unsigned long long ticket)
{
    const unsigned long long entries = 1ull << device.log_entries;
    while (ticket >= count_of(counters + kKnown) + entries) {
        const unsigned long long count = look(device, channel) >> kStatusBits;
        raise(counters + kKnown, count);
        if (ticket >= count + entries) {
            relax();
        }
    }
}

// Each of an entry's words has the lap's bit at its end, which tells the reader that it is new, so
// neither is there an order between the words nor are they cleared. The last word has the bits that
// this has taken from the others.
UGDR_DEVICE unsigned long long write(const ugdr_dev_t& device, unsigned channel,
                                     const Initiated& what)
{
    unsigned long long* const counters = device.counters + channel * kCounterWords;
    const unsigned long long ticket = add(counters);
    wait_for_room(device, channel, counters, ticket);
    const unsigned long long words[kEntryWords - 1] = {
        static_cast<unsigned long long>(what.kind) << 32 | what.length,
        static_cast<unsigned long long>(what.rmem) << 32 | what.mem,
        what.signal,
        what.offset,
        what.remote_offset,
        what.signal_offset,
        what.value};
    const unsigned long long lap = ~(ticket >> device.log_entries) & 1;
    unsigned long long entry[kEntryWords] = {}, taken = 0;
    for (unsigned i = 0; i < kEntryWords - 1; ++i) {
        entry[i] = words[i] << 1 | lap;
        taken |= words[i] >> 63 << i;
    }
    entry[kEntryWords - 1] = taken << 1 | lap;
    const unsigned long long place = ticket & ((1ull << device.log_entries) - 1);
    unsigned long long* const to =
        device.entries +
        ((static_cast<unsigned long long>(channel) << device.log_entries) + place) * kEntryWords;
    const bool near_peer = (what.rmem & UGDR_RMEM_ID_NEAR) != 0;
    fence(near_peer || (what.mem & UGDR_MEM_ID_HOST) != 0);
    if (near_peer) {
        raise(counters + kNear, ticket + 1);
    }
    for (unsigned i = 0; i < kEntryWords; i += 2) {
        store(to + i, entry[i], entry[i + 1]);
    }
    return ticket;
}

// ---- what the caller does itself

// What is copied at once, to and from addresses of its size.
struct alignas(16) Piece {
    unsigned long long words[2];
};

#if defined(__CUDACC__) || defined(__CUDA__)

// A peer may be writing what is loaded: not from a cache of the GPU's that does not see that.
UGDR_DEVICE Piece load_piece(const Piece* from)
{
    Piece piece;
    load_pair(from->words, piece.words[0], piece.words[1]);
    return piece;
}
UGDR_DEVICE unsigned char load_piece(const unsigned char* from)
{
    unsigned value;
    asm volatile("ld.relaxed.sys.u8 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return static_cast<unsigned char>(value);
}
UGDR_DEVICE unsigned load_piece(const unsigned* from)
{
    unsigned value;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
UGDR_DEVICE unsigned long long load_piece(const unsigned long long* from)
{
    unsigned long long value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}
UGDR_DEVICE void store_piece(Piece* to, const Piece& piece)
{
    store(to->words, piece.words[0], piece.words[1]);
}
UGDR_DEVICE void store_piece(unsigned char* to, unsigned char piece)
{
    asm volatile("st.relaxed.sys.u8 [%0], %1;" ::"l"(to), "r"(static_cast<unsigned>(piece))
                 : "memory");
}
UGDR_DEVICE void store_piece(unsigned long long* to, unsigned long long piece)
{
    set_word(to, piece);
}
UGDR_DEVICE void store_piece(unsigned* to, unsigned piece)
{
    set_half(to, piece);
}

template <ugdr_level_t level, typename Unit>
UGDR_DEVICE void copy_units(unsigned long long to, unsigned long long from,
                            unsigned long long count)
{
    auto* const out = reinterpret_cast<Unit*>(to);
    const auto* const in = reinterpret_cast<const Unit*>(from);
    const unsigned step = callers<level>();
    unsigned long long i = own_place<level>();
    for (; i + (kPieces - 1ull) * step < count; i += kPieces * step) {
        Unit pieces[kPieces];
        for (unsigned k = 0; k < kPieces; ++k) {
            pieces[k] = load_piece(in + i + k * step);
        }
        for (unsigned k = 0; k < kPieces; ++k) {
            store_piece(out + i + k * step, pieces[k]);
        }
    }
    for (; i < count; i += step) {
        store_piece(out + i, load_piece(in + i));
    }
}

// In the largest pieces that both addresses permit: bytes up to the first, and behind the last.
template <ugdr_level_t level, typename Unit>
UGDR_DEVICE void copy_as(unsigned long long to, unsigned long long from, unsigned long long length)
{
    unsigned long long head = (sizeof(Unit) - to % sizeof(Unit)) % sizeof(Unit);
    head = head < length ? head : length;
    const unsigned long long units = (length - head) / sizeof(Unit), end = units * sizeof(Unit);
    copy_units<level, unsigned char>(to, from, head);
    copy_units<level, Unit>(to + head, from + head, units);
    copy_units<level, unsigned char>(to + head + end, from + head + end, length - head - end);
}

// What is small and aligned is to take few instructions.
template <ugdr_level_t level>
UGDR_DEVICE void copy(unsigned long long to, unsigned long long from, unsigned long long length)
{
    if ((to | from | length) % sizeof(Piece) == 0) {
        copy_units<level, Piece>(to, from, length / sizeof(Piece));
    } else if ((to | from | length) % sizeof(unsigned long long) == 0) {
        copy_units<level, unsigned long long>(to, from, length / sizeof(unsigned long long));
    } else if ((to - from) % sizeof(Piece) == 0) {
        copy_as<level, Piece>(to, from, length);
    } else if ((to - from) % sizeof(unsigned) == 0) {
        copy_as<level, unsigned>(to, from, length);
    } else {
        copy_units<level, unsigned char>(to, from, length);
    }
}

#else // a host

template <ugdr_level_t level>
inline void copy(unsigned long long to, unsigned long long from, unsigned long long length)
{
    __builtin_memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), length);
}

#endif

// What a table has of a memory. All entries of an operation are loaded before one is looked at:
// then the loads take as long as one.
UGDR_DEVICE ugdr_dev_memory_t entry_of(const ugdr_dev_memory_t* memories, unsigned id)
{
    const unsigned place = id & kPlaceMask;
    const auto* const words = &memories[place < UGDR_DEV_MEMORIES ? place : 0].address;
    ugdr_dev_memory_t entry;
    load_pair(words, entry.address, entry.length);
    load_pair(words + 2, entry.id, entry.peer);
    return entry;
}

// A part of a memory, as the caller reaches it; 0: it does not, or there is no such part.
UGDR_DEVICE unsigned long long part_of(const ugdr_dev_memory_t& entry, unsigned id,
                                       unsigned long long offset, unsigned long long length)
{
    return entry.id == id && offset <= entry.length && length <= entry.length - offset
               ? entry.address + offset
               : 0;
}

UGDR_DEVICE bool is_word(unsigned long long address)
{
    return address != 0 && address % 8 == 0;
}

// Operations to peers on the host that went through the ring come first: so many of the channel's.
UGDR_DEVICE void wait_until_known(const ugdr_dev_t& device, unsigned channel,
                                  unsigned long long known, unsigned long long posted)
{
    while (known < posted) {
        known = look(device, channel) >> kStatusBits;
        raise(device.counters + channel * kCounterWords + kKnown, known);
        if (known < posted) {
            relax();
        }
    }
}

// A value of 1 to 8 bytes.
UGDR_DEVICE void set_bytes(unsigned long long address, unsigned long long value, unsigned bytes)
{
    if (bytes == 8 && address % 8 == 0) {
        set_word(reinterpret_cast<unsigned long long*>(address), value);
    } else if (bytes == 4 && address % 4 == 0) {
        set_half(reinterpret_cast<unsigned*>(address), static_cast<unsigned>(value));
    } else {
        const auto from = reinterpret_cast<unsigned long long>(&value);
        copy<UGDR_LEVEL_THREAD>(address, from, bytes);
    }
}

// Does the operation where the caller reaches all memories of it. Where it reaches no signal, but
// the data, the data is written, and an operation without is left. Returns whether nothing is left.
// What is wrong, nobody reaches: it is left to the library to say so.
template <ugdr_level_t level>
UGDR_DEVICE bool carry_out(const ugdr_dev_t& device, unsigned channel, Initiated& what)
{
    if (device.memories == nullptr) {
        return false;
    }
    const ugdr_dev_memory_t* const ours = device.memories;
    const ugdr_dev_memory_t* const peers = device.memories + UGDR_DEV_MEMORIES;
    const bool signals = what.kind == kPutSignalSet || what.kind == kPutSignalAdd;
    const bool adds = what.kind == kAdd || what.kind == kFetchAdd;
    const bool is_local = what.kind != kPutValue && what.kind != kAdd;
    const ugdr_dev_memory_t theirs = entry_of(peers, what.rmem);
    const ugdr_dev_memory_t own = is_local ? entry_of(ours, what.mem) : theirs;
    const ugdr_dev_memory_t signalled = signals ? entry_of(peers, what.signal) : theirs;
    const unsigned long long* const counters = device.counters + channel * kCounterWords;
    const unsigned long long posted = count_of(counters + kNear);
    const unsigned long long known = count_of(counters + kKnown);
    const unsigned long long remote = part_of(theirs, what.rmem, what.remote_offset, what.length);
    const unsigned long long local =
        is_local ? part_of(own, what.mem, what.offset, what.length) : remote;
    if (remote == 0 || local == 0 || (adds && (!is_word(remote) || !is_word(local))) ||
        (what.kind == kPutValue && (what.length == 0 || what.length > 8))) {
        return false;
    }
    wait_until_known(device, channel, known, posted);
    if (what.kind == kGet) {
        copy<level>(local, remote, what.length);
        return true;
    }
    unsigned long long signal = remote;
    if (signals || what.kind == kPut) {
        copy<level>(remote, local, what.length);
        if (!signals) {
            return true;
        }
        meet<level>();
        signal = part_of(signalled, what.signal, what.signal_offset, 8);
        if (!is_word(signal) || signalled.peer != theirs.peer) {
            what.length = 0;
            return false;
        }
    }
    if (leads<level>()) {
        auto* const word = reinterpret_cast<unsigned long long*>(signal);
        fence(true);
        if (what.kind == kPutSignalSet) {
            set_word(word, what.value);
        } else if (what.kind == kPutSignalAdd || what.kind == kAdd) {
            fetch_and_add(word, what.value);
        } else if (what.kind == kPutValue) {
            set_bytes(remote, what.value, static_cast<unsigned>(what.length));
        } else {
            set_word(reinterpret_cast<unsigned long long*>(local), fetch_and_add(word, what.value));
        }
    }
    return true;
}

template <ugdr_level_t level>
UGDR_DEVICE unsigned long long initiate(const ugdr_dev_t& device, unsigned channel, Initiated what)
{
    unsigned long long ticket = 0;
    channel &= device.channels - 1;
    meet<level>();
    if ((what.rmem & UGDR_RMEM_ID_NEAR) != 0 && carry_out<level>(device, channel, what)) {
        return kAllSoFar;
    }
    if (leads<level>()) {
        Initiated piece = what;
        piece.kind = what.kind == kGet ? kGet : kPut;
        piece.length = kMost;
        for (; what.length > kMost; what.length -= kMost) {
            write(device, channel, piece);
            piece.offset = what.offset += kMost;
            piece.remote_offset = what.remote_offset += kMost;
        }
        ticket = write(device, channel, what);
    }
    return shared<level>(ticket);
}

// How many of a channel's tickets come before the end of this one.
UGDR_DEVICE unsigned long long tickets_until(const ugdr_dev_t& device, unsigned channel,
                                             unsigned long long ticket)
{
    return ticket == kAllSoFar ? count_of(device.counters + channel * kCounterWords) : ticket + 1;
}

// What the caller has stored in memory of peers is there for those who hear of it from now on.
UGDR_DEVICE void finish_stores(const ugdr_dev_t& device)
{
    if (device.memories != nullptr) {
        fence(true);
    }
}

} // namespace ugdr_detail

/** @addtogroup ugdr_initiate
 * @{ */

/** Writes local memory to a peer's.
 *
 * @param channel of the device, modulo how many there are
 * @param mem of ugdr_mem_id(); the part begins at offset
 * @param rmem of ugdr_rmem_id(); the part begins at remote_offset
 * @param length in bytes, 0 as well
 * @return the ticket
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE unsigned long long
ugdr_dev_put(const ugdr_dev_t& device, unsigned channel, unsigned mem, unsigned long long offset,
             unsigned rmem, unsigned long long remote_offset, unsigned long long length)
{
    using namespace ugdr_detail;
    return initiate<level>(device, channel,
                           {kPut, mem, rmem, 0, offset, remote_offset, 0, 0, length});
}

/** Writes local memory to a peer's, and then signals.
 *
 * As ugdr_dev_put(). The signal is a word of 64 bits of the same peer, aligned, that changes after
 * the data has arrived. It has to be in the memory of the GPU that waits for it where the data is.
 *
 * @param signal of ugdr_rmem_id(); the word is at signal_offset
 * @return the ticket, of both
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE unsigned long long
ugdr_dev_put_signal(const ugdr_dev_t& device, unsigned channel, unsigned mem,
                    unsigned long long offset, unsigned rmem, unsigned long long remote_offset,
                    unsigned long long length, unsigned signal, unsigned long long signal_offset,
                    unsigned long long value, ugdr_signal_op_t op = UGDR_SIGNAL_SET)
{
    using namespace ugdr_detail;
    return initiate<level>(device, channel,
                           {op == UGDR_SIGNAL_ADD ? kPutSignalAdd : kPutSignalSet, mem, rmem,
                            signal, offset, remote_offset, signal_offset, value, length});
}

/** Writes a value to a peer's memory.
 *
 * @param bytes 1 to 8: of value, the lowest
 * @return the ticket
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE unsigned long long ugdr_dev_put_value(const ugdr_dev_t& device, unsigned channel,
                                                  unsigned long long value, unsigned bytes,
                                                  unsigned rmem, unsigned long long remote_offset)
{
    using namespace ugdr_detail;
    return initiate<level>(device, channel,
                           {kPutValue, 0, rmem, 0, 0, remote_offset, 0, value, bytes});
}

/** Reads a peer's memory to local memory.
 *
 * As ugdr_dev_put(), the other way.
 *
 * @return the ticket; the data is there when the operation is complete
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE unsigned long long
ugdr_dev_get(const ugdr_dev_t& device, unsigned channel, unsigned mem, unsigned long long offset,
             unsigned rmem, unsigned long long remote_offset, unsigned long long length)
{
    using namespace ugdr_detail;
    return initiate<level>(device, channel,
                           {kGet, mem, rmem, 0, offset, remote_offset, 0, 0, length});
}

/** Adds to a word of a peer, atomically.
 *
 * Where UCP carries the operation the word has to be in memory of the host, as that of a signal
 * that is added to (UCS_ERR_UNSUPPORTED).
 *
 * @param remote_offset of a word of 64 bits, aligned
 * @return the ticket
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE unsigned long long ugdr_dev_atomic_add(const ugdr_dev_t& device, unsigned channel,
                                                   unsigned rmem, unsigned long long remote_offset,
                                                   unsigned long long value)
{
    using namespace ugdr_detail;
    return initiate<level>(device, channel, {kAdd, 0, rmem, 0, 0, remote_offset, 0, value, 8});
}

/** Adds to a word of a peer, atomically, and reads what it was.
 *
 * As ugdr_dev_atomic_add().
 *
 * @param offset of a word of 64 bits of mem, aligned, which gets what was there; where UCP carries
 *     the operation mem has to be memory of the host (UCS_ERR_UNSUPPORTED)
 * @return the ticket; the word is there when the operation is complete
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE unsigned long long
ugdr_dev_atomic_fetch_add(const ugdr_dev_t& device, unsigned channel, unsigned mem,
                          unsigned long long offset, unsigned rmem,
                          unsigned long long remote_offset, unsigned long long value)
{
    using namespace ugdr_detail;
    return initiate<level>(device, channel,
                           {kFetchAdd, mem, rmem, 0, offset, remote_offset, 0, value, 8});
}

/** Tells whether an operation is complete, and all before it in its channel.
 *
 * A look at host memory, which takes a GPU about 1.5 us.
 *
 * @param ticket ~0: all that was posted to the channel so far
 * @return whether they are, well or not
 */
UGDR_DEVICE bool ugdr_dev_done(const ugdr_dev_t& device, unsigned channel,
                               unsigned long long ticket)
{
    using namespace ugdr_detail;
    channel &= device.channels - 1;
    const unsigned long long count = tickets_until(device, channel, ticket);
    finish_stores(device);
    return count == 0 || look(device, channel) >> kStatusBits >= count;
}

/** Waits until an operation is complete, and all before it in its channel.
 *
 * What a put has read may be written to then, what it has written is at the peer, and what a get
 * has read is there.
 *
 * @param ticket ~0: all that was posted to the channel so far
 * @return a ucs_status_t: UCS_OK (0), or that of the first operation of the channel that has failed
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE int ugdr_dev_quiet(const ugdr_dev_t& device, unsigned channel,
                               unsigned long long ticket = ~0ull)
{
    using namespace ugdr_detail;
    unsigned long long completed = 0;
    channel &= device.channels - 1;
    meet<level>();
    if (leads<level>()) {
        const unsigned long long count = tickets_until(device, channel, ticket);
        finish_stores(device);
        while (count != 0 && (completed = look(device, channel)) >> kStatusBits < count) {
            relax();
        }
    }
    return status_of(shared<level>(completed));
}

/** Waits until a signal has come: a word that is at least a value.
 *
 * What was put before the signal is there then, where it is in the memory of the same GPU.
 *
 * @param signal of 64 bits, in the memory of the caller's GPU, or of the host for data that is
 *     there
 * @return a ucs_status_t: UCS_OK (0); or that of the first operation of the device that has failed,
 *     or UCS_ERR_CANCELED after the context was destroyed: then the signal may never come.
 *     UCS_ERR_UNSUPPORTED, at once, where running kernels do not see what an HCA writes
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE int ugdr_dev_signal_wait(const ugdr_dev_t& device, const unsigned long long* signal,
                                     unsigned long long at_least)
{
    using namespace ugdr_detail;
    if (device.signals == 0) {
        return kUnsupported;
    }
    unsigned long long failed = 0;
    meet<level>();
    if (leads<level>()) {
        for (unsigned glances = 1; load(signal) < at_least; ++glances) {
            if (glances % kGlances != 0) {
                continue;
            }
            if (status_of(look(device, device.channels)) != 0) {
                // What came before the failure has been told of before it.
                failed = load(signal) < at_least ? look(device, device.channels) : 0;
                break;
            }
            relax();
        }
    }
    return status_of(shared<level>(failed));
}

/** Waits until all members of a team have called it.
 *
 * What each of them has put over the channel before is there then. One barrier of a team at a time,
 * by one thread, warp or block of each member.
 *
 * @param team of ugdr_team_handle()
 * @return a ucs_status_t: UCS_OK (0), or as ugdr_dev_quiet() and ugdr_dev_signal_wait(): then the
 *     others may wait for this one for ever
 */
template <ugdr_level_t level = UGDR_LEVEL_THREAD>
UGDR_DEVICE int ugdr_dev_barrier(const ugdr_dev_t& device, const ugdr_dev_team_t& team,
                                 unsigned channel)
{
    using namespace ugdr_detail;
    int status = ugdr_dev_quiet<level>(device, channel);
    if (leads<level>()) {
        unsigned long long* const count = team.words + UGDR_TEAM_WORDS - 1;
        const unsigned long long barrier = ++*count;
        // In step i a member hears of 2^i more: itself, and those before it.
        for (unsigned step = 0; step < team.steps && status == 0; ++step) {
            ugdr_dev_put_value(device, channel, barrier, 8, team.peers[step], 8ull * step);
            status = ugdr_dev_signal_wait(device, team.words + step, barrier);
        }
    }
    meet<level>();
    return static_cast<int>(shared<level>(static_cast<unsigned long long>(status)));
}

/** @} */

#endif
