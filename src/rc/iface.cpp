// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opens, describes and closes an RC interface.
#include "rc/iface.hpp"

#include "abi/border.hpp"
#include "abi/host.hpp"
#include "abi/settings.hpp"
#include "cuda/driver.hpp"
#include "host/memtype_cache.hpp"
#include "mem/unmap_watch.hpp"
#include "rc/dummy_iface.hpp"
#include "rc/endpoint.hpp"
#include "rc/memory_domain.hpp"
#include "rc/own_receive_queues.hpp"
#include "rc/registered_memory.hpp"
#include "rc/relaxed_writes.hpp"
#include "rc/shared_receive_queue.hpp"
#include "verbs/error.hpp"
#include "verbs/gid.hpp"
#include "verbs/pkey.hpp"
#include "verbs/relaxed_ordering.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace gdr::rc {
namespace {

constexpr size_t kLargestMessage = size_t{1} << 30;
constexpr size_t kDefaultAlignment = 64; // a cache line
constexpr unsigned kSendRoom = 3072;     // the fewest work requests that all endpoints may have
constexpr uint16_t kDefaultPkey = 0xffff;
constexpr uint8_t kHopLimit = 64;

uint64_t random_number()
{
    std::random_device device;
    return uint64_t{device()} << 32 | device();
}

// An address that distinguishes this interface from all others and cannot be guessed.
IfaceAddress random_address()
{
    IfaceAddress address{};
    address.tag = kAddressTag;
    address.version = kWireVersion;
    address.handshake_qkey = random_number() & 0x7fffffff; // the kernel owns the upper half
    address.incarnation = random_number();
    address.key = secrets::random_key();
    return address;
}

void log_ignored(const char* variable, unsigned long value, const char* allowed)
{
    gdr_log(warn, "UCX_GDR_RC_%s=%lu is ignored: %s", variable, value, allowed);
}

ibv_mtu to_mtu(unsigned long bytes, ibv_mtu largest)
{
    if (bytes == abi::kAuto) {
        return largest;
    }
    for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; ++mtu) {
        if (bytes == 128ul << mtu) {
            return std::min(static_cast<ibv_mtu>(mtu), largest);
        }
    }
    log_ignored("PATH_MTU", bytes, "256, 512, 1024, 2048 and 4096 are possible");
    return largest;
}

const verbs::Port& find_port(const verbs::Device& device, const std::string& name)
{
    for (const verbs::Port& port : device.ports()) {
        if (device_name(device, port) == name) {
            return port;
        }
    }
    throw std::runtime_error("there is no port " + name);
}

verbs::GidEntry find_gid(ibv_pd* pd, const verbs::Port& port, unsigned long index)
{
    const bool given = index != abi::kAuto;
    std::string reason;
    auto chosen = verbs::choose_gid(pd, port, given ? std::optional(index) : std::nullopt, &reason);
    if (!chosen) {
        if (given) {
            throw UnmetSetting("the port has " + reason + " (UCX_GDR_RC_GID_INDEX)");
        }
        throw std::runtime_error("the port has " + reason);
    }
    return *chosen;
}

// The kernel assigns each queue pair of a bond to a link, and gives each RoCE connection a UDP port
// by which switches choose its path. Like UCX's own transports, a fast port gets two paths, because
// one queue pair does not fill it.
unsigned usual_paths(const verbs::Device& device, const verbs::Port& port, int gid_index)
{
    constexpr double kFast = 400e9 / 8;
    const unsigned links = port.ethernet ? device.sysfs().links(port.number, gid_index) : 1;
    return std::min(kMostPaths, links == 1 && port.bandwidth >= kFast ? 2 : links);
}

verbs::Pkey find_pkey(ibv_context* context, const verbs::Port& port, unsigned long partition)
{
    const auto chosen = verbs::choose_pkey(
        context, port, partition != abi::kAuto ? std::optional(partition) : std::nullopt);
    if (!chosen) {
        throw UnmetSetting("the port's table has no partition key UCX_GDR_RC_PKEY asks for");
    }
    return *chosen;
}

