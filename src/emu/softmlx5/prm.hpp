// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands of the device's own format, as far as they are emulated: structures of big-endian bit
// fields, by the names and places that the adapter's programmer's reference manual (PRM) has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softmlx5::prm {

// In bits, from the start of its structure; bit 0 is the most significant one of the first byte.
struct Field {
    unsigned offset, bits;
};

// Where a structure begins in another, in bits.
struct Part {
    unsigned offset;
};

// What is not there reads as zero and is not written.
template <class Byte>
class Structure {
  public:
    Structure(Byte* start, std::size_t bytes) : start_(start), bits_(bytes * 8) {}

    std::uint64_t get(Field field) const
    {
        std::uint64_t value = 0;
        for (unsigned bit = field.offset; bit < field.offset + field.bits; ++bit) {
            value = value << 1 | (bit < bits_ ? start_[bit / 8] >> shift(bit) & 1u : 0u);
        }
        return value;
    }
    // For fields of up to 32 bits.
    std::uint32_t word(Field field) const { return static_cast<std::uint32_t>(get(field)); }
    void set(Field field, std::uint64_t value) const
    {
        for (unsigned bit = field.offset + field.bits; bit-- > field.offset; value >>= 1) {
            if (bit < bits_) {
                const auto mask = static_cast<std::uint8_t>(1u << shift(bit));
                start_[bit / 8] = static_cast<std::uint8_t>(
                    (value & 1) != 0 ? start_[bit / 8] | mask : start_[bit / 8] & ~mask);
            }
        }
    }
    Structure at(Part part) const
    {
        const std::size_t skipped = part.offset < bits_ ? part.offset : bits_;
        return {start_ + skipped / 8, (bits_ - skipped) / 8};
    }
    std::size_t bytes() const { return bits_ / 8; }

  private:
    static unsigned shift(unsigned bit) { return 7 - bit % 8; }

    Byte* start_;
    std::size_t bits_;
};
using Input = Structure<const std::uint8_t>;
using Output = Structure<std::uint8_t>;

enum Opcode : std::uint16_t {
    kQueryHcaCap = 0x100,
    kCreateMkey = 0x200,
    kCreateCq = 0x400,
    kCreateQp = 0x500,
    kReset2InitQp = 0x502,
    kInit2RtrQp = 0x503,
    kRtr2RtsQp = 0x504,
    k2ErrorQp = 0x507,
    k2ResetQp = 0x50a,
    kQueryQp = 0x50b,
    kCreateDct = 0x710,
    kQueryHcaVportContext = 0x762,
    kQueryLag = 0x842,
    kCreateRmp = 0x90c,
};

enum class Status : std::uint8_t {
    ok = 0x0,
    bad_operation = 0x2,
    bad_parameter = 0x3,
    bad_resource = 0x5,
    no_resources = 0xf,
    bad_qp_state = 0x10,
    bad_input_length = 0x50,
};

namespace command_in {
constexpr Field opcode = {0x0, 16}, op_mod = {0x30, 16}, number = {0x48, 24};
constexpr std::size_t kBytes = 0x10; // of the shortest one
} // namespace command_in

namespace command_out {
constexpr Field status = {0x0, 8}, syndrome = {0x20, 32}, number = {0x48, 24};
constexpr std::size_t kBytes = 0x10;
} // namespace command_out

namespace query_hca_cap_out {
constexpr Part capability = {0x80};
}
enum Capabilities : unsigned { kGeneralCaps = 0x0, kAtomicCaps = 0x3 }; // op_mod >> 1

namespace cmd_hca_cap {
constexpr Field log_max_srq_sz = {0x80, 8}, log_max_qp_sz = {0x88, 8}, log_max_qp = {0x9b, 5},
                log_max_srq = {0xab, 5}, log_max_cq_sz = {0xc8, 8}, log_max_cq = {0xdb, 5},
                log_max_mkey = {0xea, 6}, max_indirection = {0x100, 8},
                fixed_buffer_size = {0x108, 1}, log_max_klm_list_size = {0x11a, 6},
                log_max_ra_req_dc = {0x12a, 6}, log_max_ra_res_dc = {0x13a, 6},
                log_max_ra_req_qp = {0x14a, 6}, log_max_ra_res_qp = {0x15a, 6},
                port_type = {0x1b6, 2}, num_ports = {0x1b8, 8}, log_max_msg = {0x1c3, 5},
                cqe_version = {0x1fc, 4}, compact_address_vector = {0x200, 1},
                sctr_data_cqe = {0x215, 1}, dct = {0x21a, 1}, roce = {0x21d, 1},
                atomic = {0x21e, 1}, cq_oi = {0x220, 1}, cq_resize = {0x221, 1}, ud = {0x23d, 1},
                uc = {0x23e, 1}, rc = {0x23f, 1}, uar_4k = {0x240, 1}, log_max_pd = {0x32b, 5},
                log_max_rmp = {0x383, 5}, log_max_wq_sz = {0x3db, 5};
}
enum PortType : unsigned { kInfiniBand = 0, kEthernet = 1 };

