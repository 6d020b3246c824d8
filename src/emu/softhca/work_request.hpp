// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A send work request on its way: one view of what an application posts and of what waits in a
// send queue, the lists of memory it names, and what executing it came to.
#pragma once

#include "emu/softhca/fabric.hpp"
#include "emu/softhca/memory.hpp"
#include "emu/softhca/verbs_abi.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace softhca {

static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));

inline std::uint64_t total_length(const ibv_sge* sge, int count)
{
    std::uint64_t length = 0;
    for (int i = 0; i < count; ++i) {
        length += sge[i].length;
    }
    return length;
}

struct WorkRequest;
// Puts the operands of a bind in place of a remote address and an atomic's words; see window.cpp.
void describe_bind(WorkRequest& request, const ibv_send_wr& wr);

struct WorkRequest {
    std::uint64_t wr_id;
    std::uint64_t remote_address = 0; // UD: the address handle, which only the poster looks at
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    std::uint32_t rkey = 0;
    std::uint32_t immediate; // or the key to invalidate
    std::uint32_t length = 0;
    std::uint32_t num_sge = 0;
    std::uint32_t counter;        // WRs posted to the QP before
    std::uint32_t remote_qpn = 0; // UD
    std::uint32_t qkey = 0;
    std::uint8_t opcode;
    std::uint8_t send_flags;
    bool is_inline = false;
    bool is_queued;                          // inline data has been copied
    bool is_datagram = false;                // with an address handle, as it comes from its poster
    Status injected_status = IBV_WC_SUCCESS; // by fault injection, as the next two
    bool cut_off = false;
    std::uint32_t delay_us = 0;
    const Sge* sge;
    Sge copied[kMaxSge]; // of one that waited

    // Checked before; valid as long as `wr` is.
    WorkRequest(const ibv_send_wr& wr, ibv_qp_type type, std::uint32_t count)
        : wr_id(wr.wr_id), immediate(wr.imm_data), counter(count),
          opcode(static_cast<std::uint8_t>(wr.opcode)),
          send_flags(static_cast<std::uint8_t>(wr.send_flags)), is_queued(false),
          sge(reinterpret_cast<const Sge*>(wr.sg_list))
    {
        if (wr.opcode == IBV_WR_BIND_MW) {
            describe_bind(*this, wr);
            return;
        }
        if (wr.opcode == IBV_WR_LOCAL_INV) {
            return;
        }
        length = static_cast<std::uint32_t>(total_length(wr.sg_list, wr.num_sge));
        num_sge = static_cast<std::uint32_t>(wr.num_sge);
        is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
        if (type == IBV_QPT_UD) {
            is_datagram = true;
            remote_address = reinterpret_cast<std::uint64_t>(wr.wr.ud.ah);
            remote_qpn = wr.wr.ud.remote_qpn & 0xffffff;
            qkey = wr.wr.ud.remote_qkey;
            return;
        }
        const bool is_atomic =
            wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
        remote_address = wr.wr.rdma.remote_addr;
        compare_add = wr.wr.atomic.compare_add;
        swap = wr.wr.atomic.swap;
        rkey = is_atomic ? wr.wr.atomic.rkey : wr.wr.rdma.rkey;
    }

