// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Recognised by the name of a file: asking UCX for its components would open its modules, and CUDA
// with them.
#include "abi/own_cuda.hpp"

#include "abi/libucp.hpp"
#include "abi/ucx.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace gdr::abi {
namespace {

bool find_module()
{
    namespace fs = std::filesystem;
    const fs::path modules = fs::path(library_of(ucx().base_iface_class)).parent_path() / "ucx";
    std::error_code nothing_there;
    const fs::directory_iterator first(modules, nothing_there);
    return std::any_of(first, fs::directory_iterator(), [](const fs::directory_entry& entry) {
        return entry.path().filename().string().starts_with("libuct_cuda.so");
    });
}

} // namespace

bool built_with_cuda()
{
    static const bool found = find_module();
    return found;
}

} // namespace gdr::abi
