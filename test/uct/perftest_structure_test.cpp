// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module in a program that has what ucx_perftest has, and in one whose structures are others:
// this program's variables stand in for ucx_perftest's.
#include "abi/host.hpp"
#include "abi/perftest.hpp"
#include "abi/series.hpp"
#include "host/perftest_allocators.hpp"
#include "host/perftest_context.hpp"
#include "toy_component.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <sys/mman.h>

using gdr::abi::PerftestAllocator;
using Table = const PerftestAllocator* [UCS_MEMORY_TYPE_LAST];

#define GDR_EXPORTED extern "C" __attribute__((visibility("default")))
GDR_EXPORTED Table right_table, other_slots_table;
GDR_EXPORTED const PerftestAllocator* short_table[UCS_MEMORY_TYPE_CUDA];
GDR_EXPORTED char uneven_table[UCS_MEMORY_TYPE_LAST * sizeof(void*) + 1];
Table right_table, other_slots_table;
const PerftestAllocator* short_table[UCS_MEMORY_TYPE_CUDA];
char uneven_table[UCS_MEMORY_TYPE_LAST * sizeof(void*) + 1];

namespace gdr {
namespace {

constexpr PerftestAllocator kHost{
    UCS_MEMORY_TYPE_HOST,
    [](void*) { return UCS_OK; },
    [](const void*, size_t, unsigned, void*) { return UCS_OK; },
    [](const void*, void*) {},
    [](void*, ucs_memory_type_t, const void*, ucs_memory_type_t, size_t) {},
    [](void* to, int, size_t) { return to; }};

// Returns the lines of the log that body has written.
template <class Body>
std::string log_of(Body body)
{
    testing::internal::CaptureStdout(); // where UCX logs
    body();
    return testing::internal::GetCapturedStdout();
}

std::ptrdiff_t warnings(const std::string& log)
{
    return std::ranges::count(log, '\n');
}

class PerftestStructure : public testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(abi::choose_series()) << abi::why_not();
        std::ranges::fill(right_table, nullptr);
        std::ranges::fill(other_slots_table, nullptr);
    }
};

// ---- the table

TEST_F(PerftestStructure, ATableGetsOurAllocatorsAndItsOwnBack)
{
    static const PerftestAllocator own{};
    right_table[UCS_MEMORY_TYPE_HOST] = &kHost;
    right_table[UCS_MEMORY_TYPE_CUDA] = &own;
    host::PerftestAllocators allocators("right_table");
    allocators.apply();
    EXPECT_TRUE(allocators.applied());
    ASSERT_NE(right_table[UCS_MEMORY_TYPE_CUDA_MANAGED], nullptr);
    EXPECT_EQ(right_table[UCS_MEMORY_TYPE_CUDA]->mem_type, UCS_MEMORY_TYPE_CUDA);
    EXPECT_EQ(right_table[UCS_MEMORY_TYPE_CUDA_MANAGED]->mem_type, UCS_MEMORY_TYPE_CUDA_MANAGED);
    EXPECT_EQ(right_table[UCS_MEMORY_TYPE_HOST], &kHost);
    allocators.undo();
    EXPECT_EQ(right_table[UCS_MEMORY_TYPE_CUDA], &own);
    EXPECT_EQ(right_table[UCS_MEMORY_TYPE_CUDA_MANAGED], nullptr);
}

TEST_F(PerftestStructure, AnEmptyTableGetsThem) // before the program's main()
{
    host::PerftestAllocators allocators("right_table");
    allocators.apply();
    EXPECT_TRUE(allocators.applied());
}

TEST_F(PerftestStructure, AnotherProgramIsNotChangedAndHearsNothing)
{
    host::PerftestAllocators allocators("no_such_table");
    EXPECT_EQ(log_of([&] { allocators.apply(); }), "");
    EXPECT_TRUE(allocators.refused());
}

// Each in a process of its own, since the warning is given once in a process.
int refuse(const char* table)
{
    host::PerftestAllocators allocators(table);
    const std::string log = log_of([&] {
        allocators.apply();
        allocators.apply();
    });
    const bool as_it_was = std::ranges::all_of(other_slots_table + 1, std::end(other_slots_table),
                                               [](auto* slot) { return !slot; });
    std::fputs(log.c_str(), stderr);
    return allocators.refused() && as_it_was && warnings(log) == 1 ? 0 : 1;
}

constexpr const char* kOtherTable =
    "WARN.*no CUDA memory for ucx_perftest -m cuda: its table of allocators is another one";

TEST_F(PerftestStructure, ATableOfAnotherSizeIsNotChanged)
{
    for (const char* table : {"short_table", "uneven_table"}) {
        EXPECT_EXIT(std::exit(refuse(table)), testing::ExitedWithCode(0), kOtherTable) << table;
    }
}

