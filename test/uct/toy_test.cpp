// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The toy component, called by stock UCX through its public UCT API.
#include "toy_component.hpp"

#include "abi/host.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include <ucs/async/async_fwd.h>
#include <ucs/debug/log_def.h>
#include <uct/api/uct.h>

// Not in an installed header of 1.13.
ucs_status_t uct_iface_estimate_perf(uct_iface_h iface, void* attr);
ucs_status_t uct_md_mem_dereg_v2(uct_md_h md, const void* params);
}

#include "abi/completion.hpp"
#include "abi/layout_1_13.hpp"
#include "abi/memory_detection.hpp"
#include "abi/series.hpp"
#include "abi/trampolines_component.hpp"

namespace {

std::vector<uct_component_h> find_components(const std::string& name)
{
    uct_component_h* components;
    unsigned count;
    EXPECT_EQ(uct_query_components(&components, &count), UCS_OK);
    std::vector<uct_component_h> found;
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr{};
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        EXPECT_EQ(uct_component_query(components[i], &attr), UCS_OK);
        if (name == attr.name) {
            found.push_back(components[i]);
        }
    }
    uct_release_component_list(components);
    return found;
}

// What ucs_log prints while an object of this class lives.
class Messages {
  public:
    Messages()
    {
        text().clear();
        ucs_log_push_handler(keep);
    }
    ~Messages() { ucs_log_pop_handler(); }

    static std::string& text()
    {
        static std::string messages;
        return messages;
    }

  private:
    static ucs_log_func_rc_t keep(const char*, unsigned, const char*, ucs_log_level_t level,
                                  const ucs_log_component_config_t* component, const char* format,
                                  va_list arguments)
    {
        if (level > component->log_level) {
            return UCS_LOG_FUNC_RC_STOP;
        }
        char line[512];
        vsnprintf(line, sizeof(line), format, arguments);
        text() += std::string(line) + "\n";
        return UCS_LOG_FUNC_RC_STOP;
    }
};

class Toy : public testing::Test {
  protected:
    static void SetUpTestSuite()
    {
        ASSERT_TRUE(gdr::abi::choose_series()) << gdr::abi::why_not();
        gdr::abi::register_component(toy::component());
    }

    void SetUp() override
    {
        const auto found = find_components("toy");
        ASSERT_EQ(found.size(), 1u);
        component_ = found[0];
        toy::calls = {};
        md_ = open_md();
        ASSERT_NE(md_, nullptr);
    }

    void TearDown() override
    {
        if (md_) {
            uct_md_close(md_);
        }
        EXPECT_EQ(toy::calls.open_domains, 0u);
    }

    uct_md_h open_md()
    {
        uct_md_config_t* config;
        EXPECT_EQ(uct_md_config_read(component_, nullptr, nullptr, &config), UCS_OK);
        uct_md_h md = nullptr;
        open_status_ = uct_md_open(component_, "toy", config, &md);
        uct_config_release(config);
        return md;
    }

    uct_component_h component_ = nullptr;
    uct_md_h md_ = nullptr;
    ucs_status_t open_status_ = UCS_OK;
};

TEST_F(Toy, RegisteredOnce)
{
    gdr::abi::register_component(toy::component());
    EXPECT_EQ(find_components("toy").size(), 1u);
}

// It might detect memory that CUDA does not know.
TEST_F(Toy, StrangerMayDetectMemory)
{
    EXPECT_FALSE(gdr::abi::only_cuda_is_detected());
}

