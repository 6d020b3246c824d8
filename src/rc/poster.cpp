// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/poster.hpp"

#include "rc/endpoint.hpp"

namespace gdr::rc {

int Poster::add_to_chain(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr**)
{
    auto& ep = *static_cast<Endpoint*>(qp->qp_context);
    Poster& poster = ep.iface().poster;
    poster.chain_->add(ep, *wr, poster.at_once_);
    return 0;
}

} // namespace gdr::rc
