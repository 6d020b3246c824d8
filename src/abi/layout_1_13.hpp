// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The plugin ABI of UCX 1.13: every structure that we fill or read and whose layout is not the same
// in all series, with the enumeration values that we use. Nothing here comes from the UCX headers
// of the build, which may belong to another series, except types that no series changed. The layout
// check (test/unit/layout_check.cpp) compares each line with a UCX source tree.
//
// A series is a structure that derives from the previous one and redeclares only what changed.
// Structures into which later series insert members are rows of parts, so that a part is declared
// once. The tables of functions use void* for structures that change.
#pragma once

#include "abi/base.hpp"

#include <cstdint>

namespace gdr::abi {

// Parts one after the other: the ABI lays out base classes like members.
template <class... Parts>
struct Row : Parts... {
};

struct Layout_1_13 {
    // ---- configuration (ucs/config/parser.h)

    // ucs_config_parser_t
    struct ParserCalls {
        int (*read)(const char* text, void* value, const void* arg);
        int (*write)(char* text, size_t max, const void* value, const void* arg);
        ucs_status_t (*clone)(const void* from, void* to, const void* arg);
        void (*release)(void* value, const void* arg);
        void (*help)(char* text, size_t max, const void* arg);
    };
    struct ParserArg {
        const void* arg;
    };
    using ConfigParser = Row<ParserCalls, ParserArg>;

    // ucs_config_field_t
    template <class Parser>
    struct ConfigFieldOf {
        const char* name; // NULL ends a table
        const char* default_value;
        const char* doc;
        size_t offset;
        Parser parser;
    };
    using ConfigField = ConfigFieldOf<ConfigParser>;

    // ucs_config_global_list_entry_t
    struct ConfigEntry {
        const char* name;
        const char* prefix;
        void* table; // of ConfigField
        size_t size;
        ucs_list_link_t list;
    };

    // ucs_config_parser_fill_opts()
    using FillOptions = ucs_status_t(void* options, void* fields, const char* env_prefix,
                                     const char* table_prefix, int ignore_errors);

    // ---- memory domain (uct/api/uct.h, uct/api/v2/uct_v2.h, uct/base/uct_md.h)

    // uct_md_attr_t. UCT does not clear it, so every field has to be set.
    struct MdAttr {
        struct {
            uint64_t max_alloc;
            size_t max_reg;
            uint64_t flags;
            uint64_t reg_mem_types;
            uint64_t detect_mem_types;
            uint64_t alloc_mem_types;
            uint64_t access_mem_types;
        } cap;
        ucs_linear_func_t reg_cost;
        char component_name[16];
        size_t rkey_packed_size;
        ucs_cpu_set_t local_cpus;
    };

    // Flags of uct_md_attr that the series' public header lacks: those that accompany
    // UCT_MD_FLAG_INVALIDATE, and the one of a domain that copies between memory types.
    static constexpr uint64_t kMdFlagsInvalidate = 0;
    static constexpr uint64_t kMdFlagMemtypeCopy = 0;

    // uct_md_mem_attr_t
    struct MemAttr {
        uint64_t field_mask;
        ucs_memory_type_t mem_type;
        ucs_sys_device_t sys_dev;
        void* base_address;
        size_t alloc_length;
    };

    enum MemAttrField : uint64_t {
        kMemAttrMemType = 1 << 0,
        kMemAttrSysDev = 1 << 1,
        kMemAttrBaseAddress = 1 << 2,
        kMemAttrAllocLength = 1 << 3,
    };

    static constexpr unsigned kMemFlagHideErrors = 1 << 3;

    // UCP uses a registration only for the access that it asked for: it either keeps no
    // registrations, or checks the access when it reuses one.
    static constexpr bool kHeedsAccess = true;

    // uct_md_mem_dereg_params_t
    struct DeregParams {
        uint64_t field_mask;
        unsigned flags;
        uct_mem_h memh;
        uct_completion_t* comp;
    };

