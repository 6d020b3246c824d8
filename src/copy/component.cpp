// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The component's calls.

#include "copy/component.hpp"

#include "copy/iface.hpp"
#include "copy/memory_domain.hpp"
#include "cuda/driver.hpp"
#include "log/log.hpp"
#include "streams/iface.hpp"

namespace gdr::copy {

namespace {

constexpr char kName[] = "gdr_cuda"; // of the component and of its memory domain

std::vector<std::string> query_md_resources()
{
    if (cuda::open_driver() != nullptr) {
        return {kName};
    }
    gdr_log(info, "no CUDA memory domain: %s", cuda::unavailable_reason().c_str());
    return {};
}

std::unique_ptr<abi::MemoryDomain> open_md(const char*, const abi::MdConfig* config)
{
    auto* ours = reinterpret_cast<const MdConfig*>(config);
    return std::make_unique<MemoryDomain>(streams::require_driver(), ours->pin_host != 0);
}

// Remote keys are empty.
ucs_status_t unpack_rkey(const void*, uct_rkey_t* rkey, void** handle)
{
    *rkey = 0;
    *handle = nullptr;
    return UCS_OK;
}

void release_rkey(uct_rkey_t, void*) {}

} // namespace

const abi::Component& component()
{
    static const abi::Component instance = {
        .name = kName,
        .query_md_resources = query_md_resources,
        .open_md = open_md,
        .unpack_rkey = unpack_rkey,
        .release_rkey = release_rkey,
        .md_options = md_options(),
        .transports = {transport()},
    };
    return instance;
}

} // namespace gdr::copy
