// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading sysfs.
#include "verbs/sysfs.hpp"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <iterator>
#include <sstream>
#include <string_view>
#include <unistd.h>

namespace gdr::verbs {
namespace {

// Empty if the file cannot be read. Uses open(2), which an emulated HCA intercepts.
std::string read(const std::filesystem::path& file)
{
    std::string text;
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return text;
    }
    char piece[4096];
    for (ssize_t length; (length = ::read(fd, piece, sizeof(piece))) > 0;) {
        text.append(piece, static_cast<size_t>(length));
    }
    close(fd);
    return text;
}

// "0000:3b:00.0"
bool is_pci_bus_id(const std::string& name)
{
    return name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

} // namespace

bool Sysfs::exists() const
{
    std::error_code ignored;
    return std::filesystem::exists(directory_, ignored);
}

std::string Sysfs::pci_bus_id() const
{
    std::error_code failed;
    auto device = std::filesystem::canonical(this->device(), failed);
    while (!is_pci_bus_id(device.filename())) {
        if (!device.has_relative_path()) {
            return {};
        }
        device = device.parent_path();
    }
    return device.filename();
}

double Sysfs::rate(unsigned number) const
{
    const std::string text = read(port(number) / "rate"); // "800 Gb/sec (4X XDR)"
    // The kernel shows unknown speeds as SDR.
    const bool known = text.find(" SDR)") == std::string::npos;
    return known ? std::strtod(text.c_str(), nullptr) : 0;
}

bool Sysfs::shows_interfaces(unsigned number) const
{
    std::error_code ignored;
    return std::filesystem::exists(port(number) / "gid_attrs/ndevs", ignored);
}

std::string Sysfs::interface(unsigned number, int gid_index) const
{
    const std::string text = read(port(number) / "gid_attrs/ndevs" / std::to_string(gid_index));
    return text.substr(0, text.find('\n'));
}

unsigned Sysfs::links(unsigned number, int gid_index) const
{
    const std::string name = interface(number, gid_index);
    if (name.empty()) {
        return 1;
    }
    const auto bond = directory_.parent_path().parent_path() / "net" / name / "bonding";
    if (read(bond / "mode").starts_with("active-backup")) {
        return 1;
    }
    std::istringstream links(read(bond / "slaves")); // "ens1f0 ens1f1"
    const auto count = std::distance(std::istream_iterator<std::string>(links),
                                     std::istream_iterator<std::string>());
    return std::max(1u, static_cast<unsigned>(count));
}

bool Sysfs::manages_switches() const
{
    return read(directory_ / "node_desc").find(kSwitchManagement) != std::string::npos ||
           read(directory_ / "device/vpd").find(kSwitchManagement) != std::string::npos;
}

std::filesystem::path Sysfs::port(unsigned number) const
{
    return directory_ / "ports" / std::to_string(number);
}

} // namespace gdr::verbs