    enum DeregField : uint64_t {
        kDeregMemh = 1 << 0,
        kDeregFlags = 1 << 1,
        kDeregCompletion = 1 << 2,
    };

    static constexpr unsigned kDeregFlagInvalidate = 1 << 0;

    // uct_md_ops_t. UCT calls most of them without checking: none may be NULL.
    struct MdQuery {
        void (*close)(uct_md_h md);
        ucs_status_t (*query)(uct_md_h md, void* attr); // MdAttr
    };
    template <class... SysDev>
    struct MdAllocate {
        ucs_status_t (*mem_alloc)(uct_md_h md, size_t* length, void** address,
                                  ucs_memory_type_t type, SysDev... sys_dev, unsigned flags,
                                  const char* name, uct_mem_h* memh);
        ucs_status_t (*mem_free)(uct_md_h md, uct_mem_h memh);
        ucs_status_t (*mem_advise)(uct_md_h md, uct_mem_h memh, void* address, size_t length,
                                   unsigned advice);
    };
    template <class Params>
    struct MdRegister {
        ucs_status_t (*mem_reg)(uct_md_h md, void* address, size_t length, Params params,
                                uct_mem_h* memh);
        ucs_status_t (*mem_dereg)(uct_md_h md, const DeregParams* params);
        ucs_status_t (*mem_query)(uct_md_h md, const void* address, size_t length,
                                  void* attr); // MemAttr
    };
    template <class... Range>
    struct MdPack {
        ucs_status_t (*mkey_pack)(uct_md_h md, uct_mem_h memh, Range... range, const void* params,
                                  void* buffer);
    };
    struct MdSockaddr {
        int (*is_sockaddr_accessible)(uct_md_h md, const ucs_sock_addr_t* address,
                                      uct_sockaddr_accessibility_t mode);
    };
    struct MdDetect {
        ucs_status_t (*detect_memory_type)(uct_md_h md, const void* address, size_t length,
                                           ucs_memory_type_t* type);
    };
    using MdOps = Row<MdQuery, MdAllocate<>, MdRegister<unsigned>, MdPack<>, MdSockaddr, MdDetect>;

    // ---- component and transport (uct/base/uct_component.h, uct/base/uct_iface.h)

    // uct_component_t
    struct ComponentCalls {
        char name[16];
        ucs_status_t (*query_md_resources)(void* component, uct_md_resource_desc_t** resources,
                                           unsigned* count);
        ucs_status_t (*md_open)(void* component, const char* name, const uct_md_config_t* config,
                                uct_md_h* md);
        ucs_status_t (*cm_open)(void* component, uct_worker_h worker, const uct_cm_config_t* config,
                                uct_cm_h* cm);
    };
    template <class... Params>
    struct ComponentRkey {
        ucs_status_t (*rkey_unpack)(void* component, const void* buffer, Params... params,
                                    uct_rkey_t* rkey, void** handle);
        ucs_status_t (*rkey_ptr)(void* component, uct_rkey_t rkey, void* handle, uint64_t remote,
                                 void** local);
        ucs_status_t (*rkey_release)(void* component, uct_rkey_t rkey, void* handle);
    };
    template <class Entry>
    struct ComponentLists {
        Entry md_config;
        Entry cm_config;
        ucs_list_link_t tl_list;
        ucs_list_link_t list;
        uint64_t flags;
        void (*md_vfs_init)(uct_md_h md);
    };
    using UctComponent = Row<ComponentCalls, ComponentRkey<>, ComponentLists<ConfigEntry>>;

    // uct_tl_t
    template <class Entry>
    struct TlOf {
        char name[10];
        ucs_status_t (*query_devices)(uct_md_h md, TlDevice** devices, unsigned* count);
        ucs_status_t (*iface_open)(uct_md_h md, uct_worker_h worker,
                                   const uct_iface_params_t* params,
                                   const uct_iface_config_t* config, uct_iface_h* iface);
        Entry config;
        ucs_list_link_t list;
    };
    using Tl = TlOf<ConfigEntry>;

