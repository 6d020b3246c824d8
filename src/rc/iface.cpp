// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opens and closes an RC interface.
#include "rc/iface.hpp"

#include "log/log.hpp"
#include "rc/completion_status.hpp"
#include "rc/endpoint.hpp"
#include "rc/memory_domain.hpp"
#include "rc/queues/own_receive_queues.hpp"
#include "rc/queues/registered_memory.hpp"
#include "rc/queues/shared_receive_queue.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <random>
#include <stdexcept>
#include <utility>

namespace gdr::rc {
namespace {

constexpr size_t kDefaultAlignment = 64; // a cache line
constexpr unsigned kSendRoom = 3072;     // the fewest work requests that all endpoints may have

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

const verbs::Port& find_port(const verbs::Device& device, const std::string& name)
{
    for (const verbs::Port& port : device.ports()) {
        if (port_name(device, port) == name) {
            if (!port.active()) {
                throw std::runtime_error("port " + name + " is not active (" +
                                         ibv_port_state_str(port.attributes.state) + ")");
            }
            return port;
        }
    }
    throw std::runtime_error("there is no port " + name);
}

ReceiveLayout receive_layout(const Limits& limits, const uct_iface_params_t& params)
{
    const size_t headroom =
        params.field_mask & UCT_IFACE_PARAM_FIELD_RX_HEADROOM ? params.rx_headroom : 0;
    size_t alignment = kDefaultAlignment;
    size_t align_offset = 0;
    if (params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT) {
        alignment = std::max(params.am_alignment, kDefaultAlignment);
        align_offset = params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET
                           ? params.am_align_offset % alignment
                           : 0;
    }
    return {limits.segment_size(), headroom, alignment, align_offset};
}

} // namespace

Iface::Iface(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
             const Settings& user_settings, const MemoryRules& memory_rules,
             const IfaceOperations& operations)
    : domain(static_cast<MemoryDomain&>(*abi::memory_domain(md))), device(domain.device()),
      settings(bounded(user_settings, device.attributes(), domain.shares_receives())),
      port(find_port(device, params->mode.device.dev_name)), rules(memory_rules),
      limits(settings, device.attributes(), port.attributes)
{
    if (abi::init_iface(this, operations.uct, operations.internal, md, worker, params,
                        reinterpret_cast<const uct_iface_config_t*>(&user_settings)) != UCS_OK) {
        throw std::runtime_error("UCX could not initialise the interface");
    }
    try {
        open(worker, params);
    } catch (...) {
        outage.reset();
        handshake.reset();
        abi::cleanup_iface(this);
        throw;
    }
}

Iface::~Iface()
{
    endpoints.for_each([](Endpoint& ep) { delete &ep; }); // those that were still closing
    abi::uct_base_iface_progress_disable(&super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    outage.reset();
    handshake.reset();
    abi::cleanup_iface(this);
}

void Iface::open(uct_worker_h worker, const uct_iface_params_t* params)
{
    ibv_pd* pd = domain.pd();
    local = look_at(device, pd, port, settings);
    reachability.emplace(name(), local.address, local.gid,
                         static_cast<RouteCheck>(settings.reachability), worker);

    domain.take_reserve(port);
    buffers.emplace(pd, settings.tx_buffers, limits.segment_size());
    prepared.buffer.lkey = buffers->lkey();
    words.emplace(buffers->available());
    if (rules.any_memory) {
        limits.fit_into_buffers(buffers->available());
    }
    provider.emplace(pd, settings, domain.shares_receives(), name());
    auto most_receives = static_cast<unsigned>(settings.rx_queue_length);
    const unsigned first_receives = // for one peer
        std::min(std::max(limits.window(), SharedReceiveQueue::kShortest), most_receives);
    open_completions(first_receives, &most_receives);
    CompletionRoom& room = completions.room();
    room.take(kGrantRoom);
    const ReceiveLayout layout = receive_layout(limits, *params);
    if (domain.shares_receives()) {
        share_out();
        receive_queues = std::make_unique<SharedReceiveQueue>(*provider, receives, room, layout,
                                                              first_receives, most_receives);
    } else {
        room.take(most_receives);
        share_out();
        receive_queues = std::make_unique<OwnReceiveQueues>(pd, receives, layout, limits.window(),
                                                            most_receives);
        log_receive_memory(layout.stride());
    }

    queue_pairs.emplace(*provider, *receive_queues,
                        QueuePairs::Setup{.cq = completions.queue(),
                                          .path = local.path,
                                          .remote_access = device.remote_access(),
                                          .work_requests = limits.queue_length(),
                                          .pieces = limits.max_iov() + 1},
                        static_cast<uint32_t>(settings.max_inline));
    limits.set_max_inline(queue_pairs->max_inline());
    poster.open(provider->post_send(), limits.max_iov() + 1, queue_pairs->max_inline());
    if (DataTrace::wanted()) {
        data_trace.emplace(poster, completions, name());
    }
    open_handshake();
}

void Iface::open_handshake()
{
    const ibv_device_attr& attributes = device.attributes();
    HandshakeSetup setup{};
    setup.context = device.context();
    setup.pd = domain.pd();
    setup.cq = completions.queue();
    setup.receives = receive_queues.get();
    setup.path = local.path;
    setup.remote_access = device.remote_access();
    setup.device = local.address;
    setup.iface = random_address();
    setup.iface.segment_size = limits.segment_size();
    setup.iface.window = static_cast<uint16_t>(domain.shares_receives() ? 0 : limits.window());
    setup.max_rd_atomic = static_cast<unsigned>(attributes.max_qp_init_rd_atom);
    setup.max_dest_rd_atomic = static_cast<unsigned>(attributes.max_qp_rd_atom);
    setup.mtu = static_cast<ibv_mtu>(local.address.mtu);
    setup.settings = &settings;
    handshake.emplace(setup, attention);
    window_credits.emplace(credits, provider->post_by_lists(), *handshake);
    outage.emplace(domain.port_events(), port.number,
                   PortWatch::Queues{completions.queue(), receive_queues->srq()}, attention,
                   handshake->ending());
}

void Iface::open_completions(unsigned first_receives, unsigned* most_receives)
{
    const bool shares_receives = domain.shares_receives();
    const auto largest = static_cast<unsigned>(device.attributes().max_cqe);
    for (;; *most_receives /= 2) {
        // Libraries round up to a power of two, most of them after adding one: use all of it.
        const unsigned others = *most_receives + kGrantRoom;
        const unsigned most = std::min(
            std::bit_ceil(others + std::max(kSendRoom, limits.queue_length()) + 1) - 1, largest);
        credits.open(static_cast<int>(most - others), limits.queue_length());
        const unsigned first = std::min(first_receives + kGrantRoom + limits.queue_length(), most);
        try {
            return completions.open(*provider, events.channel(), first, most,
                                    shares_receives && device.resizes_completion_queues() &&
                                        !provider->takes_queues());
        } catch (const verbs::Error& error) {
            if (shares_receives || error.error_number() != ENOMEM ||
                *most_receives / 2 < OwnReceiveQueues::fewest_work_requests(limits.window())) {
                throw;
            }
            gdr_log(warn,
                    "%s: no completion queue for %u receives, so half of them are tried: %s. "
                    "UCX_GDR_RC_RX_QUEUE_LEN=%u asks for no more",
                    device.name().c_str(), *most_receives, cause_of(error).c_str(),
                    *most_receives / 2);
        }
    }
}

// Logged once for each HCA.
void Iface::log_receive_memory(size_t buffer) const
{
    if (!domain.logged_receives.exchange(true)) {
        const unsigned count = OwnReceiveQueues::length(Side::passive, limits.window());
        gdr_log(info,
                "%s has no shared receive queues: each connection of a peer takes %u receive "
                "buffers, %.1f MB (less with a lower UCX_GDR_RC_WINDOW)",
                device.name().c_str(), count, static_cast<double>(count * buffer) * 1e-6);
    }
}

void Iface::destroy(verbs::QueuePair qp)
{
    completions.save_all();
    receive_queues->forget(qp.get());
    provider->forget(*qp);
}

ucs_status_t Iface::wait_for(uint64_t wr_id)
{
    poster.post_chain();
    for (;;) {
        ibv_wc wc;
        if (completions.poll(1, &wc) <= 0) {
            if (outage->broken()) {
                return UCS_ERR_IO_ERROR;
            }
            continue; // ends at the latest with the HCA's own timeout
        }
        completions.save(wc);
        if (same_endpoint(wr_id, wc.wr_id) &&
            (wc.status != IBV_WC_SUCCESS || not_after(number_of(wr_id), number_of(wc.wr_id)))) {
            return to_status(wc.status);
        }
    }
}

ucs_status_t Iface::arm()
{
    const unsigned seen = events.take(completions.queue());
    attention.call_seen();
    if (int error = provider->request_notification(completions.queue(), seen); error != 0) {
        gdr_log(error, "%s cannot be waited for: ibv_req_notify_cq failed: %s", name().c_str(),
                verbs::errno_text(error).c_str());
        return UCS_ERR_IO_ERROR;
    }
    // Completions from before the request raise no event.
    if (ibv_wc wc; completions.poll(1, &wc) > 0) {
        completions.save(wc);
    }
    return attention.called() ? UCS_ERR_BUSY : UCS_OK;
}

} // namespace gdr::rc
