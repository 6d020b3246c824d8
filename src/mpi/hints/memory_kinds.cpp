// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/hints/memory_kinds.hpp"

#include "mpi/hints/info_value.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace gdr::mpi {

namespace {

constexpr const char* kKey = "mpi_memory_alloc_kinds";

constexpr std::string_view kKinds[] = {"system",      "mpi",       "cuda",
                                       "cuda:device", "cuda:host", "cuda:managed"};
// In MPICH the target's CPU applies accumulate operations, whatever memory the window has.
constexpr std::string_view kKindsOfMpichWindows[] = {"system", "mpi", "cuda:host"};

std::span<const std::string_view> kinds_of(const Library& library, const Call& call)
{
    if (library.abi == &kMpich && std::string_view(call.name) == "Win_get_info") {
        return kKindsOfMpichWindows;
    }
    return kKinds;
}

bool lists(std::string_view list, std::string_view kind)
{
    for (size_t begin = 0; begin <= list.size();) {
        const size_t end = std::min(list.find(',', begin), list.size());
        if (list.substr(begin, end - begin) == kind) {
            return true;
        }
        begin = end + 1;
    }
    return false;
}

} // namespace

std::optional<int> get_info(const Invocation& invocation)
{
    const Library& library = invocation.library();
    const int result = invocation.make();
    if (result != 0) {
        return result;
    }
    const Word info = library.abi->handle_at(invocation.pointer(1), 0);
    const InfoValue own(library, info, kKey);
    if (own.result() != 0) {
        return own.result();
    }
    std::string list(own.text());
    for (std::string_view kind : kinds_of(library, invocation.call())) {
        if (!lists(list, kind)) {
            list.append(list.empty() ? "" : ",").append(kind);
        }
    }
    return list.size() <= InfoValue::kLongest ? library.Info_set(info, kKey, list.c_str()) : 0;
}

} // namespace gdr::mpi
