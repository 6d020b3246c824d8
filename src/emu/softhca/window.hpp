// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory windows as work requests see them.
#pragma once

#include "emu/softhca/work_request.hpp"

namespace softhca {

// What posting a bind refuses: 0 or an errno value.
int check_bind(const ibv_qp& qp, const ibv_send_wr& wr);

// Whether a key is that of a window of type 2 bound through this QP, of any process.
bool may_invalidate(Arena& arena, const QpShared& qp, std::uint32_t key);

// Ends its binding; false when it is not.
bool invalidate_window(Process& self, Arena& arena, const QpShared& qp, std::uint32_t key);

} // namespace softhca
