// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The component's calls.
#include "ipc/component.hpp"

#include "abi/host.hpp"
#include "abi/settings.hpp"
#include "cuda/driver.hpp"
#include "ipc/iface.hpp"
#include "ipc/memory_domain.hpp"

#include <stdexcept>

namespace gdr::ipc {

namespace {

constexpr char kName[] = "gdr_ipc"; // of the component and of its memory domain

std::vector<std::string> query_md_resources()
{
    if (cuda::driver() == nullptr || !abi::boolean_setting(kSwitch, true))
        return {};
    return {kName};
}

std::unique_ptr<abi::MemoryDomain> open_md(const char*, const abi::MdConfig* config)
{
    const cuda::Driver* driver = cuda::driver();
    if (driver == nullptr)
        throw std::runtime_error(cuda::unavailable_reason());
    return std::make_unique<MemoryDomain>(*driver, *reinterpret_cast<const MdSettings*>(config));
}

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

} // namespace gdr::ipc
