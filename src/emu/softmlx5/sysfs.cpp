// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The directory, see sysfs.hpp. It is locked as long as a process that uses it lives: what killed
// processes leave, the next one of that user removes.
#include "emu/softmlx5/sysfs.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/device.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <endian.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace softmlx5 {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kFirstPciSlot = 5;

std::string prefix()
{
    return "softmlx5-" + std::to_string(geteuid()) + "-";
}

// A directory of this user's, with the lock; -1: it is not, or others have it.
int lock_directory(const fs::path& path, int operation)
{
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat opened, named;
    if (fd >= 0 && fstat(fd, &opened) == 0 && opened.st_uid == geteuid() &&
        flock(fd, operation | LOCK_NB) == 0 && stat(path.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

void remove_unless_used(const fs::path& path)
{
    const int fd = lock_directory(path, LOCK_EX);
    if (fd >= 0) {
        std::error_code none;
        fs::remove_all(path, none);
        close(fd);
    }
}

void remove_left_over()
{
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/dev/shm", none)) {
        if (entry.path().filename().string().starts_with(prefix())) {
            remove_unless_used(entry.path());
        }
    }
}

class Tree {
  public:
    Tree()
    {
        remove_left_over();
        do {
            std::string name = "/dev/shm/" + prefix() + softhca::config().fabric + "-XXXXXX";
            if (mkdtemp(name.data()) == nullptr) {
                std::fprintf(stderr, "softmlx5: no device is shown: cannot create %s: %s\n",
                             name.c_str(), std::generic_category().message(errno).c_str());
                return;
            }
            root_ = name;
            fd_ = lock_directory(root_, LOCK_SH);
        } while (fd_ < 0); // another process has just removed it
        file("class/infiniband_verbs/abi_version", std::to_string(6));
        fs::create_directories(root_ / "class/infiniband");
        for (unsigned device = 0; device < softhca::config().devices; ++device) {
            add(device);
        }
        fs::create_directories(root_ / "module/nvidia_peermem");
    }
    void end()
    {
        if (fd_ >= 0) {
            close(fd_); // a forked child may have it still
            remove_unless_used(root_);
        }
    }
    const fs::path& root() const { return root_; }

  private:
    void file(const fs::path& name, const std::string& text)
    {
        fs::create_directories((root_ / name).parent_path());
        std::ofstream(root_ / name) << text << '\n';
    }
    void link(const fs::path& name, const fs::path& target)
    {
        fs::create_directories((root_ / name).parent_path());
        fs::create_symlink(fs::relative(root_ / target, (root_ / name).parent_path()),
                           root_ / name);
    }
    void add(unsigned device);
    void add_port(const fs::path& port, unsigned device);

    fs::path root_;
    int fd_ = -1;
};

// 16 bytes, two to a group; the kernel shows GIDs and GUIDs so.
std::string in_groups(const std::uint8_t* bytes, unsigned count)
{
    std::string text;
    for (unsigned i = 0; i < count; i += 2) {
        char group[8];
        std::snprintf(group, sizeof group, "%s%02x%02x", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
        text += group;
    }
    return text;
}

// Of softhca's device.
void Tree::add_port(const fs::path& port, unsigned device)
{
    file(port / "state", "4: ACTIVE");
    file(port / "phys_state", "5: LinkUp");
    const bool ethernet = softhca::profile_of(device).ethernet;
    file(port / "link_layer", ethernet ? "Ethernet" : "InfiniBand");
    file(port / "rate", "200 Gb/sec (4X HDR)");
    char lid[16];
    std::snprintf(lid, sizeof lid, "0x%x", softhca::port_lid(device));
    file(port / "lid", lid);
    for (unsigned index = 0; index < softhca::kGids; ++index) {
        const ibv_gid gid = softhca::port_gid(device, index);
        file(port / "gids" / std::to_string(index), in_groups(gid.raw, sizeof gid.raw));
        if (gid.global.interface_id != 0) { // the kernel tells no type of an empty entry
            file(port / "gid_attrs/types" / std::to_string(index),
                 ethernet ? "RoCE v2" : "IB/RoCE v1");
        }
    }
    unsigned index = 0;
    for (std::uint16_t pkey : softhca::profile_of(device).pkeys) {
        char text[16];
        std::snprintf(text, sizeof text, "0x%04x", pkey);
        file(port / "pkeys" / std::to_string(index++), text);
    }
}

void Tree::add(unsigned device)
{
    const std::string number = std::to_string(device);
    char slot[32];
    std::snprintf(slot, sizeof slot, "0000:00:%02x.0", kFirstPciSlot + device);
    const fs::path pci = fs::path("devices/pci0000:00") / slot;
    const fs::path ib = pci / "infiniband" / ("mlx5_" + number);
    const fs::path uverbs = pci / "infiniband_verbs" / ("uverbs" + number);
    const unsigned ports = softhca::config().ports_each;
    const std::uint64_t guid_bytes = softhca::device_guid(device * ports);
    const std::string guid = in_groups(reinterpret_cast<const std::uint8_t*>(&guid_bytes), 8);

    // A ConnectX-7, as which libmlx5 knows it.
    file(pci / "vendor", "0x15b3");
    file(pci / "device", "0x1021");
    file(pci / "modalias", "pci:v000015B3d00001021sv000015B3sd00000001bc02sc07i00");
    file(pci / "numa_node", "-1");
    file(pci / "local_cpus", "ffffffff");
    file(pci / "current_link_width", "16");
    file(pci / "current_link_speed", "32.0 GT/s PCIe");
    file(uverbs / "ibdev", "mlx5_" + number);
    file(uverbs / "dev", std::to_string(major(device_number(device))) + ":" +
                             std::to_string(minor(device_number(device))));
    file(uverbs / "abi_version", "1");
    file(ib / "node_type", "1: CA");
    file(ib / "node_guid", guid);
    file(ib / "sys_image_guid", guid);
    file(ib / "fw_ver", "28.99.1");
    file(ib / "hca_type", "MT4129");
    file(ib / "board_id", "SOFT_0000000001");
    for (unsigned port = 0; port < ports; ++port) {
        add_port(ib / "ports" / std::to_string(port + 1), device * ports + port);
    }
    link("class/infiniband" / ib.filename(), ib);
    link("class/infiniband_verbs" / uverbs.filename(), uverbs);
    link(ib / "device", pci);
    link(uverbs / "device", pci);
    link(fs::path("bus/pci/devices") / slot, pci);
}

const Tree& tree()
{
    static Tree& instance = *[] {
        static Tree* const made = new Tree; // what runs at exit may still look there
        std::atexit([] { made->end(); });
        return made;
    }();
    return instance;
}

// What is behind a directory of sysfs; null: the path is not there.
const char* behind(const char* path, std::string_view sysfs)
{
    return std::strncmp(path, sysfs.data(), sysfs.size()) == 0 ? path + sysfs.size() : nullptr;
}

} // namespace

std::string in_sysfs(const char* path)
{
    if (path == nullptr || path[0] != '/') {
        return {};
    }
    const char* rest = behind(path, "/sys/class/infiniband");
    if (rest == nullptr) {
        static const std::string chosen = std::string(softhca::sysfs_path()) + "/class/infiniband";
        rest = behind(path, chosen);
    }
    const bool is_ours =
        rest != nullptr && (rest[0] == '\0' || rest[0] == '/' || behind(rest, "_verbs") != nullptr);
    if (is_ours) {
        return tree().root().string() + "/class/infiniband" + rest;
    }
    // Which modules this machine has says nothing of these devices: their settings do.
    rest = behind(path, "/sys/module/nvidia_peermem");
    return rest != nullptr ? tree().root().string() + "/module/nvidia_peermem" + rest
                           : std::string();
}

int device_of_file(const char* path)
{
    const char* number = path == nullptr ? nullptr : behind(path, "/dev/infiniband/uverbs");
    if (number == nullptr || number[0] < '0' || number[0] > '9' || number[1] != '\0') {
        return -1;
    }
    const unsigned device = static_cast<unsigned>(number[0] - '0');
    return device < softhca::config().devices ? static_cast<int>(device) : -1;
}

dev_t device_number(unsigned device)
{
    constexpr unsigned kMajor = 231, kFirstMinor = 192; // InfiniBand's, and uverbs0's
    return makedev(kMajor, kFirstMinor + device);
}

} // namespace softmlx5
