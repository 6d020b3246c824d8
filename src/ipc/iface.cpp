// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT calls of the IPC interface and its endpoints. Copies run on streams of the local buffer's
// GPU, which accesses the remote memory through a mapping: this process has no context on the
// remote GPU.

#include "ipc/iface.hpp"

#include "abi/border.hpp"
#include "cuda/readable.hpp"
#include "cuda/recent.hpp"
#include "cuda/relaxed_capture.hpp"
#include "ipc/address.hpp"
#include "ipc/performance.hpp"
#include "ipc/remote_memory.hpp"
#include "ipc/settings.hpp"
#include "log/log.hpp"
#include "stats/statistics.hpp"
#include "streams/iface.hpp"

#include <optional>
#include <utility>

namespace gdr::ipc {

namespace {

constexpr char kDeviceName[] = "ipc";

// Copies from and to different peers run in parallel, on this many streams in each direction.
constexpr size_t kStreamsEachWay = 4;

struct Iface : streams::Iface {
    const cuda::Driver& driver;
    Address address;
    const IfaceSettings settings;
    // Finding out how GPUs are linked takes tens of ms. Protocols v1 read the cost only once.
    const bool protocols_v2;
    stats::Counts counts;
    size_t endpoints = 0; // created so far

    Iface(const cuda::Driver& cuda, const IfaceSettings& set, bool v2)
        : streams::Iface(cuda), driver(cuda), address(make_address()), settings(set),
          protocols_v2(v2)
    {
    }