// What is wrong with the parameters of an interface; NULL if nothing is. The offset may exceed the
// alignment, as UCP's does with small alignments.
const char* unusable(const uct_iface_params_t& params)
{
    bool aligned = params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT;
    if (!(params.open_mode & UCT_IFACE_OPEN_MODE_DEVICE)) {
        return "an RC interface is opened on a device only";
    }
    if (aligned && !std::has_single_bit(params.am_alignment)) {
        return "am_alignment is no power of two";
    }
    if (!aligned && (params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET)) {
        return "am_align_offset without am_alignment";
    }
    return nullptr;
}

ucs_status_t not_opened(const std::exception& error)
{
    gdr_log(error, "no RC interface could be opened: %s", error.what());
    return UCS_ERR_IO_ERROR;
}

void add_to_epoll(int epoll_fd, int fd)
{
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        throw verbs::Error("epoll_ctl for an interface's events", errno);
    }
}

// ---- UCT's operations on interfaces
ucs_status_t iface_query(uct_iface_h tl_iface, uct_iface_attr_t* attr)
{
    Iface& iface = rc_iface(tl_iface);
    PortCost cost = port_cost(iface.port);
    abi::begin_iface_query(&iface, attr);

    attr->cap.put.max_short = iface.any_memory ? Iface::kMaxPutOfAnyMemory : Iface::kMaxShort;
    attr->cap.put.max_bcopy = iface.segment_size;
    attr->cap.put.max_zcopy = iface.max_zcopy;
    attr->cap.put.opt_zcopy_align = kDefaultAlignment;
    attr->cap.put.align_mtu = kDefaultAlignment;
    attr->cap.put.max_iov = iface.max_iov;
    attr->cap.get.max_short = iface.settings.max_inline;
    attr->cap.get.max_bcopy = iface.segment_size;
    attr->cap.get.max_zcopy = iface.max_zcopy;
    attr->cap.get.opt_zcopy_align = kDefaultAlignment;
    attr->cap.get.align_mtu = kDefaultAlignment;
    attr->cap.get.max_iov = iface.max_iov;
    attr->cap.am.max_short = sizeof(uint64_t) + Iface::kMaxShort;
    attr->cap.am.max_bcopy = iface.segment_size;
    attr->cap.am.max_zcopy = iface.segment_size;
    attr->cap.am.opt_zcopy_align = kDefaultAlignment;
    attr->cap.am.align_mtu = kDefaultAlignment;
    attr->cap.am.max_hdr = kMaxHeader;
    attr->cap.am.max_iov = iface.max_iov;

    constexpr uint64_t post_ops = UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_AND) |
                                  UCS_BIT(UCT_ATOMIC_OP_OR) | UCS_BIT(UCT_ATOMIC_OP_XOR);
    constexpr uint64_t fetch_ops =
        post_ops | UCS_BIT(UCT_ATOMIC_OP_SWAP) | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
    uint64_t atomics = 0;
    if (iface.device.attributes().atomic_cap != IBV_ATOMIC_NONE) {
        attr->cap.atomic32 = {post_ops, fetch_ops};
        attr->cap.atomic64 = {post_ops, fetch_ops};
        atomics = UCT_IFACE_FLAG_ATOMIC_DEVICE;
    }
    attr->cap.flags = UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY |
                      UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |
                      UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_SHORT |
                      UCT_IFACE_FLAG_GET_BCOPY | UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING |
                      UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_CB_SYNC |
                      UCT_IFACE_FLAG_EP_CHECK | UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE |
                      UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF | UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM |
                      abi::kIfaceFlagInterNode | atomics;
    attr->cap.event_flags =
        UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;

    attr->device_addr_len = sizeof(DeviceAddress);
    attr->iface_addr_len = sizeof(IfaceAddress);
    attr->ep_addr_len = 0;
    attr->max_conn_priv = 0;
    attr->overhead = cost.overhead;
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared = cost.bandwidth;
    attr->latency.c = cost.latency;
    attr->latency.m = 1e-9;
    attr->priority = 0;
    attr->dev_num_paths = iface.paths;
    return UCS_OK;
}

ucs_status_t iface_get_device_address(uct_iface_h tl_iface, uct_device_addr_t* address)
{
    std::memcpy(address, &rc_iface(tl_iface).device_address, sizeof(DeviceAddress));
    return UCS_OK;
}

