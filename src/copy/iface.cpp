// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT calls of the copy interface and its endpoints. An interface reaches only itself, and an
// endpoint has no state: both sides of each copy are addresses of this process.

#include "copy/iface.hpp"

#include "abi/border.hpp"
#include "copy/address.hpp"
#include "copy/engine.hpp"
#include "copy/mapped_memory.hpp"
#include "copy/performance.hpp"
#include "copy/settings.hpp"
#include "log/log.hpp"
#include "streams/iface.hpp"

#include <climits>
#include <cstring>
#include <utility>

namespace gdr::copy {

namespace {

constexpr char kDeviceName[] = "cuda";
constexpr size_t kMaxIov = 16; // no limit of ours; callers keep arrays of this length

struct Iface : streams::Iface {
    Engine engine;
    std::unique_ptr<MappedMemory> mapped; // NULL: gdrcopy is not used
    stats::Counts by_cpu;                 // copies through mapped
    Address address;

    Iface(const cuda::Driver& driver, std::unique_ptr<MappedMemory> mapped_memory,
          const Address& unique)
        : streams::Iface(driver), engine(driver, operations), mapped(std::move(mapped_memory)),
          address(unique)
    {
    }
};

struct Ep : abi::Ep {};

Iface* iface_of(uct_iface_h handle)
{
    return reinterpret_cast<Iface*>(handle);
}
Engine& engine_of(uct_ep_h ep)
{
    return iface_of(ep->iface)->engine;
}

ucs_status_t start(uct_ep_h ep, Direction direction, const uct_iov_t* iov, size_t iovcnt,
                   uint64_t remote, uct_completion_t* completion)
{
    Iface* iface = iface_of(ep->iface);
    return streams::started(iface, [&] {
        iface->engine.start(direction, {iov, iovcnt}, reinterpret_cast<void*>(remote), completion);
    });
}

// ---- endpoint

ucs_status_t put_short(uct_ep_h ep, const void* buffer, unsigned length, uint64_t remote,
                       uct_rkey_t)
{
    return streams::guarded("copy: put_short", [&] {
        engine_of(ep).copy_now(reinterpret_cast<void*>(remote), buffer, length);
        return UCS_OK;
    });
}

ucs_status_t get_short(uct_ep_h ep, void* buffer, unsigned length, uint64_t remote, uct_rkey_t)
{
    return streams::guarded("copy: get_short", [&] {
        engine_of(ep).copy_now(buffer, reinterpret_cast<const void*>(remote), length);
        return UCS_OK;
    });
}

// Short operations if device memory can be mapped.

ucs_status_t count_by_cpu(Iface& iface, size_t length)
{
    ++iface.by_cpu.staged_ops;
    iface.by_cpu.staged_bytes += length;
    return UCS_OK;
}

ucs_status_t put_short_mapped(uct_ep_h ep, const void* buffer, unsigned length, uint64_t remote,
                              uct_rkey_t)
{
    return streams::guarded("copy: put_short", [&] {
        Iface& iface = *iface_of(ep->iface);
        auto* device = reinterpret_cast<void*>(remote);
        if (iface.mapped->put(device, buffer, length)) {
            return count_by_cpu(iface, length);
        }
        iface.engine.copy_now(device, buffer, length);
        return UCS_OK;
    });
}

ucs_status_t get_short_mapped(uct_ep_h ep, void* buffer, unsigned length, uint64_t remote,
                              uct_rkey_t)
{
    return streams::guarded("copy: get_short", [&] {
        Iface& iface = *iface_of(ep->iface);
        const auto* device = reinterpret_cast<const void*>(remote);
        if (iface.mapped->get(buffer, device, length)) {
            return count_by_cpu(iface, length);
        }
        iface.engine.copy_now(buffer, device, length);
        return UCS_OK;
    });
}

ucs_status_t put_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote,
                       uct_rkey_t, uct_completion_t* completion)
{
    return streams::guarded("copy: put_zcopy", [&] {
        return start(ep, Direction::put, iov, iovcnt, remote, completion);
    });
}

ucs_status_t get_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote,
                       uct_rkey_t, uct_completion_t* completion)
{
    return streams::guarded("copy: get_zcopy", [&] {
        return start(ep, Direction::get, iov, iovcnt, remote, completion);
    });
}

ucs_status_t ep_create(const uct_ep_params_t* params, uct_ep_h* handle)
{
    if (!streams::names_peer(*params)) {
        return UCS_ERR_INVALID_PARAM;
    }
    return abi::guarded("copy: ep_create", [&] {
        Iface* iface = iface_of(params->iface);
        if (!same_address(iface->address, params->iface_addr)) {
            return UCS_ERR_UNREACHABLE;
        }
        return streams::hand_over(std::make_unique<Ep>(), iface, handle);
    });
}