TEST_F(PerftestStructure, ATableWithOtherSlotsIsNotChanged)
{
    static PerftestAllocator other = kHost;
    const auto expect_refused = [](const PerftestAllocator* slot) {
        other_slots_table[UCS_MEMORY_TYPE_HOST] = slot;
        EXPECT_EXIT(std::exit(refuse("other_slots_table")), testing::ExitedWithCode(0),
                    kOtherTable);
    };
    expect_refused(reinterpret_cast<const PerftestAllocator*>(8)); // nothing is there
    other.mem_type = UCS_MEMORY_TYPE_ROCM;
    expect_refused(&other);
    other = kHost;
    other.init = reinterpret_cast<decltype(other.init)>(&other); // no function
    expect_refused(&other);
}

// ---- a test's context

unsigned the_rank(void* group)
{
    return *static_cast<unsigned*>(group);
}

// A context of this series, whose memory ends behind it.
class Context {
  public:
    Context()
    {
        constexpr size_t kSize = 32768;
        memory_ = static_cast<char*>(
            mmap(nullptr, 2 * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(memory_ + kSize, kSize, PROT_NONE);
        set(offsets().rte, rte_.data());
        set(offsets().rte_group, &rank);
        set_group_index(reinterpret_cast<void*>(the_rank));
    }

    static const abi::PerftestOffsets& offsets() { return abi::series().perftest; }

    void set(size_t offset, const void* value)
    {
        std::memcpy(memory_ + offset, &value, sizeof(value));
    }
    void set_group_index(const void* function)
    {
        std::memcpy(rte_.data() + offsets().group_index, &function, sizeof(function));
    }
    void set_test(const void* component, const void* md)
    {
        set(offsets().component, component);
        set(offsets().component + sizeof(void*), md);
    }

    const void* get() const { return memory_; }
    // One that is shorter.
    const void* end() const { return memory_ + 32768 - offsets().rte; }

    unsigned rank = 3;

  private:
    char* memory_;
    std::array<char, 256> rte_{};
};

TEST_F(PerftestStructure, TheRankOfAContext)
{
    const Context context;
    EXPECT_EQ(host::perftest::rank(context.get()), 3u);
}

TEST_F(PerftestStructure, NoRankOfAnotherContext)
{
    Context context;
    context.set_group_index(&context); // no function
    EXPECT_EQ(host::perftest::rank(context.get()), std::nullopt);
    context.set_group_index(nullptr);
    EXPECT_EQ(host::perftest::rank(context.get()), std::nullopt);
    context.set(Context::offsets().rte, reinterpret_cast<const void*>(8)); // nothing is there
    EXPECT_EQ(host::perftest::rank(context.get()), std::nullopt);
    EXPECT_EQ(host::perftest::rank(context.end()), std::nullopt);
    EXPECT_EQ(host::perftest::rank(nullptr), std::nullopt);
}

TEST_F(PerftestStructure, AnotherContextTakesTheAllocatorsBackAndWarnsOnce)
{
    const auto begin = [] {
        host::PerftestAllocators allocators("right_table");
        allocators.apply();
        Context context;
        context.set_group_index(nullptr);
        bool refused = false;
        const std::string log = log_of([&] {
            refused =
                !allocators.begin_test(context.get()) && !allocators.begin_test(context.get());
        });
        std::fputs(log.c_str(), stderr);
        std::exit(refused && !allocators.applied() && !right_table[UCS_MEMORY_TYPE_CUDA] &&
                          warnings(log) == 1
                      ? 0
                      : 1);
    };
    EXPECT_EXIT(begin(), testing::ExitedWithCode(0), "WARN.*a test's context is another one");
}

TEST_F(PerftestStructure, TheMemoryDomainIsThatOfTheComponent)
{
    abi::register_component(toy::component());
    uct_component_h* components = nullptr;
    unsigned count = 0;
    ASSERT_EQ(uct_query_components(&components, &count), UCS_OK);
    ASSERT_GE(count, 2u);
    const abi::BaseMd md{nullptr, components[0]};
    Context context;
    EXPECT_EQ(host::perftest::memory_domain(context.get()), nullptr) << "a test of UCP";
    context.set_test(components[0], &md);
    EXPECT_EQ(reinterpret_cast<const void*>(host::perftest::memory_domain(context.get())), &md);

    context.set_test(components[1], &md); // another component's
    EXPECT_EQ(host::perftest::memory_domain(context.get()), nullptr);
    context.set_test(components[0], reinterpret_cast<const void*>(8)); // nothing is there
    EXPECT_EQ(host::perftest::memory_domain(context.get()), nullptr);
    const abi::BaseMd stranger{nullptr, &context};
    context.set_test(&context, &stranger); // no component
    EXPECT_EQ(host::perftest::memory_domain(context.get()), nullptr);
    EXPECT_EQ(host::perftest::memory_domain(context.end()), nullptr);
    uct_release_component_list(components);
}

} // namespace
} // namespace gdr
