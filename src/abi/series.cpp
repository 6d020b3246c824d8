// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The choice of a series.
#include "abi/series.hpp"

#include "abi/host.hpp"
#include "abi/libucp.hpp"
#include "abi/ucx.hpp"
#include "abi/ucx_log.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace gdr::abi {
namespace {

std::string text(const Version& version)
{
    return std::to_string(version.major) + "." + std::to_string(version.minor);
}

std::string supported()
{
    return text(all_series().front().version) + " to " + text(all_series().back().version);
}

const Series* find(const Version& version)
{
    const auto found = std::ranges::find(all_series(), version, &Series::version);
    return found == all_series().end() ? nullptr : &*found;
}

std::string sizes(size_t iface, size_t ep)
{
    return std::to_string(iface) + " and " + std::to_string(ep);
}

// The series that the user forces, "1.22" in "force:1.22".
Choice choose_forced(std::string_view value)
{
    constexpr std::string_view kForce = "force:";
    Version version{};
    if (value.starts_with(kForce)) {
        const char* end = value.data() + value.size();
        const auto major = std::from_chars(value.data() + kForce.size(), end, version.major);
        if (major.ptr != end && *major.ptr == '.' &&
            std::from_chars(major.ptr + 1, end, version.minor).ptr == end) {
            if (const Series* series = find(version)) {
                return {series, {}};
            }
        }
    }
    return {nullptr, "UCX_GDR_ABI=" + std::string(value) +
                         " is neither auto nor force:VERSION of UCX " + supported()};
}

std::string resolved(const std::string& path)
{
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                           std::free);
    return real ? real.get() : path;
}

std::string directory(const std::string& path)
{
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

Found look_around()
{
    Found found{};
    found.uct_path = library_of(ucx().base_iface_class);
    found.base_iface_size = ucx().base_iface_class->size;
    found.base_ep_size = ucx().base_ep_class->size;
    if (const char* value = std::getenv("UCX_GDR_ABI")) {
        found.override = value;
    }

    const Libucp ucp(ucx().libuct, found.uct_path);
    unsigned release;
    ucp.get_version(&found.version.major, &found.version.minor, &release);
    found.ucp_path = ucp.path();
    found.version_text = text(found.version) + "." + std::to_string(release);
    return found;
}

Choice choose_here()
{
    try {
        return choose(look_around());
    } catch (const std::exception& error) {
        return {nullptr, std::string("UCX could not be identified: ") + error.what()};
    }
}

Choice choice{};

} // namespace

Choice choose(const Found& found)
{
    if (!found.override.empty() && found.override != "auto") {
        return choose_forced(found.override);
    }

    const std::string where = "UCX " + found.version_text + " (" + found.uct_path + ")";
    if (directory(resolved(found.uct_path)) != directory(resolved(found.ucp_path))) {
        return {nullptr, "this process mixes two UCX installations, " + found.uct_path + " and " +
                             found.ucp_path +
                             "; put the directory of one of them first in LD_LIBRARY_PATH"};
    }

    const Series* series = find(found.version);
    if (!series) {
        return {nullptr, where + " is not supported by this ucx-gdr, which knows UCX " +
                             supported() +
                             "; use one of these or a newer ucx-gdr (UCX_GDR_ABI=force:" +
                             text(all_series().back().version) + " tries it at your own risk)"};
    }
    if (found.base_iface_size != series->base_iface_size ||
        found.base_ep_size != series->base_ep_size) {
        return {nullptr, where + " lays out its interfaces differently (" +
                             sizes(found.base_iface_size, found.base_ep_size) +
                             " bytes instead of " +
                             sizes(series->base_iface_size, series->base_ep_size) +
                             "); use a UCX built without --enable-stats"};
    }
    return {series, {}};
}

bool choose_series()
{
    log_to_ucx();
    if (!choice.series) { // a choice is final
        choice = choose_here();
    }
    return choice.series != nullptr;
}

const std::string& why_not()
{
    return choice.why_not;
}

const Series& series()
{
    return *choice.series;
}

} // namespace gdr::abi
