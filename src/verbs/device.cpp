// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finding and opening HCAs.
#include "verbs/device.hpp"

#include "verbs/error.hpp"
#include "verbs/library.hpp"
#include "verbs/relaxed_ordering.hpp"
#include "verbs/speed.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <dlfcn.h>

namespace gdr::verbs {
namespace {

struct DeviceList {
    DeviceList() : obstacle(open_library())
    {
        if (obstacle.empty() && (devices = ibv_get_device_list(&count)) == nullptr) {
            obstacle = "libibverbs cannot list devices: " + errno_text(errno);
        }
    }
    ~DeviceList()
    {
        if (devices != nullptr) {
            ibv_free_device_list(devices);
        }
    }
    DeviceList(const DeviceList&) = delete;
    DeviceList& operator=(const DeviceList&) = delete;

    int count = 0;
    ibv_device** devices = nullptr;
    std::string obstacle; // why there is no list
};

// What the user can do if a device cannot be opened.
const char* hint(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return " (its file in /dev/infiniband has to be readable and writable, as rdma-core's udev "
               "rules make it)";
    case ENOENT:
    case ENODEV:
        return " (its file in /dev/infiniband has to be there, in the container too)";
    default:
        return "";
    }
}

// Whether a preloaded library, such as an emulated HCA, provides the device list instead of
// libibverbs.
bool listed_by_another()
{
    const void* const list = dlsym(RTLD_DEFAULT, "ibv_get_device_list");
    Dl_info info;
    return list != nullptr && dladdr(list, &info) != 0 &&
           !std::filesystem::path(info.dli_fname).filename().string().starts_with("libibverbs.so");
}

// Like rdma-core, ignores the environment of a set-user-ID program.
std::filesystem::path sysfs()
{
    const char* const chosen = secure_getenv("SYSFS_PATH");
    return chosen != nullptr ? chosen : "/sys";
}

// Why gdr cannot use a device.
const char* strange_transport(ibv_transport_type type)
{
    switch (type) {
    case IBV_TRANSPORT_IWARP:
        return "speaks iWARP, which has no UD queue pairs, and gdr connects by them";
    case IBV_TRANSPORT_USNIC:
    case IBV_TRANSPORT_USNIC_UDP:
        return "is a usNIC, which has no RC queue pairs";
    case IBV_TRANSPORT_UNSPECIFIED:
        return "is of a transport of its own, without RC queue pairs, as AWS EFA is (for that, "
               "UCX_TLS=srd of UCX 1.19 or later, or libfabric)";
    default:
        return "is of an unknown transport type";
    }
}

} // namespace

std::vector<std::string> device_names(std::string* reason)
{
    DeviceList list;
    std::vector<std::string> names;
    std::string strange;

    for (int i = 0; i < list.count; ++i) {
        if (list.devices[i]->transport_type == IBV_TRANSPORT_IB) {
            names.emplace_back(ibv_get_device_name(list.devices[i]));
        } else {
            strange += (strange.empty() ? "" : "; ") +
                       std::string(ibv_get_device_name(list.devices[i])) + " " +
                       strange_transport(list.devices[i]->transport_type);
        }
    }
    if (names.empty() && reason != nullptr) {
        if (!list.obstacle.empty()) {
            *reason = list.obstacle;
        } else if (list.count > 0) {
            *reason = strange;
        } else {
            *reason = "libibverbs finds no RDMA device";
        }
    }
    return names;
}

bool may_have_devices()
{
    std::error_code none;
    return listed_by_another() ||
           std::filesystem::directory_iterator(sysfs() / "class/infiniband", none) !=
               std::filesystem::directory_iterator();
}

Device::Device(const std::string& name) : name_(name)
{
    DeviceList list;
    for (int i = 0; i < list.count && !context_; ++i) {
        if (name == ibv_get_device_name(list.devices[i])) {
            context_.reset(ibv_open_device(list.devices[i]));
            if (!context_) {
                const int error = errno;
                throw Error("ibv_open_device(" + name + ")", error, hint(error));
            }
        }
    }
    if (!context_) {
        throw Error("finding RDMA device " + name, ENODEV);
    }
    if (int error = ibv_query_device(context_.get(), &attributes_); error != 0) {
        throw Error("ibv_query_device on " + name, error);
    }
    sysfs_ = Sysfs(context_->device->ibdev_path);
    for (unsigned number = 1; number <= attributes_.phys_port_cnt; ++number) {
        Port port{static_cast<uint8_t>(number), {}, false, 0};
        if (int error = ibv_query_port(context_.get(), port.number, &port.attributes); error != 0) {
            throw Error("ibv_query_port(" + std::to_string(number) + ") on " + name, error);
        }
        port.ethernet = port.attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
        port.bandwidth = data_rate(active_speed(port.attributes), port.attributes.active_width,
                                   sysfs_.rate(number));
        ports_.push_back(port);
    }
}

int Device::remote_access() const
{
    constexpr int always =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    return attributes_.atomic_cap == IBV_ATOMIC_NONE ? always : always | IBV_ACCESS_REMOTE_ATOMIC;
}

bool Device::resizes_completion_queues() const
{
    constexpr uint32_t kMellanox = 0x2c9, kIntelOmniPath = 0x1175, kSoftRoce = 0xffffff,
                       kEarlySoftRoce = 0, kSofthca = 0x020000;
    // mthca and mlx4 drive Mellanox parts before Connect-IB and those with five digits.
    constexpr uint32_t kConnectIb = 4113, kFirstOld = 23108, kLastOld = 26488;
    const uint32_t part = attributes_.vendor_part_id;
    switch (attributes_.vendor_id) {
    case kMellanox:
        return part >= kConnectIb && (part < kFirstOld || part > kLastOld);
    case kIntelOmniPath:
    case kSoftRoce:
    case kEarlySoftRoce:
    case kSofthca:
        return true;
    default:
        return false;
    }
}

bool Device::supports_dmabuf(ibv_pd* pd, std::string* cause) const
{
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
    ibv_mr* mr = nullptr;
    int error = EOPNOTSUPP;
    for (const int access : {kAccess, kAccess | kRelaxedOrdering}) {
        if (mr == nullptr && is_unsupported(error)) {
            errno = 0;
            mr = ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, access);
            error = errno;
        }
    }
    if (mr != nullptr) { // a device that accepts any file proves nothing
        ibv_dereg_mr(mr);
        *cause = "ibv_reg_dmabuf_mr accepted an invalid file";
        return false;
    }
    if (error == EBADF) {
        return true;
    }
    *cause = "ibv_reg_dmabuf_mr: " + errno_text(error);
    return false;
}

} // namespace gdr::verbs