ucs_status_t iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t* address)
{
    Iface& iface = rc_iface(tl_iface);
    std::memcpy(address, &iface.handshake->address(), sizeof(IfaceAddress));
    return UCS_OK;
}

int iface_is_reachable(const uct_iface_h tl_iface, const uct_device_addr_t* device_address,
                       const uct_iface_addr_t* iface_address)
{
    Iface& iface = rc_iface(tl_iface);
    return abi::guarded("rc: iface_is_reachable", [&] {
               return iface.reachability->reaches(
                          iface.handshake->address(),
                          reinterpret_cast<const DeviceAddress*>(device_address),
                          reinterpret_cast<const IfaceAddress*>(iface_address))
                          ? UCS_OK
                          : UCS_ERR_UNREACHABLE;
           }) == UCS_OK;
}

ucs_status_t iface_flush(uct_iface_h tl_iface, unsigned flags, uct_completion_t* comp)
{
    if (comp != nullptr) {
        return UCS_ERR_UNSUPPORTED;
    }
    ucs_status_t result = UCS_OK;
    for (const Iface::Slot& slot : rc_iface(tl_iface).slots) {
        if (slot.endpoint != nullptr && slot.endpoint->failure == UCS_OK &&
            ep_flush(&slot.endpoint->super, flags, nullptr) != UCS_OK) {
            result = UCS_INPROGRESS; // or the marker has no resources yet: the next call continues
        }
    }
    return result;
}

ucs_status_t iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    for (const Iface::Slot& slot : rc_iface(tl_iface).slots) {
        if (slot.endpoint != nullptr) {
            ep_fence(&slot.endpoint->super, flags);
        }
    }
    return UCS_OK;
}

template <bool kClearsBehind>
unsigned iface_progress(uct_iface_h iface)
{
    return rc_iface(iface).progress<kClearsBehind>();
}

ucs_status_t iface_event_fd_get(uct_iface_h iface, int* fd)
{
    *fd = rc_iface(iface).event_fd;
    return UCS_OK;
}

ucs_status_t iface_event_arm(uct_iface_h iface, unsigned)
{
    return rc_iface(iface).arm();
}

void iface_close(uct_iface_h iface)
{
    delete &rc_iface(iface);
}

const uct_iface_ops_t operations = {
    .ep_put_short = ep_put_short,
    .ep_put_bcopy = ep_put_bcopy,
    .ep_put_zcopy = ep_put_zcopy,
    .ep_get_short = ep_get_short,
    .ep_get_bcopy = ep_get_bcopy,
    .ep_get_zcopy = ep_get_zcopy,
    .ep_am_short = ep_am_short,
    .ep_am_short_iov = ep_am_short_iov,
    .ep_am_bcopy = ep_am_bcopy,
    .ep_am_zcopy = ep_am_zcopy,
    .ep_atomic_cswap64 = ep_atomic_cswap64,
    .ep_atomic_cswap32 = ep_atomic_cswap32,
    .ep_atomic32_post = ep_atomic32_post,
    .ep_atomic64_post = ep_atomic64_post,
    .ep_atomic32_fetch = ep_atomic32_fetch,
    .ep_atomic64_fetch = ep_atomic64_fetch,
    .ep_tag_eager_short = nullptr,
    .ep_tag_eager_bcopy = nullptr,
    .ep_tag_eager_zcopy = nullptr,
    .ep_tag_rndv_zcopy = nullptr,
    .ep_tag_rndv_cancel = nullptr,
    .ep_tag_rndv_request = nullptr,
    .iface_tag_recv_zcopy = nullptr,
    .iface_tag_recv_cancel = nullptr,
    .ep_pending_add = ep_pending_add,
    .ep_pending_purge = ep_pending_purge,
    .ep_flush = ep_flush,
    .ep_fence = ep_fence,
    .ep_check = ep_check,
    .ep_create = ep_create,
    .ep_connect = nullptr,
    .ep_disconnect = nullptr,
    .cm_ep_conn_notify = nullptr,
    .ep_destroy = ep_destroy,
    .ep_get_address = nullptr,
    .ep_connect_to_ep = nullptr,
    .iface_accept = nullptr,
    .iface_reject = nullptr,
    .iface_flush = iface_flush,
    .iface_fence = iface_fence,
    .iface_progress_enable = abi::uct_base_iface_progress_enable,
    .iface_progress_disable = abi::uct_base_iface_progress_disable,
    .iface_progress = iface_progress<false>,
    .iface_event_fd_get = iface_event_fd_get,
    .iface_event_arm = iface_event_arm,
    .iface_close = iface_close,
    .iface_query = iface_query,
    .iface_get_device_address = iface_get_device_address,
    .iface_get_address = iface_get_address,
    .iface_is_reachable = iface_is_reachable,
};

