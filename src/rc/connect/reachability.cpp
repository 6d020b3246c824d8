// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Judges the ports of peers, each once.
#include "rc/connect/reachability.hpp"

#include "abi/settings.hpp"
#include "log/log.hpp"
#include "verbs/route.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <net/if.h>
#include <utility>
#include <vector>

namespace gdr::rc {
namespace {

// Shared by the process. One of several HCAs that does not reach a peer is common and harmless; the
// user must know if none reaches it.
struct Peers {
    std::mutex lock;
    std::vector<const Reachability*> judges; // of all interfaces
    bool any_reached = false;
    bool logged = false;
};

Peers& peers()
{
    static Peers instance;
    return instance;
}

bool is_ours(const DeviceAddress& device, const IfaceAddress* iface)
{
    return device.tag == kAddressTag && (iface == nullptr || iface->tag == kAddressTag);
}

std::string no_route(const verbs::GidEntry& gid)
{
    char name[IF_NAMESIZE];
    const char* found = if_indextoname(gid.interface, name);
    return std::string("the kernel has no route to it by ") +
           (found != nullptr ? found : "the port's network interface") +
           " (add one, leave the port out by UCX_NET_DEVICES, or set "
           "UCX_GDR_RC_REACHABILITY=all)";
}

} // namespace

Reachability::Reachability(std::string port, const DeviceAddress& local, const verbs::GidEntry& gid,
                           RouteCheck check, const void* worker)
    : port_(std::move(port)), local_(local), gid_(gid), check_(check), worker_(worker)
{
    const std::lock_guard guard(peers().lock);
    peers().judges.push_back(this);
}

Reachability::~Reachability()
{
    const std::lock_guard guard(peers().lock);
    std::erase(peers().judges, this);
}

bool Reachability::reaches(const IfaceAddress& own, const DeviceAddress* device,
                           const IfaceAddress* iface)
{
    const char* const reason = unreachable_reason(local_, own.segment_size, device, iface);
    if (device == nullptr || !is_ours(*device, iface)) {
        return reason == nullptr;
    }
    const std::lock_guard guard(peers().lock);
    Judgement& judgement = judged_[std::bit_cast<PeerPort>(*device)];
    if (reason == nullptr && !judgement.has_route) {
        judgement.has_route = has_route(*device);
    }
    if (reason == nullptr && *judgement.has_route) {
        const bool itself = iface != nullptr && iface->incarnation == own.incarnation;
        peers().any_reached = peers().any_reached || !itself; // MPI libraries begin with themselves
        return true;
    }
    if (!std::exchange(judgement.logged, true)) {
        log_unreachable(*device, reason != nullptr ? reason : no_route(gid_));
    }
    return false;
}

bool Reachability::has_route(const DeviceAddress& device) const
{
    if (check_ == RouteCheck::all || local_.link == Link::infiniband) {
        return true;
    }
    ibv_gid peer;
    std::copy_n(device.gid, sizeof(peer.raw), peer.raw);
    return verbs::find_route(gid_, peer) != verbs::Route::none;
}

// UCP asks one interface after another about all addresses of a peer.
void Reachability::log_unreachable(const DeviceAddress& device, const std::string& reason)
{
    Peers& all = peers();
    const bool every_one_was_asked =
        std::ranges::all_of(all.judges, [this](const Reachability* judge) {
            return judge->worker_ != worker_ || judge->judged_.size() == judged_.size();
        });
    const bool matters = !all.any_reached && !all.logged && every_one_was_asked;
    all.logged = all.logged || matters;
    log::message(matters && abi::user_names_gdr() ? log::Level::warn : log::Level::diag, __FILE__,
                 __LINE__, "%s does not reach a peer's port (%s): %s", port_.c_str(),
                 to_string(device).c_str(), reason.c_str());
}

} // namespace gdr::rc
