// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands that make, change, query and destroy objects. They come to what the verbs do.
#include "emu/softhca/config.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/adapter.hpp"
#include "emu/softmlx5/command.hpp"
#include "emu/softmlx5/devx_commands.hpp"

#include <algorithm>
#include <cerrno>

#include <endian.h>

namespace softmlx5 {
namespace {

using Kind = DevxObject::Kind;

constexpr Outcome kTooShort = {prm::Status::bad_input_length, Syndrome::too_short};
constexpr Outcome kNoSuchOpcode = {prm::Status::bad_operation, Syndrome::opcode};
constexpr Outcome kNoSuchObject = {prm::Status::bad_resource, Syndrome::object};
constexpr Outcome kNotEmulated = {prm::Status::bad_parameter, Syndrome::not_emulated};
constexpr Outcome kNoMemory = {prm::Status::bad_parameter, Syndrome::memory};
constexpr Outcome kRefused = {prm::Status::bad_parameter, Syndrome::refused};
constexpr Outcome kBadState = {prm::Status::bad_qp_state, Syndrome::refused};

constexpr std::size_t kRecordBytes = 8;

// What a verb has said.
Outcome outcome_of(int error)
{
    return error == 0        ? Outcome{}
           : error == ENOMEM ? Outcome{prm::Status::no_resources, Syndrome::refused}
                             : kRefused;
}

// Where so many bytes lie, which the object uses from now on; 0: they do not in this memory.
std::uint64_t place(Context& context, DevxObject& object, std::uint32_t umem, std::uint64_t offset,
                    std::size_t bytes)
{
    const auto found = context.umems.find(umem);
    if (found == context.umems.end() || offset > found->second->length ||
        bytes > found->second->length - offset) {
        return 0;
    }
    object.memory.push_back(found->second);
    return found->second->start + offset;
}

Outcome create_cq(Context& context, const prm::Input& in, DevxObject& object, std::uint32_t& number)
{
    const prm::Input cqc = in.at(prm::create_cq_in::cqc);
    const unsigned size = cqc.word(prm::cqc::cqe_sz);
    if (cqc.get(prm::cqc::cc) != 0 || cqc.get(prm::cqc::cqe_comp_en) != 0 || size > prm::kCqe128) {
        return kNotEmulated;
    }
    CqRequest request = {};
    const std::uint64_t entries = std::uint64_t{1} << cqc.get(prm::cqc::log_cq_size);
    request.cqe = static_cast<std::uint32_t>(entries - 1);
    request.ignores_overrun = cqc.get(prm::cqc::oi) != 0;
    request.memory.cqe_size = size == prm::kCqe128 ? 128 : 64;
    request.memory.buf_addr =
        place(context, object, in.word(prm::create_cq_in::cq_umem_id),
              in.get(prm::create_cq_in::cq_umem_offset), entries * request.memory.cqe_size);
    request.memory.db_addr = place(context, object, cqc.word(prm::cqc::dbr_umem_id),
                                   cqc.get(prm::cqc::dbr_addr), kRecordBytes);
    if (request.memory.buf_addr == 0 || request.memory.db_addr == 0) {
        return kNoMemory;
    }
    Cq* made = nullptr;
    const int error = make_cq(context, request, nullptr, nullptr, 0, made);
    if (error == 0) {
        number = object.index = made->hca().handle;
    }
    return outcome_of(error);
}

Outcome create_rmp(Context& context, const prm::Input& in, DevxObject& object,
                   std::uint32_t& number)
{
    const prm::Input wq = in.at(prm::create_rmp_in::wq);
    const unsigned type = wq.word(prm::wq::wq_type), log_stride = wq.word(prm::wq::log_wq_stride);
    constexpr unsigned kLogShortest = 5; // what links it, and one piece
    if (type > prm::kCyclic || wq.get(prm::wq::wq_signature) != 0 || log_stride < kLogShortest ||
        in.at(prm::create_rmp_in::rmpc).get(prm::rmpc::basic_cyclic_rcv_wqe) != 0) {
        return kNotEmulated;
    }
    Pd* const pd = context.pds.find(wq.word(prm::wq::pd));
    if (pd == nullptr) {
        return kNoSuchObject;
    }
    SrqRequest request = {};
    SrqMemory& memory = request.memory;
    memory.stride = std::size_t{1} << log_stride;
    memory.entries = 1u << wq.get(prm::wq::log_wq_sz);
    memory.is_ring = type == prm::kCyclic;
    memory.requests = place(context, object, wq.word(prm::wq::wq_umem_id),
                            wq.get(prm::wq::wq_umem_offset), memory.entries * memory.stride);
    memory.record = place(context, object, wq.word(prm::wq::dbr_umem_id), wq.get(prm::wq::dbr_addr),
                          kRecordBytes);
    if (memory.requests == 0 || memory.record == 0) {
        return kNoMemory;
    }
    request.max_wr = memory.entries;
    request.max_sge =
        std::min(static_cast<std::uint32_t>((memory.stride - sizeof(mlx5_wqe_srq_next_seg)) /
                                            sizeof(mlx5_wqe_data_seg)),
                 softhca::kMaxSge);
    Srq* made = nullptr;
    const int error = make_srq(context, *pd, request, made);
    if (error == 0) {
        object.index = made->hca().handle;
        number = made->number();
    }
    return outcome_of(error);
}

// Of a service type that is not emulated.
constexpr ibv_qp_type kNoType = static_cast<ibv_qp_type>(0);
ibv_qp_type type_of(unsigned service)
{
    switch (service) {
    case prm::kRc:
        return IBV_QPT_RC;
    case prm::kUc:
        return IBV_QPT_UC;
    case prm::kUd:
        return IBV_QPT_UD;
    case prm::kDci:
        return softhca::kDci;
    default:
        return kNoType;
    }
}

unsigned service_of(ibv_qp_type type)
{
    return type == softhca::kDci ? prm::kDci
           : type == IBV_QPT_UD  ? prm::kUd
           : type == IBV_QPT_UC  ? prm::kUc
                                 : prm::kRc;
}

std::uint8_t longest_in_cqe(std::uint32_t cs_res)
{
    return cs_res == prm::kUpTo32 ? 32 : cs_res == prm::kUpTo64 ? 64 : 0;
}

Outcome create_qp(Context& context, const prm::Input& in, DevxObject& object, std::uint32_t& number)
{
    const prm::Input qpc = in.at(prm::create_qp_in::qpc);
    QpRequest request = {};
    request.type = type_of(qpc.word(prm::qpc::st));
    const unsigned rq_type = qpc.word(prm::qpc::rq_type);
    if (request.type == kNoType ||
        (rq_type != prm::kOwnRq && rq_type != prm::kSrqRq && rq_type != prm::kNoRq)) {
        return kNotEmulated;
    }
    request.pd = context.pds.find(qpc.word(prm::qpc::pd));
    request.send_cq = context.cqs.find(qpc.word(prm::qpc::cqn_snd));
    request.recv_cq = context.cqs.find(qpc.word(prm::qpc::cqn_rcv));
    if (rq_type == prm::kSrqRq) {
        request.srq = context.find_srq(qpc.word(prm::qpc::srqn_rmpn_xrqn));
    }
    if (request.pd == nullptr || request.send_cq == nullptr || request.recv_cq == nullptr ||
        (rq_type == prm::kSrqRq && request.srq == nullptr)) {
        return kNoSuchObject;
    }
    mlx5_ib_create_qp& memory = request.memory;
    if (rq_type == prm::kOwnRq) {
        constexpr unsigned kLogUnit = 4; // of a request's length
        memory.rq_wqe_count = 1u << qpc.get(prm::qpc::log_rq_size);
        memory.rq_wqe_shift = kLogUnit + qpc.word(prm::qpc::log_rq_stride);
    }
    memory.sq_wqe_count = qpc.get(prm::qpc::no_sq) != 0 ? 0 : 1u << qpc.get(prm::qpc::log_sq_size);
    memory.uidx = qpc.word(prm::qpc::user_index);
    memory.buf_addr = place(context, object, in.word(prm::create_qp_in::wq_umem_id),
                            in.get(prm::create_qp_in::wq_umem_offset), request.ring_bytes());
    memory.db_addr = place(context, object, qpc.word(prm::qpc::dbr_umem_id),
                           qpc.get(prm::qpc::dbr_addr), kRecordBytes);
    if (memory.buf_addr == 0 || memory.db_addr == 0) {
        return kNoMemory;
    }
    request.longest_in_cqe = longest_in_cqe(qpc.word(prm::qpc::cs_res));
    Qp* made = nullptr;
    const int error = make_qp(context, request, made);
    if (error == 0) {
        object.index = made->hca().handle;
        number = made->hca().qp_num;
    }
    return outcome_of(error);
}

unsigned access_of(bool read, bool write, bool atomic)
{
    return (read ? unsigned{IBV_ACCESS_REMOTE_READ} : 0u) |
           (write ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0u) |
           (atomic ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0u);
}

// A list of keys, whose own key this is.
Outcome create_mkey(Context& context, const prm::Input& in, DevxObject& object,
                    std::uint32_t& number)
{
    using namespace prm::create_mkey_in;
    const std::uint32_t count = in.word(translations_octword_actual_size);
    if (count > (in.bytes() - kBytes) / prm::klm::kBytes) {
        return kTooShort;
    }
    const prm::Input mkc = in.at(memory_key_mkey_entry);
    if (mkc.word(prm::mkc::access_mode_1_0) != prm::kKsm || in.get(input_mkey_index) != 0 ||
        in.get(mkey_umem_valid) != 0 || mkc.word(prm::mkc::qpn) != prm::kAnyQp ||
        mkc.get(prm::mkc::lr) == 0 || mkc.get(prm::mkc::access_mode_4_2) != 0 ||
        mkc.get(prm::mkc::free) != 0 || mkc.get(prm::mkc::umr_en) != 0 ||
        mkc.get(prm::mkc::length64) != 0) {
        return kNotEmulated;
    }
    Pd* const pd = context.pds.find(mkc.word(prm::mkc::pd));
    if (pd == nullptr) {
        return kNoSuchObject;
    }
    const softhca::KeyList::Range range = {
        .iova = mkc.get(prm::mkc::start_addr),
        .length = mkc.get(prm::mkc::len),
        .log_piece = mkc.word(prm::mkc::log_entity_size),
        .access = access_of(mkc.get(prm::mkc::rr) != 0, mkc.get(prm::mkc::rw) != 0,
                            mkc.get(prm::mkc::a) != 0) |
                  (mkc.get(prm::mkc::lw) != 0 ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0u),
        .low = static_cast<std::uint8_t>(mkc.get(prm::mkc::mkey_7_0))};
    if (count == 0 || range.length > std::uint64_t{count} << range.log_piece ||
        range.iova + range.length < range.iova) {
        return kRefused;
    }
    std::vector<softhca::KeyEntry> entries;
    for (std::uint32_t i = 0; i < count; ++i) {
        const prm::Input klm =
            in.at(prm::Part{static_cast<unsigned>(8 * (kBytes + i * prm::klm::kBytes))});
        entries.push_back({klm.get(prm::klm::address), klm.word(prm::klm::mkey)});
    }
    auto list = std::make_unique<softhca::KeyList>(pd->hca(), range, entries);
    object.index = list->index();
    number = list->key() >> 8; // the program knows the rest
    context.key_lists.add(object.index, std::move(list));
    return {};
}

// A target is one that peers reach as soon as it is there.
int open_target(Qp& target, const prm::Input& dctc, bool ethernet)
{
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = static_cast<std::uint8_t>(dctc.get(prm::dctc::port));
    attributes.pkey_index = static_cast<std::uint16_t>(dctc.get(prm::dctc::pkey_index));
    attributes.qp_access_flags =
        access_of(dctc.get(prm::dctc::rre) != 0, dctc.get(prm::dctc::rwe) != 0,
                  dctc.get(prm::dctc::rae) != 0);
    if (const int error = target.modify(attributes, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
                                                        IBV_QP_ACCESS_FLAGS)) {
        return error;
    }
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = static_cast<ibv_mtu>(dctc.get(prm::dctc::mtu));
    attributes.min_rnr_timer = static_cast<std::uint8_t>(dctc.get(prm::dctc::min_rnr_nak));
    attributes.ah_attr.port_num = attributes.port_num;
    attributes.ah_attr.is_global = ethernet;
    attributes.ah_attr.grh.sgid_index =
        static_cast<std::uint8_t>(dctc.get(prm::dctc::my_addr_index));
    attributes.ah_attr.grh.hop_limit = static_cast<std::uint8_t>(dctc.get(prm::dctc::hop_limit));
    attributes.ah_attr.grh.traffic_class = static_cast<std::uint8_t>(dctc.get(prm::dctc::tclass));
    attributes.ah_attr.grh.flow_label = dctc.word(prm::dctc::flow_label);
    return target.modify(attributes,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER);
}

Outcome create_dct(Context& context, const prm::Input& in, DevxObject& object,
                   std::uint32_t& number)
{
    const prm::Input dctc = in.at(prm::create_dct_in::dctc);
    QpRequest request = {};
    request.type = softhca::kDct;
    request.pd = context.pds.find(dctc.word(prm::dctc::pd));
    request.send_cq = request.recv_cq = context.cqs.find(dctc.word(prm::dctc::cqn));
    request.srq = context.find_srq(dctc.word(prm::dctc::srqn));
    if (request.pd == nullptr || request.recv_cq == nullptr || request.srq == nullptr) {
        return kNoSuchObject;
    }
    request.memory.uidx = dctc.word(prm::dctc::user_index);
    request.memory.access_key = dctc.get(prm::dctc::dc_access_key);
    request.longest_in_cqe = longest_in_cqe(dctc.word(prm::dctc::cs_res));
    Qp* made = nullptr;
    if (const int error = make_qp(context, request, made)) {
        return outcome_of(error);
    }
    object.index = made->hca().handle;
    number = made->hca().qp_num;
    const int error = open_target(*made, dctc, context.is_ethernet(dctc.word(prm::dctc::port)));
    if (error != 0) {
        ib_uverbs_destroy_qp_resp events;
        remove_qp(context, object.index, events);
    }
    return outcome_of(error);
}

constexpr struct {
    prm::Opcode opcode;
    std::size_t bytes;
    Kind kind;
    Outcome (*create)(Context& context, const prm::Input& in, DevxObject& object,
                      std::uint32_t& number);
} kCreations[] = {
    {prm::kCreateCq, prm::create_cq_in::kBytes, Kind::cq, create_cq},
    {prm::kCreateRmp, prm::create_rmp_in::kBytes, Kind::rmp, create_rmp},
    {prm::kCreateQp, prm::create_qp_in::kBytes, Kind::qp, create_qp},
    {prm::kCreateDct, prm::create_dct_in::kBytes, Kind::qp, create_dct},
    {prm::kCreateMkey, prm::create_mkey_in::kBytes, Kind::key_list, create_mkey},
};

// The queue pair that a handle and the command name; null: they do not.
Qp* find_qp(Context& context, std::uint32_t handle, const prm::Input& in)
{
    const DevxObject* const object = context.devx_objects.find(handle);
    Qp* qp = nullptr;
    if (object != nullptr) {
        qp = object->kind == Kind::qp ? context.qps.find(object->index) : nullptr;
    } else if (context.devx_objects.find(DevxObject::handle_of(Kind::qp, handle)) == nullptr) {
        qp = context.qps.find(handle);
    }
    return qp != nullptr && qp->hca().qp_num == in.word(prm::command_in::number) ? qp : nullptr;
}

// Calls copy(a structure, its field, the attribute of the verbs that is the same) for each.
template <class Structure, class Attributes, class Copy>
void for_each_field(const Structure& qpc, Attributes& attributes, Copy copy)
{
    copy(qpc, prm::qpc::mtu, attributes.path_mtu);
    copy(qpc, prm::qpc::remote_qpn, attributes.dest_qp_num);
    copy(qpc, prm::qpc::next_send_psn, attributes.sq_psn);
    copy(qpc, prm::qpc::next_rcv_psn, attributes.rq_psn);
    copy(qpc, prm::qpc::retry_count, attributes.retry_cnt);
    copy(qpc, prm::qpc::rnr_retry, attributes.rnr_retry);
    copy(qpc, prm::qpc::min_rnr_nak, attributes.min_rnr_timer);
    copy(qpc, prm::qpc::q_key, attributes.qkey);
    const Structure path = qpc.at(prm::qpc::primary_address_path);
    copy(path, prm::ads::pkey_index, attributes.pkey_index);
    copy(path, prm::ads::vhca_port_num, attributes.port_num);
    copy(path, prm::ads::ack_timeout, attributes.timeout);
    auto& address = attributes.ah_attr;
    copy(path, prm::ads::rlid, address.dlid);
    copy(path, prm::ads::mlid, address.src_path_bits);
    copy(path, prm::ads::sl, address.sl);
    copy(path, prm::ads::stat_rate, address.static_rate);
    copy(path, prm::ads::grh, address.is_global);
    copy(path, prm::ads::vhca_port_num, address.port_num);
    copy(path, prm::ads::src_addr_index, address.grh.sgid_index);
    copy(path, prm::ads::hop_limit, address.grh.hop_limit);
    copy(path, prm::ads::tclass, address.grh.traffic_class);
    copy(path, prm::ads::flow_label, address.grh.flow_label);
}

constexpr struct {
    prm::Opcode opcode;
    std::size_t bytes;
    ibv_qp_state from, to; // or from any: to RESET and ERR
} kChanges[] = {
    {prm::kReset2InitQp, prm::modify_qp_in::kBytes, IBV_QPS_RESET, IBV_QPS_INIT},
    {prm::kInit2RtrQp, prm::modify_qp_in::kBytes, IBV_QPS_INIT, IBV_QPS_RTR},
    {prm::kRtr2RtsQp, prm::modify_qp_in::kBytes, IBV_QPS_RTR, IBV_QPS_RTS},
    {prm::k2ErrorQp, prm::command_in::kBytes, IBV_QPS_UNKNOWN, IBV_QPS_ERR},
    {prm::k2ResetQp, prm::command_in::kBytes, IBV_QPS_UNKNOWN, IBV_QPS_RESET},
};

// What the verbs have to be told on the way to a state.
int mask_of(ibv_qp_type type, ibv_qp_state to)
{
    const bool is_reliable = type == IBV_QPT_RC || type == softhca::kDci;
    const bool is_connected = type == IBV_QPT_RC || type == IBV_QPT_UC;
    switch (to) {
    case IBV_QPS_INIT:
        return IBV_QP_PKEY_INDEX | IBV_QP_PORT |
               (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    case IBV_QPS_RTR:
        return (type == IBV_QPT_UD ? 0 : IBV_QP_PATH_MTU) |
               (is_connected ? IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_ACCESS_FLAGS
                             : 0) |
               (type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    case IBV_QPS_RTS:
        return (type == softhca::kDci ? 0 : IBV_QP_SQ_PSN) |
               (is_reliable
                    ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                    : 0);
    default:
        return 0;
    }
}

// What the context names, and of the former attributes what it leaves.
ibv_qp_attr attributes_of(const prm::Input& in, const ibv_qp_attr& former, ibv_qp_state to,
                          bool ethernet)
{
    const prm::Input qpc = in.at(prm::modify_qp_in::qpc);
    const prm::Input path = qpc.at(prm::qpc::primary_address_path);
    ibv_qp_attr attributes = {};
    for_each_field(qpc, attributes,
                   []<class To>(const prm::Input& from, prm::Field field, To& attribute) {
                       attribute = static_cast<To>(from.get(field));
                   });
    attributes.qp_state = to;
    attributes.max_rd_atomic = static_cast<std::uint8_t>(1u << qpc.get(prm::qpc::log_sra_max));
    attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(1u << qpc.get(prm::qpc::log_rra_max));
    attributes.ah_attr.grh.dgid.global = {htobe64(path.get(prm::ads::rgid_high)),
                                          htobe64(path.get(prm::ads::rgid_low))};
    if (ethernet) {
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.sl = static_cast<std::uint8_t>(path.get(prm::ads::eth_prio));
    }
    const unsigned named = to == IBV_QPS_INIT ? ~0u : in.word(prm::modify_qp_in::opt_param_mask);
    const auto may = [&](unsigned parameter, prm::Field field, unsigned flag) {
        return (named & parameter) != 0 ? qpc.get(field) != 0
                                        : (former.qp_access_flags & flag) != 0;
    };
    attributes.qp_access_flags =
        access_of(may(prm::kRemoteRead, prm::qpc::rre, IBV_ACCESS_REMOTE_READ),
                  may(prm::kRemoteWrite, prm::qpc::rwe, IBV_ACCESS_REMOTE_WRITE),
                  may(prm::kAtomic, prm::qpc::rae, IBV_ACCESS_REMOTE_ATOMIC));
    return attributes;
}

unsigned context_state(ibv_qp_state state)
{
    switch (state) {
    case IBV_QPS_SQE:
        return prm::kSqError;
    case IBV_QPS_ERR:
        return prm::kError;
    case IBV_QPS_SQD:
        return prm::kSqDraining;
    default:
        return state; // the same
    }
}

} // namespace

Outcome create_object(Context& context, prm::Input in, prm::Output out, std::uint32_t& handle)
{
    for (const auto& creation : kCreations) {
        if (creation.opcode != in.get(prm::command_in::opcode)) {
            continue;
        }
        if (in.bytes() < creation.bytes) {
            return kTooShort;
        }
        auto object = std::make_unique<DevxObject>(DevxObject{creation.kind});
        std::uint32_t number = 0;
        const Outcome outcome = creation.create(context, in, *object, number);
        if (outcome.is_ok()) {
            out.set(prm::command_out::number, number);
            handle = DevxObject::handle_of(object->kind, object->index);
            context.devx_objects.add(handle, std::move(object));
        }
        return outcome;
    }
    return kNoSuchOpcode;
}

Outcome modify_object(Context& context, std::uint32_t handle, prm::Input in)
{
    const auto* const change =
        std::find_if(std::begin(kChanges), std::end(kChanges), [&](const auto& entry) {
            return entry.opcode == in.get(prm::command_in::opcode);
        });
    if (change == std::end(kChanges)) {
        return kNoSuchOpcode;
    }
    if (in.bytes() < change->bytes) {
        return kTooShort;
    }
    Qp* const qp = find_qp(context, handle, in);
    if (qp == nullptr) {
        return kNoSuchObject;
    }
    ibv_qp_attr former;
    ibv_qp_init_attr init;
    softhca::query_qp(&qp->hca(), &former, 0, &init);
    if (change->from != IBV_QPS_UNKNOWN && change->from != former.qp_state) {
        return kBadState;
    }
    ibv_qp_attr attributes = attributes_of(in, former, change->to, context.is_ethernet(qp->port()));
    context.adapter.settle(); // what was posted before comes before
    return outcome_of(
        qp->modify(attributes, IBV_QP_STATE | mask_of(qp->hca().qp_type, change->to)));
}

Outcome query_object(Context& context, std::uint32_t handle, prm::Input in, prm::Output out)
{
    if (in.get(prm::command_in::opcode) != prm::kQueryQp) {
        return kNoSuchOpcode;
    }
    Qp* const qp = find_qp(context, handle, in);
    if (qp == nullptr) {
        return kNoSuchObject;
    }
    ibv_qp_attr attributes;
    ibv_qp_init_attr init;
    softhca::query_qp(&qp->hca(), &attributes, 0, &init);
    const prm::Output qpc = out.at(prm::query_qp_out::qpc);
    for_each_field(qpc, attributes,
                   [](const prm::Output& to, prm::Field field, const auto& attribute) {
                       to.set(field, static_cast<std::uint64_t>(attribute));
                   });
    const prm::Output path = qpc.at(prm::qpc::primary_address_path);
    path.set(prm::ads::rgid_high, be64toh(attributes.ah_attr.grh.dgid.global.subnet_prefix));
    path.set(prm::ads::rgid_low, be64toh(attributes.ah_attr.grh.dgid.global.interface_id));
    qpc.set(prm::qpc::state, context_state(attributes.qp_state));
    qpc.set(prm::qpc::st, service_of(qp->hca().qp_type));
    qpc.set(prm::qpc::user_index, qp->user_index());
    qpc.set(prm::qpc::cqn_snd, init.send_cq->handle);
    qpc.set(prm::qpc::cqn_rcv, init.recv_cq->handle);
    qpc.set(prm::qpc::rre, (attributes.qp_access_flags & IBV_ACCESS_REMOTE_READ) != 0);
    qpc.set(prm::qpc::rwe, (attributes.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0);
    qpc.set(prm::qpc::rae, (attributes.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0);
    return {};
}

int destroy_object(Context& context, std::uint32_t handle)
{
    const DevxObject* const object = context.devx_objects.find(handle);
    if (object == nullptr) {
        return ENOENT;
    }
    int error = 0;
    switch (object->kind) { // events are not acknowledged
    case Kind::qp: {
        ib_uverbs_destroy_qp_resp events;
        error = remove_qp(context, object->index, events);
        break;
    }
    case Kind::cq: {
        ib_uverbs_destroy_cq_resp events;
        error = remove_cq(context, object->index, events);
        break;
    }
    case Kind::rmp: {
        ib_uverbs_destroy_srq_resp events;
        error = remove_srq(context, object->index, events);
        break;
    }
    case Kind::key_list:
        context.key_lists.remove(object->index);
        break;
    }
    if (error == 0) {
        context.devx_objects.remove(handle);
    }
    return error;
}

} // namespace softmlx5