void work_on_any_memory(uct_iface_ops_t& ops)
{
    ops.ep_put_short = ep_put_short_any;
    ops.ep_put_zcopy = ep_put_zcopy_any;
    ops.ep_get_bcopy = ep_get_bcopy_any;
    ops.ep_get_zcopy = ep_get_zcopy_any;
    ops.ep_am_zcopy = ep_am_zcopy_any;
}

// A short put for any memory refuses none.
void refuse_gpu_memory(uct_iface_ops_t& ops)
{
    ops.ep_am_short = ep_am_short_untyped;
    ops.ep_am_short_iov = ep_am_short_iov_untyped;
    if (ops.ep_put_short == ep_put_short) {
        ops.ep_put_short = ep_put_short_untyped;
    }
}

uct_iface_ops_t* operations_for(const Iface& iface)
{
    constexpr size_t any_memory = 1, untyped_shorts = 2, clears_behind = 4;
    static std::array<uct_iface_ops_t, 8> tables = [] {
        std::array<uct_iface_ops_t, 8> all;
        for (size_t i = 0; i < all.size(); ++i) {
            all[i] = operations;
            if (i & any_memory) {
                work_on_any_memory(all[i]);
            }
            if (i & untyped_shorts) {
                refuse_gpu_memory(all[i]);
            }
            if (i & clears_behind) {
                all[i].iface_progress = iface_progress<true>;
            }
        }
        return all;
    }();
    return &tables[(iface.any_memory ? any_memory : 0) |
                   (iface.untyped_shorts ? untyped_shorts : 0) |
                   (iface.clears_behind ? clears_behind : 0)];
}

MemoryDomain& rc_domain(uct_md_h md)
{
    return static_cast<MemoryDomain&>(*abi::memory_domain(md));
}

constexpr abi::InternalOps internal_operations = {
    .estimate_perf = estimate_perf,
    .ep_invalidate = ep_invalidate,
    .ep_is_connected = ep_is_connected,
    .device_address_size = sizeof(DeviceAddress),
};

} // namespace

std::string device_name(const verbs::Device& device, const verbs::Port& port)
{
    return device.name() + ":" + std::to_string(port.number);
}

Iface::Iface(uct_md_h md_handle, uct_worker_h worker, const uct_iface_params_t* params,
             const Settings& user_settings)
    : any_memory(cuda::open_driver() != nullptr && !rc_domain(md_handle).serves_protocols_v2()),
      clears_behind(any_memory && abi::reads_behind_rts()),
      untyped_shorts(host::memtype_cache().looks_empty()), keep_host_pages(mem::unmaps_are_seen()),
      domain(rc_domain(md_handle)), device(domain.device()),
      shares_receives(domain.shares_receives()),
      settings(bounded(user_settings, device.attributes(), shares_receives)),
      port(find_port(device, params->mode.device.dev_name))
{
    if (!port.active()) {
        throw std::runtime_error("port " + device_name(device, port) + " is not active (" +
                                 ibv_port_state_str(port.attributes.state) + ")");
    }
    if (abi::init_iface(this, operations_for(*this), &internal_operations, md_handle, worker,
                        params,
                        reinterpret_cast<const uct_iface_config_t*>(&user_settings)) != UCS_OK) {
        throw std::runtime_error("UCX could not initialise the interface");
    }
    try {
        choose_path(worker);
        open_queues(params);
        if (verbs::has_relaxed_ordering_alone(domain.pd())) {
            read_before_writes(*this);
        }
    } catch (...) {
        port_watch.reset();
        handshake.reset();
        close_events();
        abi::cleanup_iface(this);
        throw;
    }
}

void Iface::close_events()
{
    for (int fd : {event_fd, wakeup_fd}) {
        if (fd >= 0) {
            close(fd);
        }
    }
}

