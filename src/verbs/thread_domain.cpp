// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creates a thread domain and the parent domain that joins it with a protection domain.
#include "verbs/thread_domain.hpp"

#include "verbs/error.hpp"

#include <cerrno>

namespace gdr::verbs {

ThreadDomain::ThreadDomain(ibv_pd* protection)
{
    ibv_td_init_attr thread{};
    thread_.reset(ibv_alloc_td(protection->context, &thread));
    if (!thread_) {
        throw Error("ibv_alloc_td", errno);
    }
    ibv_parent_domain_init_attr parent{};
    parent.pd = protection;
    parent.td = thread_.get();
    parent_.reset(ibv_alloc_parent_domain(protection->context, &parent));
    if (!parent_) {
        throw Error("ibv_alloc_parent_domain", errno);
    }
}

} // namespace gdr::verbs
