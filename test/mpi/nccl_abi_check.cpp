// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Compiled by nccl_abi_test.sh, where it is right: src/mpi/nccl/abi.hpp, which the layer uses
// without a nccl.h, against a nccl.h.
#include "mpi/nccl/abi.hpp"

#include <cstddef>
#include <type_traits>

#include <nccl.h>

namespace {

namespace own = gdr::nccl;

template <typename Declared, typename Real>
constexpr bool same(Declared declared, Real real)
{
    return sizeof(Declared) == sizeof(Real) && static_cast<int>(declared) == static_cast<int>(real);
}

static_assert(same(own::Result::success, ncclSuccess));
static_assert(same(own::Result::unhandled_cuda_error, ncclUnhandledCudaError));
static_assert(same(own::Result::system_error, ncclSystemError));
static_assert(same(own::Result::internal_error, ncclInternalError));
static_assert(same(own::Result::invalid_argument, ncclInvalidArgument));
static_assert(same(own::Result::invalid_usage, ncclInvalidUsage));
static_assert(same(own::Result::remote_error, ncclRemoteError));
static_assert(same(own::Result::in_progress, ncclInProgress));

static_assert(same(own::Type::int8, ncclInt8));
static_assert(same(own::Type::uint8, ncclUint8));
static_assert(same(own::Type::int32, ncclInt32));
static_assert(same(own::Type::uint32, ncclUint32));
static_assert(same(own::Type::int64, ncclInt64));
static_assert(same(own::Type::uint64, ncclUint64));
static_assert(same(own::Type::float32, ncclFloat32));
static_assert(same(own::Type::float64, ncclFloat64));

static_assert(same(own::Operation::sum, ncclSum));
static_assert(same(own::Operation::prod, ncclProd));
static_assert(same(own::Operation::max, ncclMax));
static_assert(same(own::Operation::min, ncclMin));

static_assert(sizeof(own::UniqueId) == sizeof(ncclUniqueId));
constexpr ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
static_assert(own::Config().magic == kConfig.magic);
static_assert(own::kOldest == NCCL_VERSION(2, 14, 0));
static_assert(NCCL_VERSION_CODE >= own::kOldest);

// The beginning of a structure that grows.
static_assert(offsetof(own::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(own::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(own::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(own::Config, blocking) == offsetof(ncclConfig_t, blocking));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 17, 0)
static_assert(offsetof(own::Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(own::Config().cga_cluster_size == kConfig.cgaClusterSize);
#endif
static_assert(sizeof(own::Config) <= sizeof(ncclConfig_t));

// Each parameter passes as the real one does: as a pointer, or in as many bytes.
template <typename Declared, typename Real>
constexpr bool
    passes = sizeof(Declared) == sizeof(Real) &&
             std::is_pointer_v<Declared> == std::is_pointer_v<Real>&& std::is_class_v<Declared> ==
                 std::is_class_v<Real>;

template <typename Declared, typename Real>
constexpr bool fits = false;
template <typename... Declared, typename... Real>
requires(
    sizeof...(Declared) ==
    sizeof...(Real)) constexpr bool fits<own::Result (*)(Declared...), ncclResult_t (*)(Real...)> =
    (passes<Declared, Real> && ...);

namespace functions {
using namespace own;
#define GDR_NCCL_CHECK(name, parameters)                                                           \
    static_assert(fits<Result(*) parameters, decltype(&::nccl##name)>, #name);
GDR_NCCL_FUNCTIONS(GDR_NCCL_CHECK)
#undef GDR_NCCL_CHECK
} // namespace functions

static_assert(std::is_same_v<decltype(&ncclGetErrorString), const char* (*)(ncclResult_t)>);
static_assert(std::is_same_v<decltype(&ncclGetLastError), const char* (*)(ncclComm_t)>);

} // namespace
