// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The choice of a series, and the way to UCX's logger, settings and asynchronous thread.
#include "abi/host.hpp"
#include "abi/series.hpp"
#include "abi/settings.hpp"
#include "abi/ucx_log.hpp"
#include "log/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <sys/eventfd.h>
#include <unistd.h>

extern "C" {
#include <ucs/debug/log_def.h>
#include <ucs/sys/topo/base/topo.h>
}

namespace {

using namespace gdr::abi;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Found ucx_1_13_1()
{
    return {.version = {1, 13},
            .version_text = "1.13.1",
            .uct_path = "/opt/ucx/lib/libuct.so.0",
            .ucp_path = "/opt/ucx/lib/libucp.so.0",
            .base_iface_size = 1280,
            .base_ep_size = 8,
            .override = {}};
}

void expect_refused(const Found& found, const testing::Matcher<std::string>& reason)
{
    const Choice choice = choose(found);
    EXPECT_EQ(choice.series, nullptr);
    EXPECT_THAT(choice.why_not, AllOf(reason, Not(HasSubstr("\n"))));
}

TEST(Series, TheProcessIsSupported)
{
    EXPECT_TRUE(choose_series()) << why_not();
    EXPECT_EQ(why_not(), "");
}

TEST(Series, KnownVersions)
{
    for (unsigned minor = 13; minor <= 23; ++minor) {
        Found found = ucx_1_13_1();
        found.version = {1, minor};
        const Choice choice = choose(found);
        ASSERT_NE(choice.series, nullptr) << choice.why_not;
        EXPECT_EQ(choice.series->version, found.version);
    }
}

// UCT calls most functions without asking whether they are there.
void expect_no_null(const void* table, size_t size)
{
    const auto* words = static_cast<void* const*>(table);
    for (size_t i = 0; i < size / sizeof(void*); ++i) {
        EXPECT_NE(words[i], nullptr) << "function " << i;
    }
}

TEST(Series, NoFunctionIsMissing)
{
    for (const Series& series : all_series()) {
        SCOPED_TRACE("UCX 1." + std::to_string(series.version.minor));
        expect_no_null(series.internal_ops, series.internal_ops_size);
        expect_no_null(series.md_ops, series.md_ops_size);
    }
}

TEST(Series, Override)
{
    Found found = ucx_1_13_1();
    found.override = "auto";
    EXPECT_EQ(choose(found).series->version, (Version{1, 13}));
    found.override = "force:1.22";
    EXPECT_EQ(choose(found).series->version, (Version{1, 22}));
    found.version = {1, 99};
    found.base_iface_size = 1;
    found.ucp_path = "/elsewhere/libucp.so.0";
    EXPECT_EQ(choose(found).series->version, (Version{1, 22}));
    for (const char* value : {"force", "force:", "force:1", "force:1.", "force:1.99", "force:1.22x",
                              "force:2.22", "1.22", "y"}) {
        found.override = value;
        expect_refused(found, AllOf(HasSubstr(std::string("UCX_GDR_ABI=") + value + " "),
                                    HasSubstr("1.13 to 1.23")));
    }
}

TEST(Series, NewerVersionIsRefused)
{
    Found found = ucx_1_13_1();
    found.version = {1, 99};
    found.version_text = "1.99.0";
    expect_refused(found, AllOf(HasSubstr("UCX 1.99.0 (/opt/ucx/lib/libuct.so.0)"),
                                HasSubstr("1.13"), HasSubstr("newer ucx-gdr")));
}

TEST(Series, OlderAndOtherMajorVersionsAreRefused)
{
    Found found = ucx_1_13_1();
    found.version = {1, 12};
    expect_refused(found, HasSubstr("not supported"));
    found.version = {2, 13};
    expect_refused(found, HasSubstr("not supported"));
    found.version = {0, 13};
    expect_refused(found, HasSubstr("not supported"));
}

TEST(Series, StatisticsBuildIsRefused)
{
    Found found = ucx_1_13_1();
    found.base_iface_size = 1288;
    found.base_ep_size = 16;
    expect_refused(found, AllOf(HasSubstr("1288 and 16 bytes instead of 1280 and 8"),
                                HasSubstr("--enable-stats")));
    found = ucx_1_13_1();
    found.base_ep_size = 16;
    expect_refused(found, HasSubstr("1280 and 16"));
    found = ucx_1_13_1();
    found.base_iface_size = 1288;
    expect_refused(found, HasSubstr("1288 and 8"));
}

TEST(Series, TwoInstallationsAreRefused)
{
    Found found = ucx_1_13_1();
    found.ucp_path = "/usr/lib/libucp.so.0";
    expect_refused(found, AllOf(HasSubstr("mixes two UCX"), HasSubstr("/opt/ucx/lib/libuct.so.0"),
                                HasSubstr("/usr/lib/libucp.so.0")));
}

// ---- settings

TEST(Settings, UserGaveNothing)
{
    EXPECT_EQ(user_setting("PROTO_ENABLE"), std::nullopt);
}

TEST(Settings, UserGaveAVariable)
{
    setenv("UCX_GDR_TEST_GIVEN", "try", 1);
    EXPECT_EQ(user_setting("GDR_TEST_GIVEN"), "try");
    unsetenv("UCX_GDR_TEST_GIVEN");
    EXPECT_EQ(user_setting("GDR_TEST_GIVEN"), std::nullopt);
    setenv("UCX_GDR_TEST_GIVEN", "", 1);
    EXPECT_EQ(user_setting("GDR_TEST_GIVEN"), "");
    unsetenv("UCX_GDR_TEST_GIVEN");
}

TEST(Settings, DefaultIsSeenAndTheEnvironmentGoesBeforeIt)
{
    ASSERT_TRUE(set_default("GDR_TEST_DEFAULT", "n"));
    EXPECT_EQ(user_setting("GDR_TEST_DEFAULT"), "n");
    EXPECT_EQ(getenv("UCX_GDR_TEST_DEFAULT"), nullptr);
    setenv("UCX_GDR_TEST_DEFAULT", "y", 1);
    EXPECT_EQ(user_setting("GDR_TEST_DEFAULT"), "y");
    unsetenv("UCX_GDR_TEST_DEFAULT");
}

TEST(Settings, GlobalOption)
{
    EXPECT_TRUE(set_global_option("MEMTYPE_CACHE", "n"));
    EXPECT_FALSE(set_global_option("NO_SUCH_OPTION", "n"));
}

TEST(Settings, RegisteredOptionsAreRead)
{
    struct Values {
        unsigned number;
        char* text;
    } values;
    static const OptionTable table{
        "test",
        "GDR_TEST_TABLE_",
        {{"NUMBER", "3", "A number.", offsetof(Values, number), OptionType::unsigned_int},
         {"TEXT", "", "A text.", offsetof(Values, text), OptionType::string}},
        sizeof(Values)};
    setenv("UCX_GDR_TEST_TABLE_TEXT", "words", 1);
    register_options(table, &values);
    unsetenv("UCX_GDR_TEST_TABLE_TEXT");
    EXPECT_EQ(values.number, 3u);
    EXPECT_STREQ(values.text, "words");
    std::free(values.text);
}

TEST(Settings, BadValueIsAnError)
{
    unsigned number;
    static const OptionTable table{"test",
                                   "GDR_TEST_BAD_",
                                   {{"NUMBER", "3", "A number.", 0, OptionType::unsigned_int}},
                                   sizeof(number)};
    setenv("UCX_GDR_TEST_BAD_NUMBER", "many", 1);
    EXPECT_THROW(register_options(table, &number), std::exception);
    unsetenv("UCX_GDR_TEST_BAD_NUMBER");
}

// ---- log

std::string last_message;

ucs_log_func_rc_t keep_message(const char*, unsigned, const char*, ucs_log_level_t,
                               const ucs_log_component_config_t*, const char* format,
                               va_list arguments)
{
    char text[256];
    vsnprintf(text, sizeof(text), format, arguments);
    last_message = text;
    return UCS_LOG_FUNC_RC_STOP;
}

TEST(Log, ThroughUcxUnderItsLevel)
{
    log_to_ucx();
    ucs_log_push_handler(keep_message);
    gdr_log(warn, "%d devices", 2);
    EXPECT_EQ(last_message, "gdr: 2 devices");
    last_message.clear();
    EXPECT_FALSE(::gdr::log::enabled(::gdr::log::Level::debug));
    gdr_log(debug, "nothing");
    EXPECT_EQ(last_message, "");
    ucs_log_pop_handler();
}

// ---- asynchronous thread

struct Seen {
    std::atomic<int> calls{0};
    std::atomic<bool> other_thread{false};
    std::thread::id tester = std::this_thread::get_id();
};

bool wait_for_calls(const Seen& seen, int calls)
{
    for (int i = 0; i < 500 && seen.calls < calls; ++i) {
        std::this_thread::sleep_for(10ms);
    }
    return seen.calls >= calls;
}

void note_call(int, uint8_t, void* arg)
{
    auto* seen = static_cast<Seen*>(arg);
    seen->other_thread = std::this_thread::get_id() != seen->tester;
    ++seen->calls;
}

TEST(Async, Timer)
{
    Seen seen;
    int id;
    ASSERT_EQ(async_add_timer(0.01, note_call, &seen, &id), UCS_OK);
    EXPECT_TRUE(wait_for_calls(seen, 2));
    EXPECT_TRUE(seen.other_thread);
    async_remove_timer(id);
    const int calls = seen.calls;
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(seen.calls, calls);
}

TEST(Async, FileDescriptor)
{
    Seen seen;
    const int fd = eventfd(0, EFD_NONBLOCK);
    const auto drain = [](int id, uint8_t events, void* arg) {
        eventfd_t value;
        eventfd_read(id, &value);
        note_call(id, events, arg);
    };
    ASSERT_EQ(async_add_fd(fd, drain, &seen), UCS_OK);
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(seen.calls, 0);
    eventfd_write(fd, 1);
    EXPECT_TRUE(wait_for_calls(seen, 1));
    EXPECT_TRUE(seen.other_thread);
    async_remove_fd(fd);
    const int calls = seen.calls;
    eventfd_write(fd, 1);
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(seen.calls, calls);
    close(fd);
}

// ---- topology

TEST(Topology, BusIds)
{
    const ucs_sys_device_t device = sys_device_of_pci("0000:3b:00.0");
    ASSERT_NE(device, UCS_SYS_DEVICE_ID_UNKNOWN);
    EXPECT_EQ(sys_device_of_pci("0000:3b:00.0"), device);
    EXPECT_NE(sys_device_of_pci("0000:3b:00.1"), device);
    ucs_sys_bus_id_t id;
    ASSERT_EQ(ucs_topo_get_device_bus_id(device, &id), UCS_OK);
    EXPECT_EQ(id.bus, 0x3b);
    EXPECT_EQ(sys_device_of_pci("nonsense"), UCS_SYS_DEVICE_ID_UNKNOWN);
    EXPECT_EQ(sys_device_of_pci(""), UCS_SYS_DEVICE_ID_UNKNOWN);
}

} // namespace