Iface::~Iface()
{
    for (const Slot& slot : std::vector<Slot>(slots)) {
        delete slot.endpoint; // those that were still closing
    }
    abi::uct_base_iface_progress_disable(&super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    stats::statistics().add({.gpudirect_bytes = traffic.bytes[1],
                             .host_bytes = traffic.bytes[0],
                             .gpudirect_ops = traffic.operations[1]});
    port_watch.reset();
    handshake.reset();
    close_events();
    abi::cleanup_iface(this);
}

void Iface::choose_path(const void* worker)
{
    path.port = port.number;
    path.service_level = static_cast<uint8_t>(settings.service_level);
    path.traffic_class = static_cast<uint8_t>(settings.traffic_class);
    path.hop_limit = kHopLimit;

    verbs::GidEntry gid = find_gid(domain.pd(), port, settings.gid_index);
    path.gid_index = static_cast<uint8_t>(gid.index);
    paths = settings.num_paths != abi::kAuto ? static_cast<unsigned>(settings.num_paths)
                                             : usual_paths(device, port, path.gid_index);

    verbs::Pkey pkey{0, kDefaultPkey}; // RoCE has no other
    if (!port.ethernet) {
        pkey = find_pkey(device.context(), port, settings.pkey);
    }
    path.pkey_index = pkey.index;

    device_address.tag = kAddressTag;
    device_address.version = kWireVersion;
    device_address.link = gid.type == verbs::GidType::roce_v2   ? Link::roce_v2
                          : gid.type == verbs::GidType::roce_v1 ? Link::roce_v1
                                                                : Link::infiniband;
    device_address.mtu =
        static_cast<uint8_t>(to_mtu(settings.path_mtu, port.attributes.active_mtu));
    device_address.lid = port.attributes.lid;
    device_address.pkey = pkey.value;
    std::memcpy(device_address.gid, gid.gid.raw, sizeof(device_address.gid));
    device_address.grh_required = port.grh_required();
    reachability.emplace(device_name(device, port), device_address, gid,
                         static_cast<RouteCheck>(settings.reachability), worker);
}

void Iface::open_queues(const uct_iface_params_t* params)
{
    const ibv_device_attr& limits = device.attributes();
    ibv_pd* pd = domain.pd();

    headroom = params->field_mask & UCT_IFACE_PARAM_FIELD_RX_HEADROOM ? params->rx_headroom : 0;
    size_t alignment = kDefaultAlignment;
    size_t align_offset = 0;
    if (params->field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT) {
        alignment = std::max(params->am_alignment, kDefaultAlignment);
        align_offset = params->field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET
                           ? params->am_align_offset % alignment
                           : 0;
    }
    segment_size = static_cast<uint32_t>(settings.segment_size);
    window = static_cast<uint32_t>(settings.window);
    tx_queue_length = settings.tx_queue_length;
    moderation = std::min(settings.moderation, tx_queue_length / 4);
    max_iov = std::min(static_cast<unsigned>(limits.max_sge), kMaxSge) - 1;
    max_zcopy = std::min<size_t>(port.attributes.max_msg_sz, kLargestMessage);

    channel.reset(ibv_create_comp_channel(device.context()));
    if (!channel) {
        throw verbs::Error("ibv_create_comp_channel", errno);
    }
    fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);

    domain.take_reserve(port);
    buffers.emplace(pd, settings.tx_buffers, segment_size);
    prepared.buffer.lkey = buffers->lkey();
    words.emplace(buffers->available());
    if (any_memory) {
        // Transfers that take several buffers at once must find enough. Up to half of the buffers
        // may be in use by work requests that nobody has signalled.
        size_t pieces = std::min<size_t>(buffers->available(), tx_queue_length) / 4;
        max_zcopy = std::min(max_zcopy, segment_size * pieces);
    }
    provider.emplace(pd, settings, shares_receives, device_name(device, port));
    auto most_receives = static_cast<unsigned>(settings.rx_queue_length);
    const unsigned first_receives = // for one peer
        std::min(std::max(window, SharedReceiveQueue::kShortest), most_receives);
    create_completion_queue(first_receives, &most_receives);
    cq = completions->cq();
    poll_cq = provider->poll_cq();
    completions->take(kGrantRoom);
    const ReceiveLayout layout(segment_size, headroom, alignment, align_offset);
    if (shares_receives) {
        share_out();
        receive_queues = std::make_unique<SharedReceiveQueue>(
            *provider, receives, *completions, layout, first_receives, most_receives);
    } else {
        completions->take(most_receives);
        share_out();
        receive_queues =
            std::make_unique<OwnReceiveQueues>(pd, receives, layout, window, most_receives);
        log_receive_memory(layout.stride());
    }

    // Only a queue pair shows how much fits into a work request.
    provider->choose_posting([this](verbs::Posting posting) {
        max_inline = find_max_inline(static_cast<uint32_t>(settings.max_inline), posting);
    });
    if (max_inline > 0) {
        inline_end = max_inline + 1;
        payload_end = inline_end - static_cast<unsigned>(sizeof(prepared.header));
    }
    post_at_once = provider->post_send();
    post_send = post_at_once;
    chain.emplace(max_iov + 1, max_inline);

    wakeup_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    event_fd = epoll_create1(EPOLL_CLOEXEC);
    if (wakeup_fd < 0 || event_fd < 0) {
        throw verbs::Error("making an interface's event descriptors", errno);
    }
    add_to_epoll(event_fd, channel->fd);
    add_to_epoll(event_fd, wakeup_fd);

    HandshakeSetup setup{};
    setup.context = device.context();
    setup.pd = pd;
    setup.cq = cq;
    setup.receives = receive_queues.get();
    setup.path = path;
    setup.remote_access = device.remote_access();
    setup.device = device_address;
    setup.iface = random_address();
    setup.iface.segment_size = segment_size;
    setup.iface.window = static_cast<uint16_t>(shares_receives ? 0 : window);
    setup.max_rd_atomic = static_cast<unsigned>(limits.max_qp_init_rd_atom);
    setup.max_dest_rd_atomic = static_cast<unsigned>(limits.max_qp_rd_atom);
    setup.mtu = static_cast<ibv_mtu>(device_address.mtu);
    setup.settings = &settings;
    handshake = std::make_unique<Handshake>(setup, attention, wakeup_fd);
    port_watch.emplace(domain.port_events(), port.number,
                       PortWatch::Queues{cq, receive_queues->srq()}, attention, wakeup_fd,
                       handshake->ending());
}

