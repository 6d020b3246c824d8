// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX 1.19 to 1.23: what each changed in the plugin ABI of the series before it.
#pragma once

#include "abi/layout_1_14.hpp"

namespace gdr::abi {

struct Layout_1_19 : Layout_1_18 {
    static constexpr uint64_t kMdFlagMemtypeCopy = 1 << 13;

    // uct_md_ops_t
    using MdOps = Row<MdQuery, MdAllocate<ucs_sys_device_t>, MdRegister<const void*>,
                      MdPack<void*, size_t>, MdAttach, MdDetect>;

    // uct_component_t: rkey_unpack() with parameters
    using UctComponent = Row<ComponentCalls, ComponentRkey<const void*>, ComponentCompare,
                             ComponentLists<ConfigEntry>>;

    // uct_perf_attr_t
    struct PerfPath {
        uct_ppn_bandwidth_t path_bandwidth;
    };
    using PerfAttr = Row<PerfInput, PerfPath, PerfLatency, PerfFlags>;

    enum PerfAttrLaterField : uint64_t { // all of them renumbered
        kPerfAttrPathBandwidth = 1 << 9,
        kPerfAttrLatency = 1 << 10,
        kPerfAttrMaxInflightEps = 1 << 11,
        kPerfAttrFlags = 1 << 12,
    };
};

struct Layout_1_20 : Layout_1_19 {
    // uct_iface_attr_v2_t
    struct IfaceAttrV2 {
        uint64_t field_mask;
        size_t device_mem_element_size;
    };

    enum IfaceAttrV2Field : uint64_t { kIfaceAttrV2ElementSize = 1 << 0 };

    // uct_iface_internal_ops_t
    struct IfaceQueryV2 {
        ucs_status_t (*iface_query_v2)(uct_iface_h iface, void* attr); // IfaceAttrV2
    };
    struct IfaceElement {
        ucs_status_t (*iface_mem_element_pack)(uct_iface_h iface, uct_mem_h memh, uct_rkey_t rkey,
                                               void* element);
    };
    struct EpDevice {
        ucs_status_t (*ep_get_device_ep)(uct_ep_h ep, void** device_ep);
    };
    using InternalOpsTable =
        Row<IfaceQueryV2, IfaceOps, IfaceElement, EpOps<unsigned>, ConnectionOps, EpDevice>;

    static constexpr size_t kPerfContextRteGroup = 160;
    static constexpr size_t kPerfContextRte = 168;
    static constexpr size_t kPerfContextComponent = 17432;
    static constexpr size_t kPerfContextComponentAssert = 17456;

    static constexpr bool kCountsAnswers = false;
};

struct Layout_1_21 : Layout_1_20 {
    // uct_md_ops_t
    struct MdElement {
        ucs_status_t (*mem_elem_pack)(uct_md_h md, uct_mem_h memh, uct_rkey_t rkey, void* element);
    };
    using MdOps = Row<MdQuery, MdAllocate<ucs_sys_device_t>, MdRegister<const void*>,
                      MdPack<void*, size_t>, MdAttach, MdDetect, MdElement>;

    // uct_iface_internal_ops_t: without the two of 1.20, ep_invalidate() with parameters
    using InternalOpsTable = Row<IfaceOps, EpOps<const void*>, ConnectionOps, EpDevice>;

    static constexpr size_t kPerfContextRteGroup = 184;
    static constexpr size_t kPerfContextRte = 192;
    static constexpr size_t kPerfContextComponent = 17456;
    static constexpr size_t kPerfContextComponentAssert = 17480;
};

struct Layout_1_22 : Layout_1_21 {
    // uct_md_attr_v2_t
    struct MdAttrRequired {
        uint8_t required_mem_flags;
    };
    using MdAttr = Row<MdAttrLimits, MdAttrNonblock, MdAttrCache, MdAttrGlobalVa, MdAttrTypes,
                       MdAttrAlignment, MdAttrRequired>;

    // uct_md_mem_attr_v2_t
    struct MemAttr : Layout_1_21::MemAttr {
        uint8_t mem_flags; // UCT has set the default, which is right for us
    };

    // ucs_memory_info_t
    struct MemoryFlags {
        uint8_t mem_flags = 1 << 0; // the default: memory domains can register it
    };
    using LookedUp = Row<Memory, MemoryFlags>;

    // uct_iface_attr_v2_t: its beginning
    struct IfaceAttrV2 {
        uint64_t field_mask;
        size_t max_put_sgl_zcopy_count;
        uint64_t cap_flags;
    };

    enum IfaceAttrV2Field : uint64_t {
        kIfaceAttrV2MaxPut = 1 << 0,
        kIfaceAttrV2Cap = 1 << 1,
    };

    // uct_iface_internal_ops_t
    using ScatterGather = ucs_status_t(uct_ep_h ep, void* const* buffers, const size_t* lengths,
                                       uct_mem_h const* memhs, const uint64_t* remote_addresses,
                                       uct_rkey_t const* rkeys, const size_t* counts,
                                       const size_t* strides, size_t count, uct_completion_t* comp);
    struct EpPutSgl {
        ScatterGather* ep_put_sgl_zcopy;
    };
    using InternalOpsTable =
        Row<IfaceQueryV2, IfaceOps, EpOps<const void*>, ConnectionOps, EpDevice, EpPutSgl>;
};

struct Layout_1_23 : Layout_1_22 {
    // uct_md_ops_t
    struct MdElement {
        ucs_status_t (*mem_elem_pack)(uct_md_h md, uct_mem_h memh, uct_rkey_t rkey, void* element,
                                      void** release_handle);
        void (*mem_elem_release)(uct_md_h md, void* release_handle);
    };
    using MdOps = Row<MdQuery, MdAllocate<ucs_sys_device_t>, MdRegister<const void*>,
                      MdPack<void*, size_t>, MdAttach, MdDetect, MdElement>;

    // uct_iface_attr_v2_t: its beginning
    struct IfaceAttrV2 {
        uint64_t field_mask;
        size_t max_put_sgl_zcopy_count;
        size_t max_get_sgl_zcopy_count;
        uint64_t cap_flags;
    };

    enum IfaceAttrV2Field : uint64_t {
        kIfaceAttrV2MaxPut = 1 << 0,
        kIfaceAttrV2MaxGet = 1 << 1,
        kIfaceAttrV2Cap = 1 << 2,
    };

    // uct_iface_internal_ops_t
    struct EpGetSgl {
        ScatterGather* ep_get_sgl_zcopy;
    };
    struct EpPurge {
        ucs_status_t (*ep_outstanding_purge)(uct_ep_h ep, const void* params);
    };
    using InternalOpsTable = Row<IfaceQueryV2, IfaceOps, EpOps<const void*>, ConnectionOps,
                                 EpDevice, EpPutSgl, EpGetSgl, EpPurge>;
};

} // namespace gdr::abi
