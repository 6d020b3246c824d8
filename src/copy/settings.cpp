// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Names, defaults and help texts of UCX_GDR_COPY_*.
#include "copy/settings.hpp"

namespace gdr::copy {

abi::OptionTable iface_options()
{
    return {.name = "gdr CUDA copy",
            .prefix = "GDR_COPY_",
            .options = {{"GDRCOPY", "y",
                         "Copy small messages to and from GPU memory with the CPU, through gdrcopy "
                         "(libgdrapi.so.2),\n"
                         "where it is installed. n: CUDA copies them.",
                         offsetof(Settings, gdrcopy), abi::OptionType::boolean},
                        {"GDRCOPY_MAX_GET", "256",
                         "Bytes up to which the CPU reads GPU memory through gdrcopy, which is "
                         "slow: CUDA copies\n"
                         "longer ones. 0: the CPU reads none.",
                         offsetof(Settings, gdrcopy_max_get), abi::OptionType::memory_size}},
            .size = sizeof(Settings)};
}

} // namespace gdr::copy