void Iface::create_completion_queue(unsigned first_receives, unsigned* most_receives)
{
    const auto largest = static_cast<unsigned>(device.attributes().max_cqe);
    for (;; *most_receives /= 2) {
        // Libraries round up to a power of two, most of them after adding one: use all of it.
        const unsigned others = *most_receives + kGrantRoom;
        const unsigned most =
            std::min(std::bit_ceil(others + std::max(kSendRoom, tx_queue_length) + 1) - 1, largest);
        tx_most = static_cast<int>(most - others);
        const unsigned first = std::min(first_receives + kGrantRoom + tx_queue_length, most);
        try {
            return static_cast<void>(completions.emplace(*provider, channel.get(), first, most,
                                                         shares_receives &&
                                                             device.resizes_completion_queues() &&
                                                             !provider->takes_queues()));
        } catch (const verbs::Error& error) {
            if (shares_receives || error.error_number() != ENOMEM ||
                *most_receives / 2 < OwnReceiveQueues::fewest_work_requests(window)) {
                throw;
            }
            gdr_log(warn,
                    "%s: no completion queue for %u receives, half of them are tried: raise the "
                    "limit of locked memory (ulimit -l) or lower UCX_GDR_RC_RX_QUEUE_LEN",
                    device.name().c_str(), *most_receives);
        }
    }
}

// Logged once for each HCA.
void Iface::log_receive_memory(size_t buffer) const
{
    if (!domain.logged_receives.exchange(true)) {
        const unsigned buffers = OwnReceiveQueues::length(Side::passive, window);
        gdr_log(info,
                "%s has no shared receive queues: each connection of a peer takes %u receive "
                "buffers, %.1f MB (less with a lower UCX_GDR_RC_WINDOW)",
                device.name().c_str(), buffers, static_cast<double>(buffers * buffer) * 1e-6);
    }
}

