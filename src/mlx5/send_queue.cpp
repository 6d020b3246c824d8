// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writes work queue entries and rings the doorbell.
#include "mlx5/send_queue.hpp"

#include "mlx5/barriers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>

#include <endian.h>

namespace gdr::mlx5 {
namespace {

static_assert(std::endian::native == std::endian::little); // words are put together below

// Of ibv_send_wr::send_flags, IBV_SEND_INLINE aside.
constexpr uint8_t control_flags(unsigned flags)
{
    return static_cast<uint8_t>((flags & IBV_SEND_SIGNALED ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
                                (flags & IBV_SEND_SOLICITED ? MLX5_WQE_CTRL_SOLICITED : 0) |
                                (flags & IBV_SEND_FENCE ? MLX5_WQE_CTRL_FENCE : 0));
}

constexpr auto kControlFlags = [] {
    std::array<uint8_t, 16> flags{};
    for (unsigned i = 0; i < flags.size(); ++i) {
        flags[i] = control_flags(i);
    }
    return flags;
}();

[[gnu::always_inline]] inline void store(std::byte* target, uint64_t word)
{
    std::memcpy(target, &word, sizeof(word));
}

// Most pieces have a few bytes, for which a call would cost more than the copy.
[[gnu::always_inline]] inline void copy_short(std::byte* target, const void* source, size_t length)
{
    const auto* from = static_cast<const std::byte*>(source);
    if (length - 8 <= 8) { // 8 to 16: two words, which may overlap
        uint64_t first, last;
        std::memcpy(&first, from, 8);
        std::memcpy(&last, from + length - 8, 8);
        store(target, first);
        store(target + length - 8, last);
    } else if (length != 0) { // an empty piece may have no address
        std::memcpy(target, from, length);
    }
}

// A block into the register, in as few stores as there are.
[[gnu::always_inline]] inline void copy_block(std::byte* target, const std::byte* source)
{
#if defined(__x86_64__)
    auto* to = reinterpret_cast<volatile __m128i*>(target);
    const auto* from = reinterpret_cast<const __m128i*>(source);
    const __m128i words[] = {from[0], from[1], from[2], from[3]};
    for (unsigned i = 0; i < 4; ++i) {
        to[i] = words[i];
    }
#else
    auto* to = reinterpret_cast<volatile uint64_t*>(target);
    const auto* from = reinterpret_cast<const uint64_t*>(source);
    for (unsigned i = 0; i < 8; ++i) {
        to[i] = from[i];
    }
#endif
}

} // namespace

SendQueue::SendQueue(const mlx5dv_qp& qp, uint32_t number, bool own_register)
    : ring_(static_cast<std::byte*>(qp.sq.buf)), end_(ring_ + size_t{qp.sq.wqe_cnt} * kBlock),
      mask_(qp.sq.wqe_cnt - 1), number_(number << 8),
      record_(reinterpret_cast<volatile uint32_t*>(qp.dbrec) + MLX5_SND_DBR),
      register_(static_cast<std::byte*>(qp.bf.reg)),
      register_segments_(own_register ? qp.bf.size / kSegment : 0), register_flip_(qp.bf.size),
      wr_ids_(std::make_unique<uint64_t[]>(qp.sq.wqe_cnt))
{
}

// Data segments; empty ones would stand for 2 GiB and are left out. Returns how many there are.
[[gnu::always_inline]] inline unsigned SendQueue::write_pieces(std::byte* at,
                                                               const ibv_send_wr& wr) const
{
    unsigned segments = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        const ibv_sge& piece = wr.sg_list[i];
        if (piece.length == 0) [[unlikely]] {
            continue;
        }
        at = wrapped(at);
        store(at, htobe32(piece.length) | uint64_t{htobe32(piece.lkey)} << 32);
        store(at + 8, htobe64(piece.addr));
        at += kSegment;
        ++segments;
    }
    return segments;
}

// A word with the length, and the data behind it. Returns how many segments that takes.
[[gnu::always_inline]] inline unsigned SendQueue::write_inline(std::byte* at,
                                                               const ibv_send_wr& wr) const
{
    auto* const header = reinterpret_cast<mlx5_wqe_inl_data_seg*>(at);
    std::byte* target = at + sizeof(*header);
    uint32_t length = 0;
    const ibv_sge* piece = wr.sg_list;
    for (const ibv_sge* const end = piece + wr.num_sge; piece != end; ++piece) {
        const void* source = reinterpret_cast<const void*>(piece->addr);
        const auto room = static_cast<size_t>(end_ - target);
        length += piece->length;
        if (piece->length < room) [[likely]] {
            copy_short(target, source, piece->length);
            target += piece->length;
        } else {
            std::memcpy(target, source, room);
            std::memcpy(ring_, static_cast<const std::byte*>(source) + room, piece->length - room);
            target = ring_ + (piece->length - room);
        }
    }
    if (length == 0) [[unlikely]] {
        return 0;
    }
    header->byte_count = htobe32(length | MLX5_INLINE_SEG);
    return static_cast<unsigned>((sizeof(*header) + length + kSegment - 1) / kSegment);
}

// Returns the segments of the entry, which begins at the block that was next; 0: this is no work
// request that can be posted. The first block is in one piece: what stands there needs no look for
// the ring's end.
[[gnu::always_inline]] inline unsigned SendQueue::write(const ibv_send_wr& wr)
{
    std::byte* const entry = block(next_);
    uint32_t opcode;
    uint64_t immediate = 0;
    unsigned segments;
    switch (wr.opcode) {
    case IBV_WR_SEND_WITH_IMM:
        opcode = MLX5_OPCODE_SEND_IMM;
        immediate = wr.imm_data;
        segments = 1;
        break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
        opcode = wr.opcode == IBV_WR_RDMA_WRITE ? MLX5_OPCODE_RDMA_WRITE : MLX5_OPCODE_RDMA_READ;
        store(entry + kSegment, htobe64(wr.wr.rdma.remote_addr));
        store(entry + kSegment + 8, htobe32(wr.wr.rdma.rkey));
        segments = 2;
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: {
        const bool swaps = wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
        opcode = swaps ? MLX5_OPCODE_ATOMIC_CS : MLX5_OPCODE_ATOMIC_FA;
        store(entry + kSegment, htobe64(wr.wr.atomic.remote_addr));
        store(entry + kSegment + 8, htobe32(wr.wr.atomic.rkey));
        store(entry + 2 * kSegment, htobe64(swaps ? wr.wr.atomic.swap : wr.wr.atomic.compare_add));
        store(entry + 2 * kSegment + 8, swaps ? htobe64(wr.wr.atomic.compare_add) : 0);
        segments = 3;
        break;
    }
    default:
        return 0;
    }
    std::byte* const data = entry + segments * kSegment;
    segments += wr.send_flags & IBV_SEND_INLINE ? write_inline(data, wr) : write_pieces(data, wr);
    store(entry,
          htobe32(uint32_t{next_} << 8 | opcode) | uint64_t{htobe32(number_ | segments)} << 32);
    store(entry + 8, uint64_t{kControlFlags[wr.send_flags & 15]} << 24 | immediate << 32);
    wr_ids_[next_ & mask_] = wr.wr_id;
    next_ = static_cast<uint16_t>(next_ + (segments + 3) / 4);
    return segments;
}

int SendQueue::post(ibv_send_wr* wr, ibv_send_wr** refused)
{
    if (wr->next != nullptr) [[unlikely]] {
        return post_list(wr, refused);
    }
    const std::byte* const entry = block(next_);
    const unsigned segments = write(*wr);
    if (segments == 0) [[unlikely]] {
        *refused = wr;
        return EINVAL;
    }
    tell();
    write_register(entry, segments);
    return 0;
}

[[gnu::noinline]] int SendQueue::post_list(ibv_send_wr* wr, ibv_send_wr** refused)
{
    const std::byte* last = nullptr;
    for (; wr != nullptr; wr = wr->next) {
        const std::byte* const entry = block(next_);
        if (write(*wr) == 0) {
            *refused = wr;
            break;
        }
        last = entry;
    }
    if (last != nullptr) {
        tell();
        write_register(last, UINT_MAX);
    }
    return wr == nullptr ? 0 : EINVAL;
}

// The record is first: the HCA reads it again when it has done what the register told it.
[[gnu::always_inline]] inline void SendQueue::tell()
{
    order_stores();
    *record_ = htobe32(next_);
    order_register_stores();
}

// The whole entry where that may be done, else its first word.
[[gnu::always_inline]] inline void SendQueue::write_register(const std::byte* entry,
                                                             unsigned segments)
{
    std::byte* target = register_ + register_offset_;
    register_offset_ ^= register_flip_;
    if (segments <= register_segments_) {
        const std::byte* const end = target + segments * kSegment;
        do {
            copy_block(target, entry);
            target += kBlock;
            entry += kBlock;
            entry = entry == end_ ? ring_ : entry;
        } while (target < end);
    } else {
        uint64_t word;
        std::memcpy(&word, entry, sizeof(word));
        *reinterpret_cast<volatile uint64_t*>(target) = word;
    }
    order_register_stores();
}

void SendQueue::scatter(uint16_t place, const void* data, uint32_t length) const
{
    std::byte* const entry = block(place);
    const auto* control = reinterpret_cast<const mlx5_wqe_ctrl_seg*>(entry);
    const bool atomic = (be32toh(control->opmod_idx_opcode) & 0xff) != MLX5_OPCODE_RDMA_READ;
    unsigned left = (be32toh(control->qpn_ds) & 0x3f) - (atomic ? 3 : 2);
    std::byte* at = entry + (atomic ? 3 : 2) * kSegment;
    const auto* from = static_cast<const std::byte*>(data);
    for (; left > 0 && length > 0; --left, at += kSegment) {
        at = wrapped(at);
        const auto* segment = reinterpret_cast<const mlx5_wqe_data_seg*>(at);
        const uint32_t part = std::min(length, be32toh(segment->byte_count));
        std::memcpy(reinterpret_cast<void*>(be64toh(segment->addr)), from, part);
        from += part;
        length -= part;
    }
}

} // namespace gdr::mlx5