    // ---- interface (uct/api/v2/uct_v2.h, uct/base/uct_iface.h)

    enum EpOp : unsigned { // uct_ep_operation_t
        kEpOpAmShort = 0,
        kEpOpAmBcopy = 1,
        kEpOpAmZcopy = 2,
        kEpOpPutShort = 3,
        kEpOpPutBcopy = 4,
        kEpOpPutZcopy = 5,
        kEpOpGetShort = 6,
        kEpOpGetBcopy = 7,
        kEpOpGetZcopy = 8,
        kEpOpAtomicPost = 13,
        kEpOpAtomicFetch = 14,
    };

    // uct_perf_attr_t
    struct PerfInput {
        uint64_t field_mask;
        EpOp operation;
        ucs_memory_type_t local_memory_type;
        ucs_memory_type_t remote_memory_type;
        ucs_sys_device_t local_sys_device;
        ucs_sys_device_t remote_sys_device;
        double send_pre_overhead;
        double send_post_overhead;
        double recv_overhead;
        uct_ppn_bandwidth_t bandwidth;
    };
    struct PerfLatency {
        ucs_linear_func_t latency;
        size_t max_inflight_eps;
    };
    using PerfAttr = Row<PerfInput, PerfLatency>;

    enum PerfAttrField : uint64_t {
        kPerfAttrOperation = 1 << 0,
        kPerfAttrLocalMemoryType = 1 << 1,
        kPerfAttrRemoteMemoryType = 1 << 2,
        kPerfAttrLocalSysDevice = 1 << 3,
        kPerfAttrRemoteSysDevice = 1 << 4,
        kPerfAttrSendPreOverhead = 1 << 5,
        kPerfAttrSendPostOverhead = 1 << 6,
        kPerfAttrRecvOverhead = 1 << 7,
        kPerfAttrBandwidth = 1 << 8,
    };
    enum PerfAttrLaterField : uint64_t {
        kPerfAttrLatency = 1 << 9,
        kPerfAttrMaxInflightEps = 1 << 10,
    };

    // uct_iface_internal_ops_t. None may be NULL.
    struct IfaceOps {
        ucs_status_t (*estimate_perf)(uct_iface_h iface, void* attr); // PerfAttr
        void (*vfs_refresh)(uct_iface_h iface);
    };
    template <class Params>
    struct EpOps {
        ucs_status_t (*ep_query)(uct_ep_h ep, void* attr);
        ucs_status_t (*ep_invalidate)(uct_ep_h ep, Params params);
    };
    using InternalOpsTable = Row<IfaceOps, EpOps<unsigned>>;

    // ucs_memory_info_t (ucs/memory/memtype_cache.h)
    struct Memory {
        ucs_memory_type_t type;
        ucs_sys_device_t sys_dev;
        void* base_address;
        size_t alloc_length;
    };
    using LookedUp = Row<Memory>;

    // ---- ucx_perftest (tools/perf/lib/libperf_int.h)

    // Offsets in ucx_perf_context_t. uct.cmpt and uct.md follow an async context, which is larger
    // in a UCX built with assertions.
    static constexpr size_t kPerfContextRteGroup = 128;
    static constexpr size_t kPerfContextRte = 136;
    static constexpr size_t kPerfContextComponent = 17136;
    static constexpr size_t kPerfContextComponentAssert = 17152;
    static constexpr size_t kPerfRteGroupIndex = 8; // offset of group_index in ucx_perf_rte_t

    static constexpr bool kProtocolsV2 = false;     // the default
    static constexpr bool kInvalidatesLater = true; // mem_dereg may complete after it has returned
    // Whether protocols v2 keep track of the registrations in their cache that are in use.
    static constexpr bool kCachesSoundly = false;
    static constexpr bool kReadsBehindRts = true; // in ucp_rndv_is_put_pipeline_needed
    // Protocols v2 add a latency to an operation without a copy, for the answer that its end waits
    // for.
    static constexpr bool kCountsAnswers = false;
};

} // namespace gdr::abi
