// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Open devices, see context.hpp.
#include "emu/softmlx5/context.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/adapter.hpp"
#include "emu/softmlx5/prm.hpp"

#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace softmlx5 {
namespace {

prm::Event devx_event(unsigned type)
{
    switch (type) {
    case IBV_EVENT_SRQ_ERR:
        return prm::kSrqCatastrophic;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return prm::kSrqLimit;
    case IBV_EVENT_QP_REQ_ERR:
        return prm::kWqInvalidRequest;
    case IBV_EVENT_QP_ACCESS_ERR:
        return prm::kWqAccess;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return prm::kSrqLastWqe;
    case IBV_EVENT_SQ_DRAINED:
        return prm::kSqDrained;
    default:
        return prm::kWqCatastrophic;
    }
}

} // namespace

Mr::~Mr()
{
    if (registered_) {
        softhca::deregister(&hca);
    }
}

int Mr::deregister()
{
    const int error = softhca::deregister(&hca);
    registered_ = error != 0;
    return error;
}

Context::Context(Adapter& own, unsigned device)
    : adapter(own), hca(softhca::open_context(device * softhca::config().ports_each,
                                              softhca::config().ports_each)),
      async(std::make_shared<AsyncChannel>())
{
    fcntl(hca.async.read_fd, F_SETFL, O_NONBLOCK);
    if (const int error = async->open()) {
        softhca::close_context(hca);
        throw std::system_error(error, std::generic_category());
    }
    adapter.add(*this);
}

Context::~Context()
{
    adapter.settle();
    adapter.remove(*this);
    qps = {};
    srqs = {};
    cqs = {};
    key_lists = {};
    mws = {};
    mrs = {};
    ahs = {};
    pds = {};
    softhca::close_context(hca);
}

bool Context::is_ethernet(unsigned port) const
{
    return hca.has_port(port) && softhca::profile_of(hca.device_of(port)).ethernet;
}

bool Context::tell_devx(DevxObject::Kind kind, const softhca::AsyncNotice& notice)
{
    DevxObject* const object = devx_objects.find(DevxObject::handle_of(kind, notice.object));
    if (object != nullptr) {
        object->tell(devx_event(notice.type));
    }
    return object != nullptr;
}

void Context::take_events()
{
    softhca::AsyncNotice notice;
    while (read(hca.async.read_fd, &notice, sizeof notice) == sizeof notice) {
        softhca::Arena& arena = hca.process->arena();
        std::uint64_t element = notice.object;
        switch (notice.type) {
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_SRQ_LIMIT_REACHED: {
            Srq* srq = srqs.find(notice.object);
            if (srq == nullptr ||
                arena.recv_queue(softhca::kMaxQps + notice.object).generation != notice.identity) {
                continue;
            }
            if (tell_devx(DevxObject::Kind::rmp, notice)) {
                continue;
            }
            srq->count_event();
            element = srq->user_handle();
            break;
        }
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
        case IBV_EVENT_SQ_DRAINED: {
            Qp* qp = qps.find(notice.object);
            if (qp == nullptr || qp->hca().qp_num != notice.identity) {
                continue;
            }
            if (tell_devx(DevxObject::Kind::qp, notice)) {
                continue;
            }
            qp->count_event();
            element = qp->user_handle();
            break;
        }
        case IBV_EVENT_CQ_ERR:
            if (Cq* cq = cqs.find(notice.object);
                cq != nullptr && arena.cq(notice.object).generation == notice.identity) {
                cq->report_overrun();
            }
            continue;
        default:
            break;
        }
        async->write({element, notice.type, 0});
    }
}

} // namespace softmlx5