    // Others can change what is in the queue at any time.
    explicit WorkRequest(const SendWqe& wqe)
        : wr_id(wqe.wr_id), remote_address(wqe.remote_address), compare_add(wqe.compare_add),
          swap(wqe.swap), rkey(wqe.rkey), immediate(wqe.immediate), length(wqe.length),
          num_sge(wqe.num_sge), counter(wqe.counter), remote_qpn(wqe.remote_qpn), qkey(wqe.qkey),
          opcode(wqe.opcode), send_flags(wqe.send_flags), is_inline(wqe.is_inline), is_queued(true),
          injected_status(wqe.injected_status), cut_off(wqe.cut_off), delay_us(wqe.delay_us),
          sge(reinterpret_cast<const Sge*>(&wqe + 1))
    {
        if (is_inline) {
            length = std::min(length, kMaxInline);
            return;
        }
        num_sge = std::min(num_sge, kMaxSge);
        std::memcpy(copied, sge, num_sge * sizeof(Sge));
        sge = copied;
        std::uint64_t sum = 0;
        for (std::uint32_t i = 0; i < num_sge; ++i) {
            sum += copied[i].length;
        }
        length = static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, ~0u));
    }
    WorkRequest(const WorkRequest&) = delete;
    WorkRequest& operator=(const WorkRequest&) = delete;

    void store(SendWqe& wqe) const
    {
        wqe = {};
        wqe.wr_id = wr_id;
        wqe.remote_address = remote_address;
        wqe.compare_add = compare_add;
        wqe.swap = swap;
        wqe.rkey = rkey;
        wqe.immediate = immediate;
        wqe.length = length;
        wqe.num_sge = num_sge;
        wqe.counter = counter;
        wqe.remote_qpn = remote_qpn;
        wqe.qkey = qkey;
        wqe.opcode = opcode;
        wqe.send_flags = send_flags;
        wqe.is_inline = is_inline;
        wqe.injected_status = injected_status;
        wqe.cut_off = cut_off;
        wqe.delay_us = delay_us;
        if (!is_inline) {
            if (num_sge > 0) {
                std::memcpy(&wqe + 1, sge, num_sge * sizeof(Sge));
            }
            return;
        }
        wqe.num_sge = 0;
        auto* data = reinterpret_cast<std::uint8_t*>(&wqe + 1);
        for (std::uint32_t i = 0; i < num_sge; ++i) {
            if (sge[i].length > 0) {
                std::memcpy(data, reinterpret_cast<const void*>(sge[i].address), sge[i].length);
                data += sge[i].length;
            }
        }
    }
};

// The data of an inline request: at the application's addresses, or in the queue.
inline bool inline_list(const WorkRequest& wr, SegmentList& list)
{
    if (wr.is_queued) {
        list.append(reinterpret_cast<std::uint64_t>(wr.sge), wr.length);
        return true;
    }
    for (std::uint32_t i = 0; i < wr.num_sge; ++i) {
        list.append(wr.sge[i].address, wr.sge[i].length);
    }
    return true;
}

// The rest of a scatter/gather list, from an entry on whose key is no region's.
[[gnu::cold]] bool append_rest(Arena& arena, std::uint32_t pd, const Sge* sge, std::uint32_t count,
                               std::uint32_t access, SegmentList& list);

// The memory that a scatter/gather list names; false when a key does not cover its entry.
inline bool region_list(Arena& arena, std::uint32_t pd, const Sge* sge, std::uint32_t count,
                        std::uint32_t access, SegmentList& list)
{
    if (count > kMaxSge) {
        return false;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        const Sge entry = sge[i]; // others may change it meanwhile
        if (entry.length == 0) {
            continue;
        }
        const MrShared* region =
            find_region(arena, entry.lkey, entry.address, entry.length, access, pd);
        if (region == nullptr) {
            return append_rest(arena, pd, sge + i, count - i, access, list);
        }
        if (!list.append(*region, entry.address, entry.length)) {
            return false;
        }
    }
    return true;
}

// What ibv_post_send refuses: 0 or an errno value.
int check(const ibv_qp& qp, const QpShared& shared, const ibv_send_wr& wr);

std::uint8_t completion_opcode(std::uint8_t opcode);

// Done with a status, done but for a deferred WRITE, or waiting for something.
struct Outcome {
    Wait wait_for;
    ibv_wc_status status;
    std::optional<std::uint64_t> deferred; // a WRITE left to the responder: where

    static Outcome wait(Wait reason) { return {reason, IBV_WC_SUCCESS, std::nullopt}; }
    static Outcome finished(ibv_wc_status status) { return {Wait::none, status, std::nullopt}; }
    static Outcome deferred_at(std::uint64_t position)
    {
        return {Wait::none, IBV_WC_SUCCESS, position};
    }
};

// While it lives, the process whose arena this is does not give up the memory that keys looked up
// name.
class DirectAccess {
  public:
    DirectAccess(Process& self, Arena& arena) : count_(arena.in_progress[self.token() & 0xff])
    {
        count_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~DirectAccess() { count_.fetch_sub(1, std::memory_order_release); }
    DirectAccess(const DirectAccess&) = delete;
    DirectAccess& operator=(const DirectAccess&) = delete;

  private:
    std::atomic<std::uint32_t>& count_;
};

// Whether an address, by LID or by GID, is the port of this device of the arena's process.
bool is_port(const Arena& arena, unsigned device, std::uint16_t lid, const std::uint8_t* gid);

} // namespace softhca
