// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The exported verbs that take an object and that this device does not offer: libibverbs' own
// would look for a kernel behind objects that are not its own.
#include "emu/softhca/verbs_abi.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/device.hpp"
#include "emu/softhca/objects.hpp"

#include <cerrno>
#include <cstddef>

#include <sys/types.h>

namespace {

int refuse()
{
    errno = EOPNOTSUPP;
    return EOPNOTSUPP;
}

template <class Object>
Object* refuse_object()
{
    errno = EOPNOTSUPP;
    return nullptr;
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

ibv_context* ibv_import_device(int)
{
    return refuse_object<ibv_context>();
}
ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t)
{
    return refuse_object<ibv_pd>();
}
void ibv_unimport_pd(ibv_pd*) {}
ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t)
{
    return refuse_object<ibv_mr>();
}
void ibv_unimport_mr(ibv_mr*) {}
ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t)
{
    return refuse_object<ibv_dm>();
}
void ibv_unimport_dm(ibv_dm*) {}

int ibv_set_ece(ibv_qp*, ibv_ece*)
{
    return refuse();
}
int ibv_query_ece(ibv_qp*, ibv_ece*)
{
    return refuse();
}

// The order in which bytes of a message arrive is not promised.
int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t)
{
    return 0;
}

// Verbs of later releases. The header need not declare them, and if it does, with types that an
// earlier one lacks: hence a name of our own for the compiler.
#define REFUSED_NUMBER(name)                                                                       \
    int refused_##name() __asm__(#name);                                                           \
    int refused_##name()                                                                           \
    {                                                                                              \
        return refuse();                                                                           \
    }
#define REFUSED_OBJECT(name)                                                                       \
    void* refused_##name() __asm__(#name);                                                         \
    void* refused_##name()                                                                         \
    {                                                                                              \
        return refuse_object<void>();                                                              \
    }
REFUSED_NUMBER(_ibv_query_comp_cntr_caps)
REFUSED_NUMBER(ibv_qp_attach_comp_cntr)
REFUSED_NUMBER(ibv_query_port_speed)
REFUSED_OBJECT(ibv_alloc_dmah)
REFUSED_OBJECT(ibv_create_comp_cntr)

int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*, std::uint16_t*)
{
    return refuse();
}

// Private to libibverbs, but imported by some programs. Types: 0 InfiniBand or RoCE v1, 1 RoCE v2.
int ibv_query_gid_type(ibv_context* context, std::uint8_t, unsigned, int* type)
{
    *type = softhca::profile_of(softhca::context_of(context).device).ethernet ? 1 : 0;
    return 0;
}

// The emulated devices have no files in sysfs.
int ibv_read_sysfs_file(const char*, const char*, char*, std::size_t)
{
    errno = ENOENT;
    return -1;
}
int ibv_read_ibdev_sysfs_file(char*, std::size_t, ibv_device*, const char*, ...)
{
    errno = ENOENT;
    return -1;
}
const char* ibv_get_sysfs_path()
{
    return softhca::sysfs_path();
}

} // extern "C"
#pragma GCC visibility pop