verbs::QueuePair Iface::create_queue_pair(uint32_t* inline_data, verbs::Posting posting) const
{
    ibv_qp_cap capabilities{};
    // One more, because an emulated atomic posts its next step before the credit of the last has
    // returned.
    capabilities.max_send_wr = tx_queue_length + 1;
    capabilities.max_send_sge = max_iov + 1;
    capabilities.max_inline_data = *inline_data;
    receive_queues->ask_for(capabilities, Side::active);
    verbs::QueuePair made = verbs::create_rc(provider->pd(), cq, receive_queues->srq(), path,
                                             device.remote_access(), &capabilities, posting);
    *inline_data = capabilities.max_inline_data;
    return made;
}

uint32_t Iface::find_max_inline(uint32_t wanted, verbs::Posting posting) const
{
    while (true) {
        try {
            uint32_t granted = wanted;
            create_queue_pair(&granted, posting);
            return granted < kSmallestInline ? 0 : granted;
        } catch (const verbs::Error&) {
            if (wanted == 0) {
                throw;
            }
            wanted = wanted / 2 < kSmallestInline ? 0 : wanted / 2;
        }
    }
}

void Iface::share_out()
{
    const int shares = std::max(static_cast<int>(endpoint_by_qpn.size()), 1);
    const int64_t all = int64_t{shares} * tx_queue_length;
    const int more = static_cast<int>(std::min<int64_t>(all, tx_most)) - tx_room;
    if (more > 0 && completions->take(static_cast<unsigned>(more))) {
        tx_room += more;
        tx_available += more;
    }
    if (tx_room >= all) {
        tx_scarce = 0;
        tx_share = static_cast<int>(tx_queue_length);
    } else {
        tx_scarce = tx_room / 2;
        tx_share = std::max(tx_scarce / shares, 1);
    }
}

uint64_t Iface::add_endpoint(Endpoint* ep)
{
    uint32_t index;
    if (free_slots.empty()) {
        index = static_cast<uint32_t>(slots.size());
        if (index >= 1u << kSlotBits) {
            throw std::runtime_error("too many endpoints on one interface");
        }
        slots.push_back({.name = uint64_t{index} << kIdShift});
    } else {
        index = free_slots.back();
        free_slots.pop_back();
    }
    Slot& slot = slots[index];
    slot.endpoint = ep;
    slot.name |= kSendBit;
    return slot.name >> kIdShift;
}

void Iface::remove_endpoint(uint64_t id)
{
    const uint32_t index = slot_of(wr_id_of(id));
    Slot& slot = slots[index];
    slot.endpoint = nullptr;
    constexpr uint64_t kNames = (uint64_t{1} << (kGenerationShift + kGenerationBits)) - 1;
    slot.name = (slot.name + (uint64_t{1} << kGenerationShift)) & kNames & ~kSendBit;
    free_slots.push_back(index);
    share_out();
}

// If UCX cannot open an interface on a port that it was told about, it gives up the whole worker.
// It is not told about ports that fail try_queues(). Any other failure costs the worker only this
// HCA, unless a setting of the user is the cause.
ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config, uct_iface_h* iface)
{
    if (const char* reason = unusable(*params)) {
        gdr_log(error, "no RC interface could be opened: %s", reason);
        return UCS_ERR_INVALID_PARAM;
    }
    try {
        *iface =
            &(new Iface(md, worker, params, *reinterpret_cast<const Settings*>(config)))->super;
        return UCS_OK;
    } catch (const std::bad_alloc&) {
        return UCS_ERR_NO_MEMORY;
    } catch (const UnmetSetting& error) {
        return not_opened(error);
    } catch (const std::exception& error) {
        if (!rc_domain(md).has_offered) {
            return not_opened(error);
        }
        const auto* failed_call = dynamic_cast<const verbs::Error*>(&error);
        const bool lacks_memory = failed_call != nullptr && failed_call->error_number() == ENOMEM &&
                                  locked_memory_is_limited();
        abi::log_message(
            abi::user_names_gdr() ? abi::LogLevel::warn : abi::LogLevel::diag, __FILE__, __LINE__,
            "a worker has to do without %s%s: %s", params->mode.device.dev_name,
            lacks_memory ? ", the process's workers before it took the locked memory" : "",
            error.what());
        return open_dummy_iface(md, worker, params, config, iface);
    }
}

} // namespace gdr::rc
