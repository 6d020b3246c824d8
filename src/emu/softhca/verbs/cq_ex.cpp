// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Extended completion queues: one completion at a time is polled and its fields are read by
// functions.
#include "emu/softhca/config.hpp"
#include "emu/softhca/cq.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/verbs/extended.hpp"

namespace softhca {
namespace {

// Polls the next completion into the queue; 0 or ENOENT.
int take(Cq& cq)
{
    if (take_completions(cq, 1, &cq.current) == 0) {
        return ENOENT;
    }
    context_of(cq.base.context)
        .process->extended_completions.fetch_add(1, std::memory_order_relaxed);
    cq.extended.status = cq.current.status;
    cq.extended.wr_id = cq.current.wr_id;
    return 0;
}

void end_poll(ibv_cq_ex* extended)
{
    Cq& cq = object_of<Cq>(extended);
    cq.current_lock.unlock();
    cq.one_thread.leave();
}

int start_poll(ibv_cq_ex* extended, ibv_poll_cq_attr* attributes)
{
    if (attributes->comp_mask != 0) {
        return EINVAL;
    }
    Cq& cq = object_of<Cq>(extended);
    cq.one_thread.enter("CQ");
    cq.current_lock.lock(); // until end_poll, which is called only if there is a completion
    const int error = take(cq);
    if (error != 0) {
        end_poll(extended);
    }
    return error;
}

int next_poll(ibv_cq_ex* extended)
{
    return take(object_of<Cq>(extended));
}

// A function that reads one field of the current completion.
template <auto Field, class Result>
Result read(ibv_cq_ex* extended)
{
    return static_cast<Result>(object_of<Cq>(extended).current.*Field);
}

__be32 read_imm_data(ibv_cq_ex* extended)
{
    return object_of<Cq>(extended).current.imm_data; // or the invalidated key, in the same place
}

bool is_valid(const ibv_cq_init_attr_ex& init)
{
    return (init.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) == 0 ||
           (init.parent_domain != nullptr && object_of<Pd>(init.parent_domain).is_parent_domain());
}

} // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init)
{
    const std::uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const bool has_flags = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
    // Refused: fields that these completions lack, such as timestamps, and
    // IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, since this CQ always reports an overrun.
    if ((init->wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0 ||
        (init->comp_mask & ~known) != 0 ||
        (has_flags && (init->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if (!is_valid(*init) || init->cqe > profile_of(context_of(context).device).max_cqe) {
        errno = EINVAL;
        return nullptr;
    }
    ibv_cq* cq = create_cq(context, static_cast<int>(init->cqe), init->cq_context, init->channel,
                           static_cast<int>(init->comp_vector));
    if (cq == nullptr) {
        return nullptr;
    }
    Cq& object = object_of<Cq>(cq);
    if ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
        object.parent_domain = &object_of<Pd>(init->parent_domain);
        object.parent_domain->children.fetch_add(1);
    }
    if (has_flags && (init->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0) {
        object.one_thread.promise();
        context_of(context).process->single_threaded_cqs.fetch_add(1);
    }
    ibv_cq_ex& extended = object.extended;
    extended.start_poll = start_poll;
    extended.next_poll = next_poll;
    extended.end_poll = end_poll;
    extended.read_opcode = read<&ibv_wc::opcode, ibv_wc_opcode>;
    extended.read_vendor_err = read<&ibv_wc::vendor_err, std::uint32_t>;
    extended.read_byte_len = read<&ibv_wc::byte_len, std::uint32_t>;
    extended.read_imm_data = read_imm_data;
    extended.read_qp_num = read<&ibv_wc::qp_num, std::uint32_t>;
    extended.read_src_qp = read<&ibv_wc::src_qp, std::uint32_t>;
    extended.read_wc_flags = read<&ibv_wc::wc_flags, unsigned>;
    extended.read_slid = read<&ibv_wc::slid, std::uint32_t>;
    extended.read_sl = read<&ibv_wc::sl, std::uint8_t>;
    extended.read_dlid_path_bits = read<&ibv_wc::dlid_path_bits, std::uint8_t>;
    return &extended;
}

} // namespace softhca
