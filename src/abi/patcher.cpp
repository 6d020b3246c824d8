// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Looks functions up by handle: a UCX without the patcher is served, too.
#include "abi/patcher.hpp"

#include "abi/settings.hpp"
#include "abi/uct_calls.hpp"
#include "abi/ucx.hpp"

#include <cstdint>
#include <cstring>

#include <dlfcn.h>

extern "C" {
#include <ucs/type/status.h>
}

namespace gdr::abi {
namespace {

template <class Function>
Function* find(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(ucx().libuct, name));
}

// A relative "jmp", which patchers write over the beginning of a function and which UCX's patcher
// cannot relocate.
struct [[gnu::packed]] Jump {
    uint8_t opcode;
    int32_t distance;
};

#ifdef __x86_64__
constexpr uint8_t kJump = 0xe9;

// Redirects the jump of another patcher to hook, by one store. False: there is none, or hook is too
// far.
bool redirect(void* function, void* hook, void** original)
{
    Jump jump;
    std::memcpy(&jump, function, sizeof(jump));
    auto* const end = static_cast<char*>(function) + sizeof(jump);
    const ptrdiff_t distance = static_cast<char*>(hook) - end;
    auto* const apply = find<ApplyPatch>("ucm_bistro_apply_patch");
    if (jump.opcode != kJump || apply == nullptr || distance != static_cast<int32_t>(distance)) {
        return false;
    }
    *original = end + jump.distance;
    jump.distance = static_cast<int32_t>(distance);
    return apply(static_cast<char*>(function) + sizeof(jump.opcode), &jump.distance,
                 sizeof(jump.distance)) == UCS_OK;
}
#else
bool redirect(void*, void*, void**)
{
    return false;
}
#endif

} // namespace

std::string patch_function(void* function, void* hook, const char* name, void** original)
{
    if (redirect(function, hook, original)) {
        return {};
    }
    auto* const patch = find<PatchFunction>("ucm_bistro_patch");
    if (patch == nullptr) {
        return "this UCX exports no ucm_bistro_patch";
    }
    const ucs_status_t status = patch(function, hook, name, original, nullptr);
    return status == UCS_OK ? std::string()
                            : std::string("UCX's patcher: ") + ucs_status_string(status);
}

bool user_allows_patches()
{
    const auto modes = user_setting("MEM_CUDA_HOOK_MODE");
    return !modes || modes->find("bistro") != std::string::npos;
}

} // namespace gdr::abi
