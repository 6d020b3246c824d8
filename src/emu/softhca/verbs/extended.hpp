// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The extended interfaces to queue pairs and completion queues.
#pragma once

#include "emu/softhca/verbs_abi.hpp"

namespace softhca {

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);

} // namespace softhca
