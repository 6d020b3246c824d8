// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The component without a device.
#include "toy_component.hpp"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

namespace toy {

using namespace gdr::abi;

Calls calls;
std::array<std::byte, 4096> detected;
uct_completion_t** unfinished_invalidation;
std::string throw_next;

namespace {

constexpr char kMagic[4] = {'t', 'o', 'y', '1'};

void maybe_throw()
{
    if (!throw_next.empty()) {
        throw std::runtime_error(std::exchange(throw_next, {}));
    }
}

struct Memory {
    void* address;
    size_t length;
};

class Domain : public MemoryDomain {
  public:
    Domain() { ++calls.open_domains; }
    ~Domain() override { --calls.open_domains; }

    MdAttributes attributes() const override
    {
        MdAttributes attributes;
        attributes.flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY;
        attributes.reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
        attributes.access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
        attributes.detect_mem_types = UCS_BIT(UCS_MEMORY_TYPE_CUDA_MANAGED);
        attributes.max_reg = 1 << 20;
        attributes.rkey_packed_size = kRkeySize;
        attributes.reg_cost_base = 1e-6;
        attributes.reg_cost_per_byte = 1e-9;
        return attributes;
    }

    ucs_status_t reg(void* address, size_t length, Registration asked, uct_mem_h* memh) override
    {
        maybe_throw();
        ++calls.reg;
        calls.hidden_reg += asked.hide_errors;
        calls.local_reg += asked.local;
        *memh = new Memory{address, length};
        return UCS_OK;
    }

    ucs_status_t dereg(uct_mem_h memh, uct_completion_t* invalidated) override
    {
        ++calls.dereg;
        delete static_cast<Memory*>(memh);
        if (invalidated) {
            ++calls.invalidated;
            if (unfinished_invalidation) {
                *unfinished_invalidation = invalidated;
            } else if (--invalidated->count == 0) {
                invalidated->func(invalidated);
            }
        }
        return UCS_OK;
    }

    ucs_status_t pack_rkey(uct_mem_h memh, const void*, size_t, void* buffer) override
    {
        std::memcpy(buffer, kMagic, sizeof(kMagic));
        std::memcpy(static_cast<char*>(buffer) + sizeof(kMagic), &memh, sizeof(memh));
        return UCS_OK;
    }