namespace atomic_caps {
constexpr Field atomic_req_8b_endianness_mode = {0x40, 2}, atomic_operations = {0x90, 16},
                atomic_size_qp = {0xb0, 16}, atomic_size_dc = {0xd0, 16};
}
enum AtomicOperations : unsigned { kCompareSwap = 1, kFetchAdd = 2 };
constexpr unsigned kHostEndianness = 1;

namespace query_hca_vport_context_in {
constexpr Field port_num = {0x4c, 4};
}
namespace query_hca_vport_context_out {
constexpr Part hca_vport_context = {0x80};
}
namespace hca_vport_context {
constexpr Field port_physical_state = {0x110, 4}, port_state = {0x118, 4}, vport_state = {0x11c, 4},
                system_image_guid = {0x140, 64}, port_guid = {0x180, 64}, node_guid = {0x1c0, 64},
                lid = {0x2e0, 16}, subnet_timeout = {0x2fb, 5}, sm_lid = {0x300, 16};
}

// ---- queues

namespace create_cq_in {
constexpr Part cqc = {0x80};
constexpr Field cq_umem_offset = {0x280, 64}, cq_umem_id = {0x2c0, 32};
constexpr std::size_t kBytes = 0x2e0 / 8;
} // namespace create_cq_in

namespace cqc {
constexpr Field cqe_sz = {0x8, 3}, cc = {0xb, 1}, oi = {0xe, 1}, cqe_comp_en = {0x11, 1},
                dbr_umem_id = {0x20, 32}, log_cq_size = {0x63, 5}, dbr_addr = {0x1c0, 64};
}
enum CqeSize : unsigned { kCqe64 = 0, kCqe128 = 1 };

namespace create_rmp_in {
constexpr Part rmpc = {0x100}, wq = {0x280};
constexpr std::size_t kBytes = 0x440 / 8;
} // namespace create_rmp_in

namespace rmpc {
constexpr Field basic_cyclic_rcv_wqe = {0x20, 1};
}

namespace wq {
constexpr Field wq_type = {0x0, 4}, wq_signature = {0x4, 1}, pd = {0x48, 24}, dbr_addr = {0x80, 64},
                log_wq_stride = {0x10c, 4}, log_wq_sz = {0x11b, 5}, dbr_umem_id = {0x140, 32},
                wq_umem_id = {0x160, 32}, wq_umem_offset = {0x180, 64};
}
enum WqType : unsigned { kLinkedList = 0, kCyclic = 1 };

namespace create_qp_in {
constexpr Part qpc = {0xc0};
constexpr Field wq_umem_offset = {0x800, 64}, wq_umem_id = {0x840, 32};
constexpr std::size_t kBytes = 0x860 / 8;
} // namespace create_qp_in

namespace modify_qp_in {
constexpr Part qpc = {0xc0};
constexpr Field opt_param_mask = {0x80, 32};
constexpr std::size_t kBytes = 0x800 / 8;
} // namespace modify_qp_in
enum OptionalParameters : unsigned {
    kRemoteRead = 1 << 1,
    kAtomic = 1 << 2,
    kRemoteWrite = 1 << 3
};

namespace query_qp_out {
constexpr Part qpc = {0xc0};
}