TEST_F(Toy, Resources)
{
    uct_md_resource_desc_t resource;
    uct_component_attr_t attr{};
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT |
                      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES | UCT_COMPONENT_ATTR_FIELD_FLAGS;
    attr.md_resources = &resource;
    ASSERT_EQ(uct_component_query(component_, &attr), UCS_OK);
    EXPECT_EQ(attr.md_resource_count, 1u);
    EXPECT_STREQ(resource.md_name, "toy");
    EXPECT_EQ(attr.flags, 0u);

    uct_tl_resource_desc_t* resources;
    unsigned count;
    ASSERT_EQ(uct_md_query_tl_resources(md_, &resources, &count), UCS_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_STREQ(resources[0].tl_name, "toy");
    EXPECT_STREQ(resources[0].dev_name, "toy0");
    EXPECT_EQ(resources[0].dev_type, UCT_DEVICE_TYPE_SELF);
    uct_release_tl_resource_list(resources);
}

TEST_F(Toy, EveryMdAttributeIsSet)
{
    uct_md_attr_t attr;
    std::memset(&attr, 0xa5, sizeof(attr));
    ASSERT_EQ(uct_md_query(md_, &attr), UCS_OK);
    EXPECT_EQ(attr.cap.flags, UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY);
    EXPECT_EQ(attr.cap.max_alloc, 0u);
    EXPECT_EQ(attr.cap.max_reg, size_t{1} << 20);
    EXPECT_EQ(attr.cap.reg_mem_types, UCS_BIT(UCS_MEMORY_TYPE_HOST));
    EXPECT_EQ(attr.cap.access_mem_types, UCS_BIT(UCS_MEMORY_TYPE_HOST));
    EXPECT_EQ(attr.cap.detect_mem_types, UCS_BIT(UCS_MEMORY_TYPE_CUDA_MANAGED));
    EXPECT_EQ(attr.cap.alloc_mem_types, 0u);
    EXPECT_EQ(attr.reg_cost.c, 1e-6);
    EXPECT_EQ(attr.reg_cost.m, 1e-9);
    EXPECT_STREQ(attr.component_name, "toy");
    EXPECT_EQ(attr.rkey_packed_size, toy::kRkeySize);
    EXPECT_TRUE(ucs_cpu_is_set(0, &attr.local_cpus));
}

TEST_F(Toy, RefusalIsToldOnce)
{
    setenv("UCX_TOY_MD_REFUSE", "the toy is broken", 1);
    setenv("UCX_TLS", "gdr", 1); // who names gdr is told
    Messages messages;
    EXPECT_EQ(open_md(), nullptr);
    EXPECT_EQ(open_status_, UCS_ERR_NO_DEVICE);
    EXPECT_EQ(open_md(), nullptr);
    unsetenv("UCX_TOY_MD_REFUSE");
    unsetenv("UCX_TLS");
    EXPECT_EQ(messages.text(), "gdr: toy is not available: the toy is broken\n");
}

TEST_F(Toy, RegisterPackUnpack)
{
    char buffer[64];
    uct_mem_h memh = nullptr;
    ASSERT_EQ(uct_md_mem_reg(md_, buffer, sizeof(buffer), UCT_MD_MEM_ACCESS_ALL, &memh), UCS_OK);
    EXPECT_NE(memh, nullptr);
    EXPECT_EQ(toy::calls.hidden_reg, 0u);

    char packed[toy::kRkeySize];
    ASSERT_EQ(uct_md_mkey_pack(md_, memh, packed), UCS_OK);
    uct_rkey_bundle_t bundle;
    ASSERT_EQ(uct_rkey_unpack(component_, packed, &bundle), UCS_OK);
    EXPECT_EQ(bundle.rkey, reinterpret_cast<uct_rkey_t>(memh));
    void* local;
    EXPECT_EQ(uct_rkey_ptr(component_, &bundle, 0, &local), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(uct_rkey_release(component_, &bundle), UCS_OK);
    EXPECT_EQ(toy::calls.released_rkeys, 1u);

    EXPECT_EQ(uct_md_mem_dereg(md_, memh), UCS_OK);
    EXPECT_EQ(toy::calls.reg, 1u);
    EXPECT_EQ(toy::calls.dereg, 1u);
    EXPECT_EQ(toy::calls.invalidated, 0u);
}

TEST_F(Toy, ForeignRkeyIsRefused)
{
    char packed[toy::kRkeySize];
    std::memset(packed, 0x5a, sizeof(packed));
    uct_rkey_bundle_t bundle;
    EXPECT_EQ(uct_rkey_unpack(component_, packed, &bundle), UCS_ERR_INVALID_PARAM);
}

TEST_F(Toy, HiddenErrors)
{
    char buffer[64];
    uct_mem_h memh;
    ASSERT_EQ(uct_md_mem_reg(md_, buffer, sizeof(buffer),
                             UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS, &memh),
              UCS_OK);
    EXPECT_EQ(toy::calls.hidden_reg, 1u);
    uct_md_mem_dereg(md_, memh);
}

// UCP's cache of registrations does not compare what they are for from 1.14 to 1.16.
TEST_F(Toy, LocalUse)
{
    const unsigned minor = gdr::abi::series().version.minor;
    const bool heeded = minor < 14 || minor > 16;
    char buffer[64];
    unsigned local = 0;
    for (auto [flags, is_local] : {std::pair<unsigned, bool>{UCT_MD_MEM_ACCESS_LOCAL_READ, true},
                                   {UCT_MD_MEM_ACCESS_LOCAL_WRITE, true},
                                   {UCT_MD_MEM_ACCESS_LOCAL_READ | UCT_MD_MEM_ACCESS_LOCAL_WRITE |
                                        UCT_MD_MEM_FLAG_HIDE_ERRORS,
                                    true},
                                   {UCT_MD_MEM_ACCESS_REMOTE_PUT, false},
                                   {UCT_MD_MEM_ACCESS_REMOTE_ATOMIC, false},
                                   {UCT_MD_MEM_ACCESS_RMA, false},
                                   {UCT_MD_MEM_ACCESS_ALL, false}}) {
        uct_mem_h memh;
        ASSERT_EQ(uct_md_mem_reg(md_, buffer, sizeof(buffer), flags, &memh), UCS_OK);
        local += heeded && is_local;
        EXPECT_EQ(toy::calls.local_reg, local) << flags;
        uct_md_mem_dereg(md_, memh);
    }
}

// UCT has this call from 1.16 on.
TEST(RemoteKeys, Compared)
{
    int result = 5;
    EXPECT_EQ(gdr::abi::rkey_compare(nullptr, 1, 2, nullptr, &result), UCS_OK);
    EXPECT_LT(result, 0);
    EXPECT_EQ(gdr::abi::rkey_compare(nullptr, 2, 2, nullptr, &result), UCS_OK);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(gdr::abi::rkey_compare(nullptr, 1, 2, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
}

// Its parameters are a mask of fields (uct_rkey_compare_params_t), of which there are none yet.
TEST(RemoteKeys, ComparedByNothingElse)
{
    const uint64_t none = 0, unknown = 1;
    int result = 5;
    EXPECT_EQ(gdr::abi::rkey_compare(nullptr, 2, 2, &none, &result), UCS_OK);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(gdr::abi::rkey_compare(nullptr, 2, 2, &unknown, &result), UCS_ERR_INVALID_PARAM);
}

// Later series of UCX hand it on.
TEST_F(Toy, NoMemoryIsRefused)
{
    char key[256];
    EXPECT_EQ(gdr::abi::pack_mkey(md_, UCT_MEM_HANDLE_NULL, nullptr, 0, key),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(gdr::abi::free_memory(md_, UCT_MEM_HANDLE_NULL), UCS_ERR_INVALID_PARAM);
}

TEST_F(Toy, Invalidation)
{
    using L = gdr::abi::Layout_1_13;
    char buffer[64];
    uct_mem_h memh;
    ASSERT_EQ(uct_md_mem_reg(md_, buffer, sizeof(buffer), UCT_MD_MEM_ACCESS_ALL, &memh), UCS_OK);
    static unsigned completed;
    completed = 0;
    uct_completion_t completion{[](uct_completion_t*) { ++completed; }, 1, UCS_OK};
    L::DeregParams params{L::kDeregMemh | L::kDeregFlags, L::kDeregFlagInvalidate, memh,
                          &completion};
    EXPECT_EQ(uct_md_mem_dereg_v2(md_, &params), UCS_ERR_INVALID_PARAM) << "no completion given";
    params.field_mask |= L::kDeregCompletion;
    EXPECT_EQ(uct_md_mem_dereg_v2(md_, &params), UCS_OK);
    EXPECT_EQ(completed, 1u);
    EXPECT_EQ(toy::calls.invalidated, 1u);
}

// UCP up to 1.15 waits for it; later ones have their completion on the stack of the call.
TEST_F(Toy, InvalidationThatTakesLonger)
{
    using L = gdr::abi::Layout_1_13;
    char buffer[64];
    uct_mem_h memh;
    ASSERT_EQ(uct_md_mem_reg(md_, buffer, sizeof(buffer), UCT_MD_MEM_ACCESS_ALL, &memh), UCS_OK);
    uct_completion_t* unfinished = nullptr;
    toy::unfinished_invalidation = &unfinished;
    static unsigned completed;
    completed = 0;
    uct_completion_t completion{[](uct_completion_t*) { ++completed; }, 1, UCS_OK};
    L::DeregParams params{L::kDeregMemh | L::kDeregFlags | L::kDeregCompletion,
                          L::kDeregFlagInvalidate, memh, &completion};
    EXPECT_EQ(uct_md_mem_dereg_v2(md_, &params), UCS_OK);
    toy::unfinished_invalidation = nullptr;
    ASSERT_NE(unfinished, nullptr);
    const bool later = gdr::abi::series().invalidates_later;
    EXPECT_EQ(completed, later ? 0u : 1u);
    EXPECT_EQ(unfinished == &completion, later);
    gdr::abi::complete(unfinished, UCS_OK);
    EXPECT_EQ(completed, 1u);
}

TEST_F(Toy, WhatIsNotThereIsUnsupported)
{
    char buffer[64];
    EXPECT_EQ(uct_md_mem_advise(md_, nullptr, buffer, sizeof(buffer), UCT_MADV_NORMAL),
              UCS_ERR_UNSUPPORTED);
    const ucs_sock_addr_t address{};
    EXPECT_EQ(uct_md_is_sockaddr_accessible(md_, &address, UCT_SOCKADDR_ACC_LOCAL), 0);
    uct_allocated_memory_t memory;
    const uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params{};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_MDS;
    params.mds = {&md_, 1};
    EXPECT_NE(uct_mem_alloc(64, &method, 1, &params, &memory), UCS_OK);
}

TEST_F(Toy, MemoryQuery)
{
    uct_md_mem_attr_t attr{};
    attr.field_mask = UCT_MD_MEM_ATTR_FIELD_MEM_TYPE | UCT_MD_MEM_ATTR_FIELD_SYS_DEV |
                      UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS | UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH;
    ASSERT_EQ(uct_md_mem_query(md_, &toy::detected[100], 10, &attr), UCS_OK);
    EXPECT_EQ(attr.mem_type, UCS_MEMORY_TYPE_CUDA_MANAGED);
    EXPECT_EQ(attr.sys_dev, 7);
    EXPECT_EQ(attr.base_address, toy::detected.data());
    EXPECT_EQ(attr.alloc_length, toy::detected.size());

    // Only what is asked for is written.
    std::memset(&attr, 0xa5, sizeof(attr));
    attr.field_mask = UCT_MD_MEM_ATTR_FIELD_MEM_TYPE;
    ASSERT_EQ(uct_md_mem_query(md_, &toy::detected[100], 10, &attr), UCS_OK);
    EXPECT_EQ(attr.sys_dev, 0xa5);

    ucs_memory_type_t type;
    ASSERT_EQ(uct_md_detect_memory_type(md_, &toy::detected[100], 10, &type), UCS_OK);
    EXPECT_EQ(type, UCS_MEMORY_TYPE_CUDA_MANAGED);
    EXPECT_EQ(uct_md_detect_memory_type(md_, &attr, 10, &type), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(uct_md_mem_query(md_, &attr, 10, &attr), UCS_ERR_INVALID_ADDR);
}

TEST_F(Toy, ExceptionsEndAtTheBorder)
{
    char buffer[64];
    uct_mem_h memh;
    toy::throw_next = "it broke";
    Messages messages;
    EXPECT_EQ(uct_md_mem_reg(md_, buffer, sizeof(buffer), UCT_MD_MEM_ACCESS_ALL, &memh),
              UCS_ERR_IO_ERROR);
    EXPECT_EQ(messages.text(), "gdr: mem_reg: it broke\n");
}

class ToyIface : public Toy {
  protected:
    void SetUp() override
    {
        Toy::SetUp();
        ASSERT_EQ(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async_), UCS_OK);
        ASSERT_EQ(uct_worker_create(async_, UCS_THREAD_MODE_SINGLE, &worker_), UCS_OK);
    }

    void TearDown() override
    {
        if (iface_) {
            uct_iface_close(iface_);
        }
        uct_worker_destroy(worker_);
        ucs_async_context_destroy(async_);
        Toy::TearDown();
    }

    void open()
    {
        uct_iface_config_t* config;
        ASSERT_EQ(uct_md_iface_config_read(md_, "toy", nullptr, nullptr, &config), UCS_OK);
        uct_iface_params_t params{};
        params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                            UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                            UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG;
        params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        params.mode.device.tl_name = "toy";
        params.mode.device.dev_name = "toy0";
        params.err_handler = [](void* arg, uct_ep_h, ucs_status_t status) {
            static_cast<ToyIface*>(arg)->reported_ = status;
            return UCS_OK;
        };
        params.err_handler_arg = this;
        ASSERT_EQ(uct_iface_open(md_, worker_, &params, config, &iface_), UCS_OK);
        uct_config_release(config);
    }

    ucs_async_context_t* async_ = nullptr;
    uct_worker_h worker_ = nullptr;
    uct_iface_h iface_ = nullptr;
    ucs_status_t reported_ = UCS_OK;
};

TEST_F(ToyIface, Options)
{
    setenv("UCX_TOY_DEPTH", "9", 1);
    setenv("UCX_TOY_SEGMENT", "64k", 1);
    setenv("UCX_TOY_TIMEOUT", "2s", 1);
    setenv("UCX_TOY_ENABLE", "n", 1);
    setenv("UCX_TOY_MODE", "slow", 1);
    setenv("UCX_TOY_MAX_NUM_EPS", "11", 1);
    open();
    for (const char* name : {"DEPTH", "SEGMENT", "TIMEOUT", "ENABLE", "MODE", "MAX_NUM_EPS"}) {
        unsetenv((std::string("UCX_TOY_") + name).c_str());
    }
    const toy::IfaceConfig& config = toy::calls.config;
    EXPECT_EQ(config.depth, 9u);
    EXPECT_EQ(config.segment, size_t{64} << 10);
    EXPECT_DOUBLE_EQ(config.timeout, 2);
    EXPECT_EQ(config.enable, 0);
    EXPECT_EQ(config.mode, 0u);
    EXPECT_EQ(config.paths, gdr::abi::kAuto);
    EXPECT_EQ(config.super.max_num_eps, 11u);
    EXPECT_GT(config.super.alloc_methods.count, 0u);
}

TEST_F(ToyIface, OptionDefaults)
{
    open();
    const toy::IfaceConfig& config = toy::calls.config;
    EXPECT_EQ(config.depth, 5u);
    EXPECT_EQ(config.segment, size_t{8} << 10);
    EXPECT_DOUBLE_EQ(config.timeout, 0.01);
    EXPECT_EQ(config.enable, 1);
    EXPECT_EQ(config.mode, 1u);
    EXPECT_EQ(config.super.failure, UCS_LOG_LEVEL_DIAG);
}

TEST_F(ToyIface, Query)
{
    open();
    uct_iface_attr_t attr;
    std::memset(&attr, 0xa5, sizeof(attr));
    ASSERT_EQ(uct_iface_query(iface_, &attr), UCS_OK);
    EXPECT_EQ(attr.cap.flags, UCT_IFACE_FLAG_CONNECT_TO_IFACE);
    EXPECT_EQ(attr.cap.event_flags, 0u);
    EXPECT_EQ(attr.cap.am.max_short, 0u);
    EXPECT_EQ(attr.dev_num_paths, 1u);
    EXPECT_EQ(attr.max_num_eps, SIZE_MAX);
    EXPECT_EQ(attr.overhead, 1e-6);
}

TEST_F(ToyIface, Performance)
{
    using L = gdr::abi::Layout_1_13;
    open();
    L::PerfAttr attr;
    std::memset(&attr, 0xa5, sizeof(attr));
    attr.field_mask = L::kPerfAttrOperation | L::kPerfAttrLocalMemoryType |
                      L::kPerfAttrSendPreOverhead | L::kPerfAttrBandwidth | L::kPerfAttrLatency |
                      L::kPerfAttrMaxInflightEps;
    attr.operation = L::kEpOpGetZcopy;
    attr.local_memory_type = UCS_MEMORY_TYPE_CUDA;
    const double untouched = attr.recv_overhead;
    ASSERT_EQ(uct_iface_estimate_perf(iface_, &attr), UCS_OK);
    EXPECT_EQ(toy::calls.operation, gdr::abi::EpOperation::get_zcopy);
    EXPECT_EQ(attr.send_pre_overhead, 1e-7);
    EXPECT_EQ(attr.bandwidth.dedicated, 2e9);
    EXPECT_EQ(attr.latency.c, 3e-6);
    EXPECT_EQ(attr.max_inflight_eps, 17u);
    EXPECT_EQ(std::memcmp(&attr.recv_overhead, &untouched, sizeof(untouched)), 0);

    attr.field_mask = L::kPerfAttrOperation | L::kPerfAttrBandwidth;
    attr.operation = static_cast<L::EpOp>(9); // tag offload
    ASSERT_EQ(uct_iface_estimate_perf(iface_, &attr), UCS_OK);
    EXPECT_EQ(toy::calls.operation, gdr::abi::EpOperation::other);
    EXPECT_EQ(attr.bandwidth.dedicated, 1e9) << "the memory type was not given";
}

TEST_F(ToyIface, FailedEndpoint)
{
    open();
    uct_ep_params_t params{};
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE;
    params.iface = iface_;
    uct_ep_h ep;
    ASSERT_EQ(uct_ep_create(&params, &ep), UCS_OK);
    Messages messages;
    EXPECT_EQ(uct_ep_check(ep, 0, nullptr), UCS_OK) << "the handler took it";
    EXPECT_EQ(reported_, UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(messages.text(), "") << "UCX_FAILURE is diag";
    uct_ep_destroy(ep);
}

} // namespace
