// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Protection domains, thread domains, and parent domains, which join one of each: a thread domain
// promises that its objects are not used concurrently, which is checked here.
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"

namespace softhca {
namespace {

struct Td {
    ibv_td base;
    std::atomic<unsigned> children{0};
};

} // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init)
{
    if (init->comp_mask != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    Td* td = is_stale(context) ? nullptr : new (std::nothrow) Td{{context}};
    if (td == nullptr) {
        errno = is_stale(context) ? EINVAL : ENOMEM;
        return nullptr;
    }
    context_of(context).children.fetch_add(1);
    return &td->base;
}

int dealloc_td(ibv_td* td)
{
    if (object_of<Td>(td).children.load() != 0) {
        return EBUSY;
    }
    context_of(td->context).children.fetch_sub(1);
    delete &object_of<Td>(td);
    return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init)
{
    // Queues lie in memory that other processes reach: it cannot be the application's.
    if ((init->comp_mask & ~std::uint32_t{IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT}) != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if (init->pd == nullptr || object_of<Pd>(init->pd).is_parent_domain()) {
        errno = EINVAL;
        return nullptr;
    }
    ibv_pd* base = alloc_pd(context);
    if (base == nullptr) {
        return nullptr;
    }
    Pd& pd = object_of<Pd>(base);
    pd.protection = &object_of<Pd>(init->pd);
    pd.thread = init->td;
    pd.id = pd.protection->id;
    pd.protection->children.fetch_add(1);
    if (pd.thread != nullptr) {
        object_of<Td>(pd.thread).children.fetch_add(1);
    }
    return base;
}

ibv_pd* alloc_pd(ibv_context* context)
{
    static std::atomic<std::uint32_t> next_id{1};
    if (is_stale(context)) {
        errno = EINVAL;
        return nullptr;
    }
    Pd* pd = new (std::nothrow) Pd{};
    if (pd == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    pd->id = next_id.fetch_add(1);
    pd->base = {context, pd->id};
    context_of(context).children.fetch_add(1);
    return &pd->base;
}

int dealloc_pd(ibv_pd* base)
{
    Pd& pd = object_of<Pd>(base);
    if (pd.children.load() != 0) {
        return EBUSY;
    }
    if (pd.is_parent_domain()) {
        pd.protection->children.fetch_sub(1);
    }
    if (pd.thread != nullptr) {
        object_of<Td>(pd.thread).children.fetch_sub(1);
    }
    context_of(base->context).children.fetch_sub(1);
    delete &pd;
    return 0;
}

} // namespace softhca
