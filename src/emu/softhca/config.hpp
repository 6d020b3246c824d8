// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softhca's environment variables. They are read once, at the first use of the library; a value
// that is not understood is reported in one line on stderr and the default is used.
//
//   SOFTHCA_FABRIC=NAME         processes of one user with the same NAME reach each other;
//                               letters, digits, '.', '_' and '-', 64 at most (default "default")
//   SOFTHCA_DEVICES=N           number of HCAs, 1 to 8, named softhca0, softhca1, ... (default 1)
//   SOFTHCA_LINK_LAYER=LAYER    infiniband or ethernet, RoCE v2 (default infiniband)
//   SOFTHCA_GPU_DIRECT=LIST     the ways in which the HCA takes device memory, out of dmabuf
//                               (ibv_reg_dmabuf_mr) and peermem (ibv_reg_mr on a device address),
//                               separated by a comma; "none" for neither (default dmabuf,peermem)
//   SOFTHCA_MEMLOCK=MODE        kernel: RLIMIT_MEMLOCK limits the registered host memory, except
//                               for a process with CAP_IPC_LOCK, as the kernel has it;
//                               enforce: also for such a process (default kernel)
//   SOFTHCA_DEVICE_COPY=WAY     alias: the memory of the emulated GPU is copied through its alias,
//                               that of a real one by the CUDA driver; driver: all by the driver
//                               (default alias)
#pragma once

#include <string>

namespace softhca {

struct Config {
    std::string fabric = "default";
    unsigned devices = 1;
    bool ethernet = false;
    bool dmabuf = true;
    bool peermem = true;
    bool memlock_enforced = false;
    bool copy_by_driver = false;
};

const Config& config();

} // namespace softhca
