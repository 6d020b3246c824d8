// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The list as NVIDIA's driver 580 reads it.
#include "emu/softcuda/visible_devices.hpp"

#include "emu/softcuda/device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include <strings.h>

namespace softcuda {

namespace {

constexpr std::string_view kOfUuid = "GPU-";

/// As nvidia-smi writes it.
std::string uuid_text(int number)
{
    const CUuuid uuid = uuid_of(number);
    std::string text(kOfUuid);
    for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
        char digits[4];
        std::snprintf(digits, sizeof(digits), "%s%02x", i >= 4 && i <= 10 && i % 2 == 0 ? "-" : "",
                      static_cast<unsigned char>(uuid.bytes[i]));
        text += digits;
    }
    return text;
}

/// By the beginning of its UUID, which has to be that of one device alone.
std::optional<int> by_uuid(const std::string& entry, int count)
{
    std::optional<int> found;
    for (int number = 0; number < count; ++number) {
        const std::string uuid = uuid_text(number);
        if (strncasecmp(uuid.c_str(), entry.c_str(), std::min(uuid.size(), entry.size())) == 0) {
            if (found) {
                return std::nullopt;
            }
            found = number;
        }
    }
    return found;
}

/// By its number, whatever is behind the digits.
std::optional<int> by_number(const std::string& entry, int count)
{
    char* end = nullptr;
    const long number = std::strtol(entry.c_str(), &end, 10);
    if (end == entry.c_str() || number < 0 || number >= count) {
        return std::nullopt;
    }
    return static_cast<int>(number);
}

} // namespace

std::vector<int> visible_devices(int count)
{
    const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
    if (list == nullptr) {
        std::vector<int> all(static_cast<size_t>(count));
        std::iota(all.begin(), all.end(), 0);
        return all;
    }
    // Numbers or UUIDs, as the first entry is: one of the other kind ends the list.
    const bool of_uuids = std::string_view(list).starts_with(kOfUuid);
    std::vector<int> visible;
    for (std::string_view rest = list;;) {
        const size_t comma = rest.find(',');
        const std::string entry(rest.substr(0, comma));
        const bool is_uuid = entry.starts_with(kOfUuid);
        const std::optional<int> number = is_uuid ? by_uuid(entry, count) : by_number(entry, count);
        if (!number || is_uuid != of_uuids) {
            return visible;
        }
        require(std::ranges::find(visible, *number) == visible.end(), CUDA_ERROR_INVALID_DEVICE);
        visible.push_back(*number);
        if (comma == std::string_view::npos) {
            return visible;
        }
        rest.remove_prefix(comma + 1);
    }
}

} // namespace softcuda