    // Until the program has initialised CUDA, and thus before UCP chooses how to send GPU memory,
    // assumes the best links.
    Cost cost() const
    {
        const bool untouched = protocols_v2 && cuda::initialised_driver() == nullptr;
        Cost cost{settings.overhead, settings.latency,
                  untouched ? kBestLinks : worst_links(driver)};
        if (settings.bandwidth != abi::kAutoSize) {
            cost.links.bandwidth = static_cast<double>(settings.bandwidth);
        }
        return cost;
    }
};

struct Ep : abi::Ep {
    uint64_t peer; // Process::id
    size_t stream; // one of kStreamsEachWay
};

Iface* iface_of(uct_iface_h handle)
{
    return reinterpret_cast<Iface*>(handle);
}

// ---- endpoint

enum class Direction { put, get };

// UCP's bounce buffers come here too, pinned or not.
void require_accessible(const cuda::Pointer& memory, const void* local, size_t length)
{
    if (memory.kind == cuda::MemoryKind::host && !memory.pinned && !cuda::readable(local, length)) {
        throw std::runtime_error("the local buffer is neither live CUDA memory nor accessible to "
                                 "the CPU");
    }
}

// A copy whose local side is known.
struct Copy {
    Direction direction;
    CUdeviceptr near;
    size_t length; // bytes
    uint64_t remote;
    Region& region;
    uct_completion_t* completion;
};

void issued(Iface& iface, const Copy& copy, streams::Stream& stream)
{
    iface.operations.add_together(stream, copy.completion);
    ++iface.counts.ipc_ops;
    iface.counts.ipc_bytes += copy.length;
}

size_t stream_of(const Ep& ep, Direction direction)
{
    return 2 * ep.stream + (direction == Direction::put ? 1 : 0);
}

// Copies by another GPU of this process for which the peer's memory is open. Needed if it does not
// open for the local buffer's GPU, which cannot access it or failed to open it.
void start_by_another(Iface& iface, const Ep& ep, const Copy& copy, CUdevice device)
{
    const CUdevice other = copy.region.first_device();
    if (other < 0 || other == device) {
        throw std::runtime_error("the peer's memory does not open for this GPU");
    }
    const CUcontext near_context = iface.operations.on(device).context();
    streams::DeviceStreams& streams = iface.operations.on(other);
    const CUdeviceptr far = copy.region.reach(other, streams.context_id(), copy.remote);
    if (far == 0) {
        throw std::runtime_error("the peer's memory does not open for any GPU any more");
    }
    const cuda::CurrentContext current(iface.driver, streams.context());
    streams::Stream& stream = streams[stream_of(ep, copy.direction)];
    // Names both contexts, because only its own GPU can copy memory of pools and of cuMemCreate.
    const CUresult result =
        copy.direction == Direction::put
            ? iface.driver.cuMemcpyPeerAsync(far, streams.context(), copy.near, near_context,
                                             copy.length, stream.handle())
            : iface.driver.cuMemcpyPeerAsync(copy.near, near_context, far, streams.context(),
                                             copy.length, stream.handle());
    cuda::check(result, "cuMemcpyPeerAsync");
    issued(iface, copy, stream);
}

void start(Iface& iface, const Ep& ep, const Copy& copy)
{
    const cuda::RelaxedCapture relaxed(iface.driver);
    const auto* local = reinterpret_cast<const void*>(copy.near);
    const cuda::Pointer memory = cuda::finished(iface.driver, local);
    require_accessible(memory, local, copy.length);
    const bool on_gpu = memory.kind == cuda::MemoryKind::device;
    const CUdevice device = on_gpu ? memory.device : copy.region.first_device();
    std::optional<cuda::CurrentContext> current;
    streams::DeviceStreams& streams = iface.operations.on(device, current);
    const CUdeviceptr far = copy.region.reach(device, streams.context_id(), copy.remote);
    if (far == 0) [[unlikely]] {
        return start_by_another(iface, ep, copy, device);
    }
    const bool put = copy.direction == Direction::put;
    const CUdeviceptr to = put ? far : copy.near, from = put ? copy.near : far;

    streams::Stream& stream = streams[stream_of(ep, copy.direction)];
    if (on_gpu) { // saves the driver's classification of both addresses
        cuda::check(iface.driver.cuMemcpyDtoDAsync(to, from, copy.length, stream.handle()),
                    "cuMemcpyDtoDAsync");
    } else {
        cuda::check(iface.driver.cuMemcpyAsync(to, from, copy.length, stream.handle()),
                    "cuMemcpyAsync");
    }
    issued(iface, copy, stream);
}

ucs_status_t start(const char* call, uct_ep_h handle, Direction direction, const uct_iov_t* iov,
                   size_t iovcnt, uint64_t remote, uct_rkey_t rkey, uct_completion_t* completion)
{
    return streams::guarded(call, [&] {
        Iface* iface = iface_of(handle->iface);
        const auto& ep = *reinterpret_cast<const Ep*>(handle);
        auto* region = rkey == UCT_INVALID_RKEY ? nullptr : reinterpret_cast<Region*>(rkey);
        const size_t length = iovcnt == 0 ? 0 : iov->length * iov->count;
        const bool within = region == nullptr ? length == 0 : region->holds(remote, length);
        if (iovcnt > 1 || (length > 0 && iov->count > 1) || !within) {
            gdr_log(error,
                    "%s is refused: %zu bytes in %zu pieces at %#llx are not one piece of the "
                    "memory that the remote key is for",
                    call, length, iovcnt, static_cast<unsigned long long>(remote));
            return UCS_ERR_INVALID_PARAM;
        }
        return streams::started(iface, [&] {
            if (length == 0) {
                iface->operations.add_ended(completion);
            } else {
                start(*iface, ep,
                      {direction, reinterpret_cast<CUdeviceptr>(iov->buffer), length, remote,
                       *region, completion});
            }
        });
    });
}

ucs_status_t put_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote,
                       uct_rkey_t rkey, uct_completion_t* completion)
{
    return start("ipc: put_zcopy", ep, Direction::put, iov, iovcnt, remote, rkey, completion);
}

ucs_status_t get_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote,
                       uct_rkey_t rkey, uct_completion_t* completion)
{
    return start("ipc: get_zcopy", ep, Direction::get, iov, iovcnt, remote, rkey, completion);
}

