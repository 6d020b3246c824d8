// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of the kernel.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

#include "config.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

namespace gdr::doctor {
namespace {

constexpr const char* kPackedConfig = "/proc/config.gz";

// Empty if it is no whole gzip file, or this build lacks zlib.
std::string unpacked([[maybe_unused]] std::string packed)
{
#ifdef HAVE_ZLIB
    constexpr int kGzip = 16 + MAX_WBITS;
    z_stream stream{};
    if (inflateInit2(&stream, kGzip) != Z_OK) {
        return {};
    }
    stream.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_in = static_cast<uInt>(packed.size());
    std::string text;
    int status = Z_OK;
    while (status == Z_OK) {
        std::array<char, 65536> piece;
        stream.next_out = reinterpret_cast<Bytef*>(piece.data());
        stream.avail_out = piece.size();
        status = inflate(&stream, Z_NO_FLUSH);
        text.append(piece.data(), piece.size() - stream.avail_out);
    }
    inflateEnd(&stream);
    return status == Z_STREAM_END ? text : "";
#else
    return {};
#endif
}

} // namespace

Result sysfs_is_mounted(const Machine& machine)
{
    if (machine.root.exists("/sys/devices/system/cpu")) {
        return pass("/sys is mounted");
    }
    return fail("/sys is not mounted: UCX aborts in most programs", "mount -t sysfs sysfs /sys")
        .by_root();
}

Result kernel_dmabuf(const Machine& machine)
{
    std::string file = "/boot/config-" + machine.root.facts().kernel;
    auto config = machine.root.read(file);
    if (!config && machine.root.exists(kPackedConfig)) {
        file = kPackedConfig;
        config = machine.root.read(file);
        config.text = unpacked(config.text);
        if (config.text.empty()) {
            return unknown(file + " cannot be unpacked");
        }
    }
    if (!config) {
        return unreadable(file, config.error);
    }
    const auto options = lines(config.text);
    std::vector<std::string> missing;
    for (const char* option : {"CONFIG_DMA_SHARED_BUFFER=y", "CONFIG_PCI_P2PDMA=y"}) {
        if (std::ranges::find(options, option) == options.end()) {
            missing.emplace_back(option);
        }
    }
    if (missing.empty()) {
        return pass("the kernel was built for dmabuf between PCI devices");
    }
    return fail("the kernel was built without " + joined(missing, ", ") +
                    ": no dmabuf of GPU memory",
                machine.driver.has_peermem ? "" : "modprobe nvidia_peermem")
        .with_detail(machine.driver.has_peermem ? "nvidia_peermem is loaded and serves instead"
                                                : "")
        .by_root()
        .seen_in(file, "not there: " + joined(missing, ", "));
}

} // namespace gdr::doctor
