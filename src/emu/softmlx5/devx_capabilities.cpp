// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands about the device as such. A capability that is not set is one that it does not have: of
// most structures all.
#include "emu/softhca/config.hpp"
#include "emu/softhca/device.hpp"
#include "emu/softmlx5/devx_commands.hpp"

#include <bit>

#include <endian.h>

namespace softmlx5 {
namespace {

constexpr unsigned kAtomicBytes = 8; // of an operand
constexpr unsigned kLogMaxKeys = 11; // of a list; the interface has commands of up to 64 KiB

unsigned log2_of(std::uint32_t number)
{
    return number == 0 ? 0 : static_cast<unsigned>(std::bit_width(number) - 1);
}

void tell_general(const softhca::Context& hca, const prm::Output& caps)
{
    using namespace prm::cmd_hca_cap;
    const softhca::Profile& profile = softhca::profile_of(hca.device);
    const unsigned queues = log2_of(softhca::kMaxQps), depth = log2_of(profile.max_qp_wr);
    const unsigned reads = log2_of(profile.rd_atom);
    const unsigned srqs = log2_of(profile.max_srq), srq_depth = log2_of(profile.max_srq_wr);
    caps.set(log_max_qp, queues);
    caps.set(log_max_qp_sz, depth);
    caps.set(log_max_srq, srqs);
    caps.set(log_max_srq_sz, srq_depth);
    caps.set(log_max_rmp, srqs);
    caps.set(log_max_wq_sz, srq_depth);
    caps.set(log_max_cq, log2_of(softhca::kMaxCqs));
    caps.set(log_max_cq_sz, log2_of(profile.max_cqe));
    caps.set(log_max_pd, 20);
    caps.set(log_max_mkey, log2_of(softhca::kMaxMrs));
    caps.set(fixed_buffer_size, 1); // lists of keys
    caps.set(max_indirection, 1);   // and no lists of those
    caps.set(log_max_klm_list_size, kLogMaxKeys);
    for (const prm::Field field :
         {log_max_ra_req_dc, log_max_ra_res_dc, log_max_ra_req_qp, log_max_ra_res_qp}) {
        caps.set(field, reads);
    }
    caps.set(port_type, profile.ethernet ? prm::kEthernet : prm::kInfiniBand);
    caps.set(roce, profile.ethernet);
    caps.set(num_ports, hca.ports);
    caps.set(log_max_msg, 30);
    caps.set(cqe_version, 1);
    caps.set(atomic,
             profile.atomics == softhca::Atomics::hca || profile.atomics == softhca::Atomics::glob);
    caps.set(rc, profile.rc);
    caps.set(uc, profile.rc);
    caps.set(ud, profile.ud);
    for (const prm::Field field :
         {compact_address_vector, sctr_data_cqe, dct, cq_oi, cq_resize, uar_4k}) {
        caps.set(field, 1);
    }
}

void tell_atomics(const prm::Output& caps)
{
    using namespace prm::atomic_caps;
    caps.set(atomic_req_8b_endianness_mode, prm::kHostEndianness);
    caps.set(atomic_operations, prm::kCompareSwap | prm::kFetchAdd);
    caps.set(atomic_size_qp, kAtomicBytes);
    caps.set(atomic_size_dc, kAtomicBytes);
}

void query_hca_cap(const Context& context, const prm::Input& in, const prm::Output& out)
{
    const prm::Output caps = out.at(prm::query_hca_cap_out::capability);
    switch (in.word(prm::command_in::op_mod) >> 1) {
    case prm::kGeneralCaps:
        tell_general(context.hca, caps);
        break;
    case prm::kAtomicCaps:
        tell_atomics(caps);
        break;
    default:
        break;
    }
}

Outcome query_hca_vport_context(const Context& context, const prm::Input& in,
                                const prm::Output& out)
{
    using namespace prm::hca_vport_context;
    const prm::Output vport = out.at(prm::query_hca_vport_context_out::hca_vport_context);
    const unsigned named = in.word(prm::query_hca_vport_context_in::port_num);
    const unsigned number = named == 0 && context.hca.ports == 1 ? 1 : named;
    if (!context.hca.has_port(number)) {
        return {prm::Status::bad_parameter, Syndrome::not_emulated};
    }
    const unsigned device = context.hca.device_of(number);
    const ibv_port_attr port = softhca::describe_port(*context.hca.process, device);
    vport.set(port_physical_state, port.phys_state);
    vport.set(port_state, port.state);
    vport.set(vport_state, port.state);
    vport.set(lid, port.lid);
    vport.set(sm_lid, port.sm_lid);
    vport.set(subnet_timeout, port.subnet_timeout);
    vport.set(port_guid, be64toh(softhca::device_guid(device)));
    for (const prm::Field guid : {system_image_guid, node_guid}) {
        vport.set(guid, be64toh(softhca::device_guid(context.hca.device)));
    }
    return {};
}

} // namespace

Outcome execute_general(Context& context, prm::Input in, prm::Output out)
{
    switch (in.word(prm::command_in::opcode)) {
    case prm::kQueryHcaCap:
        query_hca_cap(context, in, out);
        return {};
    case prm::kQueryHcaVportContext:
        return query_hca_vport_context(context, in, out);
    case prm::kQueryLag: // ports are not bonded: all is zero
        return {};
    default:
        return {prm::Status::bad_operation, Syndrome::opcode};
    }
}

} // namespace softmlx5
