// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The settings, and why.
#include "plugin/prepare_host.hpp"

#include "abi/host.hpp"
#include "abi/own_cuda.hpp"
#include "abi/settings.hpp"
#include "cuda/driver.hpp"
#include "plugin/short_sends.hpp"

namespace gdr::plugin {
namespace {

constexpr const char* kMemtypeCache = "MEMTYPE_CACHE";
constexpr const char* kReason =
    "what this cache misses counts as host memory, and nothing fills it but a UCX with CUDA, with "
    "the allocations that it sees";

enum class State { unchanged, off, not_taken };
State memtype_cache = State::unchanged;

// A global option is in force at once; as a default it is also what ucx_info -c shows.
bool set_global_and_default(const char* name, const char* value)
{
    return abi::set_global_option(name, value) && abi::set_default(name, value);
}

// A UCX with CUDA of its own needs gdr beside its transports, and programs may ask it for those.
void choose_transports()
{
    const auto transports = abi::user_setting("GDR_TLS");
    if (!transports || transports->empty() || abi::user_setting("TLS") || abi::built_with_cuda())
        return;
    if (!abi::set_default("TLS", transports->c_str()))
        gdr_log(warn, "UCX did not take UCX_TLS=%s from UCX_GDR_TLS: set UCX_TLS",
                transports->c_str());
}

} // namespace

void prepare_host(Moment moment)
{
    choose_transports();
    if (!abi::user_wants_gdr() || cuda::open_driver() == nullptr)
        return;
    if (moment == Moment::ucx_starts)
        prepare_short_sends();
    if (!abi::user_setting(kMemtypeCache))
        memtype_cache = set_global_and_default(kMemtypeCache, "n") ? State::off : State::not_taken;
}

void report_preparation()
{
    if (memtype_cache == State::off)
        gdr_log(info, "UCX_%s=n: %s", kMemtypeCache, kReason);
    if (memtype_cache == State::not_taken)
        gdr_log(warn, "UCX did not take UCX_%s=n, set it in the environment: %s", kMemtypeCache,
                kReason);
}

} // namespace gdr::plugin