    std::optional<MemoryInfo> query(const void* address, size_t) override
    {
        const auto* byte = static_cast<const std::byte*>(address);
        if (byte < detected.data() || byte >= detected.data() + detected.size()) {
            return std::nullopt;
        }
        return MemoryInfo{UCS_MEMORY_TYPE_CUDA_MANAGED, 7, detected.data(), detected.size()};
    }
};

// ---- interface

ucs_status_t unsupported()
{
    return UCS_ERR_UNSUPPORTED;
}

template <class Function>
Function refused()
{
    return reinterpret_cast<Function>(reinterpret_cast<void*>(unsupported));
}

ucs_status_t iface_query(uct_iface_h tl_iface, uct_iface_attr_t* attr)
{
    begin_iface_query(reinterpret_cast<Iface*>(tl_iface), attr);
    attr->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE;
    attr->overhead = 1e-6;
    return UCS_OK;
}

void iface_close(uct_iface_h tl_iface)
{
    auto* iface = reinterpret_cast<Iface*>(tl_iface);
    cleanup_iface(iface);
    delete iface;
}

int is_reachable(const uct_iface_h, const uct_device_addr_t*, const uct_iface_addr_t*)
{
    return 0;
}

unsigned progress(uct_iface_h)
{
    return 0;
}

ucs_status_t ep_create(const uct_ep_params_t* params, uct_ep_h* ep)
{
    auto created = std::make_unique<Ep>();
    const ucs_status_t status = init_ep(created.get(), reinterpret_cast<Iface*>(params->iface));
    if (status == UCS_OK) {
        *ep = &created.release()->super;
    }
    return status;
}

void ep_destroy(uct_ep_h tl_ep)
{
    auto* ep = reinterpret_cast<Ep*>(tl_ep);
    cleanup_ep(ep);
    delete ep;
}

// The way in for the test of handle_ep_error: the "check" of an endpoint fails it.
ucs_status_t ep_check(uct_ep_h tl_ep, unsigned, uct_completion_t*)
{
    return handle_ep_error(reinterpret_cast<Iface*>(tl_ep->iface), reinterpret_cast<Ep*>(tl_ep),
                           UCS_ERR_ENDPOINT_TIMEOUT);
}

uct_iface_ops_t make_ops()
{
    uct_iface_ops_t ops{};
    ops.ep_flush = refused<decltype(ops.ep_flush)>();
    ops.ep_fence = refused<decltype(ops.ep_fence)>();
    ops.ep_check = ep_check;
    ops.ep_create = ep_create;
    ops.ep_destroy = ep_destroy;
    ops.iface_flush = refused<decltype(ops.iface_flush)>();
    ops.iface_fence = refused<decltype(ops.iface_fence)>();
    ops.iface_progress_enable = [](uct_iface_h, unsigned) {};
    ops.iface_progress_disable = [](uct_iface_h, unsigned) {};
    ops.iface_progress = progress;
    ops.iface_close = iface_close;
    ops.iface_query = iface_query;
    ops.iface_get_device_address = refused<decltype(ops.iface_get_device_address)>();
    ops.iface_is_reachable = is_reachable;
    return ops;
}

PerfEstimate estimate_perf(uct_iface_h, const PerfQuery& query)
{
    calls.operation = query.operation;
    PerfEstimate estimate{};
    estimate.send_pre_overhead = 1e-7;
    estimate.bandwidth_dedicated = query.local_memory_type == UCS_MEMORY_TYPE_CUDA ? 2e9 : 1e9;
    estimate.latency = 3e-6;
    estimate.max_inflight_eps = 17;
    return estimate;
}

ucs_status_t ep_invalidate(uct_ep_h)
{
    return UCS_OK;
}

bool ep_is_connected(uct_ep_h, const uct_device_addr_t*, const uct_iface_addr_t*)
{
    return false;
}

constexpr InternalOps kInternalOps{estimate_perf, ep_invalidate, ep_is_connected, 0};

ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config, uct_iface_h* iface)
{
    static uct_iface_ops_t ops = make_ops();
    calls.config = *reinterpret_cast<const IfaceConfig*>(config);
    auto opened = std::make_unique<Iface>();
    const ucs_status_t status =
        init_iface(opened.get(), &ops, &kInternalOps, md, worker, params, config);
    if (status == UCS_OK) {
        *iface = &opened.release()->super;
    }
    return status;
}

// ---- component

std::unique_ptr<MemoryDomain> open_md(const char*, const gdr::abi::MdConfig* config)
{
    const char* refuse = reinterpret_cast<const toy::MdConfig*>(config)->refuse;
    if (*refuse) {
        throw std::runtime_error(refuse);
    }
    return std::make_unique<Domain>();
}

ucs_status_t unpack_rkey(const void* buffer, uct_rkey_t* rkey, void** handle)
{
    if (std::memcmp(buffer, kMagic, sizeof(kMagic)) != 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    std::memcpy(handle, static_cast<const char*>(buffer) + sizeof(kMagic), sizeof(*handle));
    *rkey = reinterpret_cast<uct_rkey_t>(*handle);
    return UCS_OK;
}

const char* const kModes[] = {"slow", "fast", nullptr};

} // namespace

const Component& component()
{
    static const Component toy{
        .name = "toy",
        .query_md_resources = [] { return std::vector<std::string>{"toy"}; },
        .open_md = open_md,
        .unpack_rkey = unpack_rkey,
        .release_rkey = [](uct_rkey_t, void*) { ++calls.released_rkeys; },
        .md_options = {"toy memory domain",
                       "TOY_MD_",
                       {{"REFUSE", "", "Why the domain cannot be opened.",
                         offsetof(toy::MdConfig, refuse), OptionType::string}},
                       sizeof(toy::MdConfig)},
        .transports = {{.name = "toy",
                        .query_devices =
                            [](MemoryDomain&) {
                                return std::vector<Device>{
                                    {"toy0", UCT_DEVICE_TYPE_SELF, UCS_SYS_DEVICE_ID_UNKNOWN}};
                            },
                        .iface_open = iface_open,
                        .options = {"toy transport",
                                    "TOY_",
                                    {{"DEPTH", "5", "A number.", offsetof(IfaceConfig, depth),
                                      OptionType::unsigned_int},
                                     {"SEGMENT", "8k", "A size.", offsetof(IfaceConfig, segment),
                                      OptionType::memory_size},
                                     {"TIMEOUT", "10ms", "A time.", offsetof(IfaceConfig, timeout),
                                      OptionType::duration},
                                     {"ENABLE", "y", "A switch.", offsetof(IfaceConfig, enable),
                                      OptionType::boolean},
                                     {"PATHS", "auto", "A number or auto.",
                                      offsetof(IfaceConfig, paths), OptionType::auto_ulong},
                                     {"MODE", "fast", "A choice.", offsetof(IfaceConfig, mode),
                                      OptionType::choice, kModes}},
                                    sizeof(IfaceConfig)}}}};
    return toy;
}

} // namespace toy
