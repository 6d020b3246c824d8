// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX 1.14 to 1.18: what each changed in the plugin ABI of the series before it.
#pragma once

#include "abi/layout_1_13.hpp"

namespace gdr::abi {

struct Layout_1_14 : Layout_1_13 {
    // uct_md_attr_v2_t
    struct MdAttrLimits {
        uint64_t field_mask;
        uint64_t max_alloc;
        size_t max_reg;
        uint64_t flags;
        uint64_t reg_mem_types;
    };
    struct MdAttrCache {
        uint64_t cache_mem_types;
    };
    struct MdAttrTypes {
        uint64_t detect_mem_types;
        uint64_t alloc_mem_types;
        uint64_t access_mem_types;
        uint64_t dmabuf_mem_types;
        ucs_linear_func_t reg_cost;
        char component_name[16];
        size_t rkey_packed_size;
        ucs_cpu_set_t local_cpus;
        size_t exported_mkey_packed_size;
        char global_id[256];
    };
    using MdAttr = Row<MdAttrLimits, MdAttrCache, MdAttrTypes>;

    // uct_md_mem_attr_t
    struct MemAttr : Layout_1_13::MemAttr {
        int dmabuf_fd;
        size_t dmabuf_offset;
    };

    enum MemAttrDmabufField : uint64_t {
        kMemAttrDmabufFd = 1 << 4,
        kMemAttrDmabufOffset = 1 << 5,
    };

    // uct_md_mem_reg_params_t: its beginning
    struct RegParams {
        uint64_t field_mask;
        uint64_t flags;
    };

    static constexpr uint64_t kRegFlags = 1 << 0; // in its field_mask

    static constexpr bool kHeedsAccess = false; // UCP uses cached registrations for every access

    // uct_md_ops_t
    struct MdAttach {
        ucs_status_t (*mem_attach)(uct_md_h md, const void* buffer, void* params, uct_mem_h* memh);
    };
    using MdOps = Row<MdQuery, MdAllocate<>, MdRegister<const void*>, MdPack<>, MdAttach,
                      MdSockaddr, MdDetect>;

    // uct_iface_internal_ops_t
    struct EpConnect {
        ucs_status_t (*ep_connect_to_ep_v2)(uct_ep_h ep, const uct_device_addr_t* device,
                                            const uct_ep_addr_t* address, const void* params);
    };
    using InternalOpsTable = Row<IfaceOps, EpOps<unsigned>, EpConnect>;
};

struct Layout_1_15 : Layout_1_14 {
    // ucs_config_global_list_entry_t
    struct ConfigEntry : Layout_1_14::ConfigEntry {
        uint8_t flags;
    };

    using FillOptions = ucs_status_t(void* options, void* entry, const char* env_prefix,
                                     int ignore_errors);

    // uct_md_attr_v2_t
    struct MdAttrNonblock {
        uint64_t reg_nonblock_mem_types;
    };
    using MdAttr = Row<MdAttrLimits, MdAttrNonblock, MdAttrCache, MdAttrTypes>;

    static constexpr uint64_t kMdFlagsInvalidate = 3 << 11; // ..._RMA and ..._AMO

    static constexpr bool kReadsBehindRts = false;

    using UctComponent = Row<ComponentCalls, ComponentRkey<>, ComponentLists<ConfigEntry>>;
    using Tl = TlOf<ConfigEntry>;

    // uct_iface_is_reachable_params_t: its beginning
    struct ReachableParams {
        uint64_t field_mask;
        const uct_device_addr_t* device_addr;
        const uct_iface_addr_t* iface_addr;
        char* info_string;
        size_t info_string_length;
        unsigned scope;
    };

    enum ReachableField : uint64_t {
        kReachableDeviceAddr = 1 << 0,
        kReachableIfaceAddr = 1 << 1,
        kReachableInfoString = 1 << 2,
        kReachableInfoStringLength = 1 << 3,
        kReachableScope = 1 << 4,
    };

    static constexpr unsigned kReachableScopeDevice = 0;

    // uct_iface_internal_ops_t
    struct IfaceReachable {
        int (*iface_is_reachable_v2)(uct_iface_h iface, const ReachableParams* params);
    };
    using InternalOpsTable = Row<IfaceOps, EpOps<unsigned>, EpConnect, IfaceReachable>;
};

struct Layout_1_16 : Layout_1_15 {
    static constexpr bool kCachesSoundly = true;

    // uct_md_attr_v2_t
    struct MdAttrAlignment {
        size_t reg_alignment;
    };
    using MdAttr = Row<MdAttrLimits, MdAttrNonblock, MdAttrCache, MdAttrTypes, MdAttrAlignment>;

    // uct_md_ops_t
    using MdOps = Row<MdQuery, MdAllocate<>, MdRegister<const void*>, MdPack<void*, size_t>,
                      MdAttach, MdDetect>;

    // uct_component_t
    struct ComponentCompare {
        ucs_status_t (*rkey_compare)(void* component, uct_rkey_t first, uct_rkey_t second,
                                     const void* params, int* result);
    };
    using UctComponent =
        Row<ComponentCalls, ComponentRkey<>, ComponentCompare, ComponentLists<ConfigEntry>>;

    // uct_ep_is_connected_params_t: its beginning
    struct ConnectedParams {
        uint64_t field_mask;
        const uct_device_addr_t* device_addr;
        const uct_iface_addr_t* iface_addr;
    };

    enum ConnectedField : uint64_t {
        kConnectedDeviceAddr = 1 << 0,
        kConnectedIfaceAddr = 1 << 1,
    };

    // uct_iface_internal_ops_t
    struct EpConnected {
        int (*ep_is_connected)(uct_ep_h ep, const ConnectedParams* params);
    };
    using ConnectionOps = Row<EpConnect, IfaceReachable, EpConnected>;
    using InternalOpsTable = Row<IfaceOps, EpOps<unsigned>, ConnectionOps>;

    static constexpr bool kProtocolsV2 = true;
    static constexpr bool kInvalidatesLater = false;
};

struct Layout_1_17 : Layout_1_16 {
    static constexpr bool kHeedsAccess = true;

    // ucs_config_parser_t
    struct ParserDoc {
        void (*doc)(void* text, const void* arg);
    };
    using ConfigParser = Row<ParserCalls, ParserDoc, ParserArg>;
    using ConfigField = ConfigFieldOf<ConfigParser>;

    // uct_perf_attr_t
    struct PerfFlags {
        uint64_t flags;
    };
    using PerfAttr = Row<PerfInput, PerfLatency, PerfFlags>;

    enum PerfAttrFlagsField : uint64_t { kPerfAttrFlags = 1 << 11 };

    static constexpr size_t kPerfContextComponent = 17400;
    static constexpr size_t kPerfContextComponentAssert = 17416;
    static constexpr size_t kPerfRteGroupIndex = 24;
};

struct Layout_1_18 : Layout_1_17 {
    // uct_md_attr_v2_t
    struct MdAttrGlobalVa {
        uint64_t gva_mem_types;
    };
    using MdAttr = Row<MdAttrLimits, MdAttrNonblock, MdAttrCache, MdAttrGlobalVa, MdAttrTypes,
                       MdAttrAlignment>;

    static constexpr size_t kPerfContextComponentAssert = 17424;

    static constexpr bool kCountsAnswers = true;
};

} // namespace gdr::abi
