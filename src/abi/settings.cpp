// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX's variables, read and set through its own parser.
#include "abi/settings.hpp"

#include "abi/context_settings.hpp"
#include "abi/series.hpp"
#include "abi/transport_list.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <dlfcn.h>
#include <execinfo.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

extern "C" {
#include <ucs/config/global_opts.h>
#include <ucs/config/parser.h>
}

namespace gdr::abi {
namespace {

// A default that no user gives, so it means that the variable is not set.
constexpr const char* kUnset = "\x01";

void read_or_throw(const OptionTable& table, void* storage, bool listed)
{
    const ucs_status_t status = series().read_options(table, storage, listed);
    if (status != UCS_OK) {
        throw std::runtime_error(std::string("reading the variables of ") + table.name + ": " +
                                 ucs_status_string(status));
    }
}

} // namespace

void register_options(const OptionTable& table, void* storage)
{
    read_or_throw(table, storage, true);
}

std::optional<std::string> user_setting(const char* name)
{
    char* value = nullptr;
    const OptionTable table{name, "", {{name, kUnset, "", 0, OptionType::string}}, sizeof(value)};
    read_or_throw(table, &value, false);
    const std::unique_ptr<char, decltype(&std::free)> owner(value, std::free);
    if (!value || std::string(value) == kUnset) {
        return std::nullopt;
    }
    return value;
}

bool user_names_gdr()
{
    const auto tls = context_setting("TLS");
    return names_transport(tls ? *tls : user_setting("GDR_TLS").value_or(""), "gdr");
}

bool user_wants_gdr()
{
    return lists_transport(context_setting("TLS").value_or("all"), "gdr");
}

bool set_default(const char* name, const char* value)
{
    // The parser for configuration files is the only way to set a value that the environment
    // overrides. It opens a directory and a file name.
    const int fd = memfd_create("ucx.conf", MFD_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const std::string line = std::string("UCX_") + name + "=" + value + "\n";
    if (write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size())) {
        ucs_config_parse_config_file("/proc/self/fd", std::to_string(fd).c_str(), 1);
    }
    close(fd);
    return user_setting(name) == value;
}

bool set_global_option(const char* name, const char* value)
{
    return ucs_global_opts_set_value(name, value) == UCS_OK;
}

bool ucp_is_loading_us()
{
    void* frames[64];
    const int count = backtrace(frames, 64);
    return std::any_of(frames, frames + count, [](void* frame) {
        Dl_info info;
        return dladdr(frame, &info) && info.dli_fname && std::strstr(info.dli_fname, "/libucp");
    });
}

bool says_no(const std::string& value)
{
    constexpr std::array words{"n", "no", "off", "0"};
    return std::ranges::any_of(words,
                               [&](const char* no) { return strcasecmp(value.c_str(), no) == 0; });
}

bool boolean_setting(const char* name, bool otherwise)
{
    int value = 0;
    const OptionTable table{
        name, "", {{name, otherwise ? "y" : "n", "", 0, OptionType::boolean}}, sizeof(value)};
    read_or_throw(table, &value, false);
    return value != 0;
}

bool protocols_v2()
{
    const auto setting = context_setting("PROTO_ENABLE");
    return setting ? !says_no(*setting) : series().protocols_v2_default;
}

bool reads_behind_rts()
{
    return series().reads_behind_rts;
}

double told_latency(EpOperation operation, double latency)
{
    if (!series().counts_answers) {
        return latency;
    }
    switch (operation) {
    case EpOperation::am_zcopy:
    case EpOperation::put_zcopy:
        return latency / 2;
    case EpOperation::get_zcopy: // there and back, and once more
        return latency * 2 / 3;
    default:
        return latency;
    }
}

} // namespace gdr::abi
