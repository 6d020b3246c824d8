// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// libibverbs' declarations, included so that the verbs defined here keep default visibility: they
// take the place of libibverbs' own in every program this library is preloaded into.
#pragma once

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#pragma GCC visibility pop

// The header maps these names to inline helpers; here the functions themselves are defined.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
