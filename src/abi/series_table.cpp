// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// All series, oldest first. A new series is a layout that derives from the newest, and a line here.
#include "abi/layout_1_19.hpp"
#include "abi/series.hpp"
#include "abi/trampolines_process.hpp"

namespace gdr::abi {
namespace {

template <class L>
constexpr Series series_of(Version version)
{
    return {
        .version = version,
        .base_iface_size = sizeof(BaseIface),
        .base_ep_size = sizeof(BaseEp),
        .internal_ops = &kInternalOps<L>,
        .md_ops = &kMdOps<L>,
        .internal_ops_size = sizeof(typename L::InternalOpsTable),
        .md_ops_size = sizeof(typename L::MdOps),
        .protocols_v2_default = L::kProtocolsV2,
        .invalidates_later = L::kInvalidatesLater,
        .caches_soundly = L::kCachesSoundly,
        .reads_behind_rts = L::kReadsBehindRts,
        .counts_answers = L::kCountsAnswers,
        .register_component = register_component<L>,
        .read_options = read_options<L>,
        .tell_memory = tell_memory<L>,
        .perftest = {.rte_group = L::kPerfContextRteGroup,
                     .rte = L::kPerfContextRte,
                     .group_index = L::kPerfRteGroupIndex,
                     .component = L::kPerfContextComponent,
                     .component_assert = L::kPerfContextComponentAssert},
    };
}

constexpr Series kSeries[] = {
    series_of<Layout_1_13>({1, 13}), series_of<Layout_1_14>({1, 14}),
    series_of<Layout_1_15>({1, 15}), series_of<Layout_1_16>({1, 16}),
    series_of<Layout_1_17>({1, 17}), series_of<Layout_1_18>({1, 18}),
    series_of<Layout_1_19>({1, 19}), series_of<Layout_1_20>({1, 20}),
    series_of<Layout_1_21>({1, 21}), series_of<Layout_1_22>({1, 22}),
    series_of<Layout_1_23>({1, 23}),
};

} // namespace

std::span<const Series> all_series()
{
    return kSeries;
}

} // namespace gdr::abi