ucs_status_t ep_create(const uct_ep_params_t* params, uct_ep_h* handle)
{
    if (!streams::names_peer(*params)) {
        return UCS_ERR_INVALID_PARAM;
    }
    return abi::guarded("ipc: ep_create", [&] {
        Iface* iface = iface_of(params->iface);
        if (!reaches(iface->address, params->iface_addr)) {
            return UCS_ERR_UNREACHABLE;
        }
        auto ep = std::make_unique<Ep>();
        ep->peer = process_of(params->iface_addr).id;
        ep->stream = iface->endpoints++ % kStreamsEachWay;
        const uint64_t peer = ep->peer;
        RemoteMemory::instance().connect(peer);
        const ucs_status_t status = streams::hand_over(std::move(ep), iface, handle);
        if (status != UCS_OK) {
            RemoteMemory::instance().disconnect(peer);
        }
        return status;
    });
}

void ep_destroy(uct_ep_h handle)
{
    if (cuda::open_driver() != nullptr) { // in a forked child nothing is open
        RemoteMemory::instance().disconnect(reinterpret_cast<const Ep*>(handle)->peer);
    }
    streams::close_ep<Ep>(handle);
}

// ---- interface

ucs_status_t iface_query(uct_iface_h handle, uct_iface_attr_t* attr)
{
    const Cost cost = iface_of(handle)->cost();
    streams::query(iface_of(handle),
                   {.address_length = sizeof(Address),
                    .most_pieces = 1,
                    .reads = cost.links.reads || iface_of(handle)->protocols_v2,
                    .cost = estimate(cost, abi::EpOperation::put_zcopy)},
                   attr);
    attr->cap.flags |= UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE;
    return UCS_OK;
}

int is_reachable(const uct_iface_h iface, const uct_device_addr_t*, const uct_iface_addr_t* address)
{
    return reaches(iface_of(iface)->address, address);
}

void iface_close(uct_iface_h handle)
{
    Iface* iface = iface_of(handle);
    stats::statistics().add(iface->counts);
    streams::close(iface);
}

uct_iface_ops_t iface_ops()
{
    uct_iface_ops_t ops = {};
    streams::set_operations(ops);
    ops.ep_put_zcopy = put_zcopy;
    ops.ep_get_zcopy = get_zcopy;
    ops.ep_create = ep_create;
    ops.ep_destroy = ep_destroy;
    ops.iface_close = iface_close;
    ops.iface_query = iface_query;
    ops.iface_get_address = streams::get_address<Iface>;
    ops.iface_is_reachable = is_reachable;
    return ops;
}

constexpr abi::InternalOps kInternalOps = {
    .estimate_perf =
        [](uct_iface_h iface, const abi::PerfQuery& query) {
            return estimate(iface_of(iface)->cost(), query.operation);
        },
    .ep_invalidate = [](uct_ep_h) { return UCS_OK; }, // nothing to undo
    .ep_is_connected = [](uct_ep_h ep, const uct_device_addr_t*,
                          const uct_iface_addr_t* address) -> bool {
        return is_reachable(ep->iface, nullptr, address) &&
               process_of(address).id == reinterpret_cast<const Ep*>(ep)->peer;
    },
    .device_address_size = 0,
};

ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config, uct_iface_h* handle)
{
    static uct_iface_ops_t ops = iface_ops();
    const cuda::Driver* driver = streams::driver_for("ipc");
    if (driver == nullptr) {
        return UCS_ERR_NO_DEVICE;
    }
    return abi::guarded("ipc: open", [&] {
        auto iface =
            std::make_unique<Iface>(*driver, *reinterpret_cast<const IfaceSettings*>(config),
                                    abi::memory_domain(md)->serves_protocols_v2());
        return streams::hand_over(std::move(iface), &ops, &kInternalOps, md, worker, params, config,
                                  handle);
    });
}

std::vector<abi::Device> query_devices(abi::MemoryDomain&)
{
    return {{kDeviceName, UCT_DEVICE_TYPE_SHM, UCS_SYS_DEVICE_ID_UNKNOWN}};
}

} // namespace

abi::Transport transport()
{
    return {.name = "gdr",
            .query_devices = query_devices,
            .iface_open = iface_open,
            .options = iface_options()};
}

} // namespace gdr::ipc