// ---- interface

ucs_status_t iface_query(uct_iface_h handle, uct_iface_attr_t* attr)
{
    streams::query(iface_of(handle),
                   {.address_length = sizeof(Address),
                    .most_pieces = kMaxIov,
                    .reads = true,
                    .cost = typical_estimate()},
                   attr);
    attr->cap.flags |= UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_GET_SHORT;
    attr->cap.put.max_short = attr->cap.get.max_short = UINT_MAX;
    attr->cap.am.opt_zcopy_align = attr->cap.am.align_mtu = 1;
    return UCS_OK;
}

int is_reachable(const uct_iface_h iface, const uct_device_addr_t*, const uct_iface_addr_t* address)
{
    return same_address(iface_of(iface)->address, address);
}

void iface_close(uct_iface_h handle)
{
    Iface* iface = iface_of(handle);
    stats::statistics().add(iface->engine.counts());
    stats::statistics().add(iface->by_cpu);
    streams::close(iface);
}

uct_iface_ops_t iface_ops()
{
    uct_iface_ops_t ops = {};
    streams::set_operations(ops);
    ops.ep_put_short = put_short;
    ops.ep_get_short = get_short;
    ops.ep_put_zcopy = put_zcopy;
    ops.ep_get_zcopy = get_zcopy;
    ops.ep_create = ep_create;
    ops.ep_destroy = streams::close_ep<Ep>;
    ops.iface_close = iface_close;
    ops.iface_query = iface_query;
    ops.iface_get_address = streams::get_address<Iface>;
    ops.iface_is_reachable = is_reachable;
    return ops;
}

uct_iface_ops_t mapped_iface_ops()
{
    uct_iface_ops_t ops = iface_ops();
    ops.ep_put_short = put_short_mapped;
    ops.ep_get_short = get_short_mapped;
    return ops;
}

constexpr abi::InternalOps kInternalOps = {
    .estimate_perf =
        [](uct_iface_h iface, const abi::PerfQuery& query) {
            return estimate(query, iface_of(iface)->mapped != nullptr);
        },
    .ep_invalidate = [](uct_ep_h) { return UCS_ERR_UNSUPPORTED; }, // no peer that could fail
    .ep_is_connected = [](uct_ep_h ep, const uct_device_addr_t* device,
                          const uct_iface_addr_t* iface) -> bool {
        return is_reachable(ep->iface, device, iface);
    },
    .device_address_size = 0,
};

// Logs once whether gdrcopy makes small copies.
std::unique_ptr<MappedMemory> open_mapped(const cuda::Driver& driver, const Settings& settings)
{
    std::string why_not = "UCX_GDR_COPY_GDRCOPY is n";
    std::unique_ptr<MappedMemory> mapped;
    if (settings.gdrcopy != 0) {
        mapped = MappedMemory::open(driver, settings.gdrcopy_max_get, &why_not);
    }
    static std::atomic<bool> logged{false};
    if (!logged.exchange(true)) {
        if (mapped) {
            gdr_log(info, "gdrcopy used: small copies to and from GPU memory are the CPU's");
        } else {
            gdr_log(info, "gdrcopy not used: %s", why_not.c_str());
        }
    }
    return mapped;
}

ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config, uct_iface_h* handle)
{
    static uct_iface_ops_t ops = iface_ops();
    static uct_iface_ops_t mapped_ops = mapped_iface_ops();
    // Up to 1.15, UCX's perftest names the device without setting the field mask.
    if ((params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE) == 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (strcmp(params->mode.device.dev_name, kDeviceName) != 0) {
        gdr_log(error, "copy: no device %s: the only one is %s", params->mode.device.dev_name,
                kDeviceName);
        return UCS_ERR_NO_DEVICE;
    }
    const cuda::Driver* driver = streams::driver_for("copy");
    if (driver == nullptr) {
        return UCS_ERR_NO_DEVICE;
    }
    return abi::guarded("copy: open", [&] {
        auto iface = std::make_unique<Iface>(
            *driver, open_mapped(*driver, *reinterpret_cast<const Settings*>(config)),
            make_address());
        uct_iface_ops_t* const calls = iface->mapped ? &mapped_ops : &ops;
        return streams::hand_over(std::move(iface), calls, &kInternalOps, md, worker, params,
                                  config, handle);
    });
}

// One device serves the memory of all GPUs; only the address tells which GPU it is.
std::vector<abi::Device> query_devices(abi::MemoryDomain&)
{
    return {{kDeviceName, UCT_DEVICE_TYPE_ACC, UCS_SYS_DEVICE_ID_UNKNOWN}};
}

} // namespace

abi::Transport transport()
{
    return {.name = "gdr",
            .query_devices = query_devices,
            .iface_open = iface_open,
            .options = iface_options()};
}

} // namespace gdr::copy
