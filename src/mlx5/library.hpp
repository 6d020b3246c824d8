// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// libmlx5 of the process, found at run time: what it tells of the objects that it has made.
#pragma once

#include <infiniband/mlx5dv.h>

namespace gdr::mlx5 {

// Whether libmlx5 is this HCA's library, and what follows can be asked.
bool is_provider_of(const ibv_context& context);

// Throw verbs::Error. A completion queue that was described is the caller's from then on: libmlx5
// must not poll, arm or resize it, and leaves it alone when it destroys a queue pair.
mlx5dv_qp describe(ibv_qp* qp);
mlx5dv_cq describe(ibv_cq* cq);
mlx5dv_srq describe(ibv_srq* srq);

} // namespace gdr::mlx5