namespace qpc {
constexpr Part primary_address_path = {0xc0};
constexpr Field state = {0x0, 4}, st = {0x8, 8}, pd = {0x28, 24}, mtu = {0x40, 3},
                log_rq_size = {0x49, 4}, log_rq_stride = {0x4d, 3}, no_sq = {0x50, 1},
                log_sq_size = {0x51, 4}, user_index = {0x88, 24}, remote_qpn = {0xa8, 24},
                log_sra_max = {0x388, 3}, retry_count = {0x38d, 3}, rnr_retry = {0x390, 3},
                next_send_psn = {0x3c8, 24}, cqn_snd = {0x3e8, 24}, log_rra_max = {0x488, 3},
                rre = {0x490, 1}, rwe = {0x491, 1}, rae = {0x492, 1}, min_rnr_nak = {0x4a3, 5},
                next_rcv_psn = {0x4a8, 24}, cqn_rcv = {0x4e8, 24}, dbr_addr = {0x500, 64},
                q_key = {0x540, 32}, rq_type = {0x565, 3}, srqn_rmpn_xrqn = {0x568, 24},
                cs_res = {0x638, 8}, dbr_umem_id = {0x720, 32};
} // namespace qpc
enum QpState : unsigned { kSqError = 4, kError = 6, kSqDraining = 7 };
enum ServiceType : unsigned { kRc = 0, kUc = 1, kUd = 2, kDci = 5 };
enum RqType : unsigned { kOwnRq = 0, kSrqRq = 1, kNoRq = 3 };
enum ScatterToCqe : unsigned { kNever = 0, kUpTo32 = 1, kUpTo64 = 2 };

namespace ads {
constexpr Field pkey_index = {0x10, 16}, grh = {0x28, 1}, mlid = {0x29, 7}, rlid = {0x30, 16},
                ack_timeout = {0x40, 5}, src_addr_index = {0x48, 8}, stat_rate = {0x54, 4},
                hop_limit = {0x58, 8}, tclass = {0x64, 8}, flow_label = {0x6c, 20},
                rgid_high = {0x80, 64}, rgid_low = {0xc0, 64}, eth_prio = {0x121, 3},
                sl = {0x124, 4}, vhca_port_num = {0x128, 8};
}

namespace create_dct_in {
constexpr Part dctc = {0x80};
constexpr std::size_t kBytes = 0x280 / 8;
} // namespace create_dct_in

namespace dctc {
constexpr Field user_index = {0x28, 24}, cqn = {0x48, 24}, rre = {0x6c, 1}, rwe = {0x6d, 1},
                rae = {0x6e, 1}, cs_res = {0x88, 8}, min_rnr_nak = {0x93, 5}, srqn = {0xa8, 24},
                pd = {0xc8, 24}, tclass = {0xe0, 8}, flow_label = {0xec, 20},
                dc_access_key = {0x100, 64}, mtu = {0x145, 3}, port = {0x148, 8},
                pkey_index = {0x150, 16}, my_addr_index = {0x168, 8}, hop_limit = {0x178, 8};
}

// ---- memory

namespace create_mkey_in {
constexpr Field input_mkey_index = {0x48, 24}, mkey_umem_valid = {0x61, 1},
                translations_octword_actual_size = {0x300, 32};
constexpr Part memory_key_mkey_entry = {0x80};
constexpr std::size_t kBytes = 0x880 / 8; // followed by the list
} // namespace create_mkey_in

namespace mkc {
constexpr Field free = {0x1, 1}, access_mode_4_2 = {0x3, 3}, umr_en = {0x10, 1}, a = {0x11, 1},
                rw = {0x12, 1}, rr = {0x13, 1}, lw = {0x14, 1}, lr = {0x15, 1},
                access_mode_1_0 = {0x16, 2}, qpn = {0x20, 24}, mkey_7_0 = {0x38, 8},
                length64 = {0x60, 1}, pd = {0x68, 24}, start_addr = {0x80, 64}, len = {0xc0, 64},
                log_entity_size = {0x1db, 5};
}
constexpr unsigned kKsm = 3; // access_mode_1_0
constexpr std::uint32_t kAnyQp = 0xffffff;

namespace klm { // of which KSM has no byte_count
constexpr Field mkey = {0x20, 32}, address = {0x40, 64};
constexpr std::size_t kBytes = 0x80 / 8;
} // namespace klm

// ---- events

enum Event : std::uint16_t {
    kCompletion = 0x0,
    kSqDrained = 0x3,
    kWqCatastrophic = 0x5,
    kWqInvalidRequest = 0x10,
    kWqAccess = 0x11,
    kSrqCatastrophic = 0x12,
    kSrqLastWqe = 0x13,
    kSrqLimit = 0x14,
};

} // namespace softmlx5::prm
