// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Collects why HCAs cannot be used, and logs the reasons.
#include "rc/component/hca_search.hpp"

#include "abi/settings.hpp"
#include "log/log.hpp"
#include "rc/component/gpu_map.hpp"

#include <utility>

namespace gdr::rc {

void HcaSearch::begin(const std::vector<std::string>& names)
{
    const std::lock_guard guard(mutex_);
    expected_ = names.size();
    usable_.clear();
    reasons_.clear();
}

void HcaSearch::record(const std::string& name, const std::vector<topology::Port>& usable,
                       const std::string& unusable)
{
    const std::lock_guard guard(mutex_);
    usable_.insert(usable_.end(), usable.begin(), usable.end());
    reasons_[name] = unusable;
    if (reasons_.size() < expected_) {
        return;
    }
    // This was the last HCA. A single port without a cable is common and harmless; no usable port
    // at all is not.
    std::string all;
    for (const auto& [hca, reason] : reasons_) {
        if (!reason.empty()) {
            all += (all.empty() ? "" : "; ") + reason;
        }
    }
    if (!usable_.empty() && !all.empty()) {
        gdr_log(diag, "ports not used: %s", all.c_str());
    }
    if (usable_.empty() && !all.empty() && !std::exchange(logged_, true)) {
        log::message(abi::user_names_gdr() ? log::Level::warn : log::Level::diag, __FILE__,
                     __LINE__,
                     "no HCA can be used, so no network transport: %s (UCX's other transports, "
                     "such as tcp, serve if UCX_TLS has them)",
                     all.c_str());
    }
    if (!usable_.empty()) {
        log_gpu_map(usable_);
    }
}

HcaSearch& hca_search()
{
    static HcaSearch instance;
    return instance;
}

} // namespace gdr::rc
