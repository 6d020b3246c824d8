// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The table of providers.
#include "doctor/reader/providers.hpp"

namespace gdr::doctor {
namespace {

constexpr const char* kNoDmabuf =
    "it takes no dmabuf: GPU memory goes by nvidia-peermem, or is staged";
constexpr const char* kIwarp = "it speaks iWARP, which has no UD queue pairs";
constexpr const char* kNoUd = "it has no UD queue pairs for programs";
constexpr const char* kTcp = "UCX_TLS=tcp";

constexpr Provider kProviders[] = {
    {"mlx5_core", "mlx5", true, nullptr, nullptr},
    {"mlx4_core", "mlx4", true, kNoDmabuf, nullptr},
    {"bnxt_en", "bnxt_re", true, nullptr, nullptr},
    {"ice", "irdma", true, "it has no shared receive queues: each connection takes more memory",
     nullptr},
    {"idpf", "irdma", true, nullptr, nullptr},
    {"i40e", "irdma", false, kIwarp, kTcp},
    {"ionic", "ionic", true, "it has no shared receive queues: each connection takes more memory",
     nullptr},
    {"hns3", "hns", true, kNoDmabuf, nullptr},
    {"hfi1", "hfi1", true, kNoDmabuf, nullptr},
    {"ib_qib", "qib", true, kNoDmabuf, nullptr},
    {"vmw_pvrdma", "vmw_pvrdma", true, kNoDmabuf, nullptr},
    {"rdma_rxe", "rxe", true, "Soft-RoCE is made by the CPU: GPU memory is staged", nullptr},
    {"be2net", "ocrdma", true, kNoDmabuf, nullptr},
    {"ib_mthca", "mthca", true, kNoDmabuf, nullptr},
    {"efa", "efa", false, "it has no RC queue pairs",
     "UCX_TLS=srd of UCX 1.19 and later, or libfabric"},
    {"mana", "mana", false, kNoUd, "the InfiniBand HCAs of the same machine, or UCX_TLS=tcp"},
    {"erdma", "erdma", false, "it makes no address handles", kTcp},
    {"qede", "qedr", false, kNoUd, "UCX_TLS=rc_verbs,tcp, staged"},
    {"siw", "siw", false, kIwarp, kTcp},
    {"cxgb4", "cxgb4", false, kIwarp, kTcp},
    {"enic", "usnic", false, "it has datagrams alone", kTcp},
};

} // namespace

const Provider* provider_of_driver(const std::string& driver)
{
    for (const Provider& provider : kProviders) {
        if (driver == provider.driver) {
            return &provider;
        }
    }
    return nullptr;
}

const Provider* provider_of_device(const std::string& name)
{
    for (const char* software : {"rxe", "siw"}) {
        if (name.starts_with(software)) {
            return provider_of_driver(name.starts_with("rxe") ? "rdma_rxe" : software);
        }
    }
    return nullptr;
}

} // namespace gdr::doctor
