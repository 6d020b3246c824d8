// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The kernel's uverbs interface and the formats of mlx5 queues, as their installed headers have
// them.
#pragma once

#include "emu/softhca/verbs_abi.hpp"

#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
