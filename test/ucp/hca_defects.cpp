// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Preloaded before softhca: its HCAs with a defect that HCA_DEFECT names: "forbidden" (the device
// cannot be opened), "absent" (its file is missing), "no_gid", "no_pkey", "no_srq" or "iwarp".
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <infiniband/verbs.h>

namespace {

bool has(std::string_view defect)
{
    const char* value = std::getenv("HCA_DEFECT");
    return value != nullptr && value == defect;
}

template <class Function>
Function next(const char* name)
{
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

} // namespace

#pragma GCC visibility push(default)
#undef ibv_get_device_list // macros where static providers are possible

extern "C" ibv_device** ibv_get_device_list(int* count)
{
    int number = 0;
    ibv_device** list = next<ibv_device** (*)(int*)>("ibv_get_device_list")(&number);
    for (int i = 0; has("iwarp") && list != nullptr && i < number; ++i)
        list[i]->transport_type = IBV_TRANSPORT_IWARP;
    if (count != nullptr)
        *count = number;
    return list;
}

extern "C" ibv_context* ibv_open_device(ibv_device* device)
{
    if (has("forbidden") || has("absent")) {
        errno = has("absent") ? ENOENT : EACCES;
        return nullptr;
    }
    return next<ibv_context* (*)(ibv_device*)>("ibv_open_device")(device);
}

extern "C" int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid)
{
    if (has("no_gid")) {
        std::memset(gid, 0, sizeof(*gid));
        return 0;
    }
    return next<int (*)(ibv_context*, uint8_t, int, ibv_gid*)>("ibv_query_gid")(context, port,
                                                                                index, gid);
}

extern "C" int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                                 ibv_gid_entry* entry, uint32_t flags, size_t size)
{
    if (has("no_gid"))
        return ENODATA;
    using Query = int (*)(ibv_context*, uint32_t, uint32_t, ibv_gid_entry*, uint32_t, size_t);
    return next<Query>("_ibv_query_gid_ex")(context, port, index, entry, flags, size);
}

extern "C" int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey)
{
    if (has("no_pkey")) { // an empty entry of the table
        *pkey = 0;
        return 0;
    }
    return next<int (*)(ibv_context*, uint8_t, int, __be16*)>("ibv_query_pkey")(context, port,
                                                                                index, pkey);
}

extern "C" int ibv_query_device(ibv_context* context, ibv_device_attr* attributes)
{
    const int error =
        next<int (*)(ibv_context*, ibv_device_attr*)>("ibv_query_device")(context, attributes);
    if (has("no_srq"))
        attributes->max_srq = attributes->max_srq_wr = attributes->max_srq_sge = 0;
    return error;
}

extern "C" ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes)
{
    if (has("no_srq")) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    return next<ibv_srq* (*)(ibv_pd*, ibv_srq_init_attr*)>("ibv_create_srq")(pd, attributes);
}

#pragma GCC visibility pop
