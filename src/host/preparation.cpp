// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which changes, in which order.
#include "host/preparation.hpp"

#include "abi/settings.hpp"
#include "cuda/driver.hpp"
#include "host/memtype_cache.hpp"
#include "host/registration_cache.hpp"
#include "host/transports.hpp"
#include "verbs/device.hpp"

namespace gdr::host {
namespace {

// The device name of an HCA contains a port number: "mlx5_0:1". A list that may be a pattern, or
// that excludes devices, counts as naming one.
bool user_names_no_hca()
{
    const auto devices = abi::user_setting("NET_DEVICES");
    return devices && !devices->empty() && devices->find_first_of(":*?[^") == std::string::npos &&
           devices->find("all") == std::string::npos;
}

bool may_use_hcas()
{
    return verbs::may_have_devices() && !user_names_no_hca();
}

std::string too_late(const Variable& variable)
{
    return std::string("UCX loaded it after reading its configuration, too late for UCX_") +
           variable.name() + "=" + variable.value() +
           ": set that, or link libuct_gdr.so.0 as libucs_gdr.so.0 too into its directory, so "
           "that UCX loads it earlier (" +
           variable.reason() + ")";
}

} // namespace

std::string prepare(Moment moment)
{
    if (!abi::user_wants_gdr() || cuda::open_driver() == nullptr) {
        return {};
    }
    const bool harmful = registration_cache().is_harmful();
    const bool off = harmful && may_use_hcas();
    if (off && moment == Moment::loaded && abi::ucp_is_loading_us()) {
        return too_late(registration_cache());
    }
    if (transports().has_other_default()) {
        transports().apply();
        transports().report();
    }
    if (off) {
        registration_cache().apply();
    } else if (harmful) {
        registration_cache().keep();
    }
    if (moment == Moment::ucx_starts) {
        memtype_cache().hold();
    }
    if (memtype_cache().is_open()) {
        memtype_cache().apply();
    }
    return {};
}

void report_preparation()
{
    memtype_cache().report();
    registration_cache().report();
}

} // namespace gdr::host
