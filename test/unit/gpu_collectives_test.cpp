// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Ranks may tell MPI of the same bytes by different types and counts: whether they vote on who
// makes a call depends on the bytes alone. With a library that has a type of each size, and fails
// where a rank asks for what it is to vote with.
#include "mpi/collectives/gpu_collectives.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <string_view>
#include <vector>

using namespace gdr::mpi;

namespace {

constexpr int kRanks = 4;
int votes = 0;

// A type is its number of bytes.
Library fake()
{
    Library library{};
    library.abi = &kStandardAbi;
    library.operations = kStandardAbi.operations;
    library.datatype_null = kStandardAbi.datatype_null;
    library.comm_null = kStandardAbi.comm_null;
    library.Comm_test_inter = [](Word, int* inter) { return *inter = 0; };
    library.Comm_size = [](Word, int* size) {
        *size = kRanks;
        return 0;
    };
    library.Type_size = [](Word type, int* size) {
        *size = type <= INT_MAX ? static_cast<int>(type) : kStandardAbi.undefined;
        return 0;
    };
    library.Type_size_c = [](Word type, int64_t* size) {
        *size = static_cast<int64_t>(type);
        return 0;
    };
    library.Type_get_extent = [](Word type, intptr_t* lower, intptr_t* extent) {
        *lower = 0;
        *extent = static_cast<intptr_t>(type);
        return 0;
    };
    library.Comm_create_keyval = [](int (*)(Word, int, void*, void*, void*, int*),
                                    int (*)(Word, int, void*, void*), int*, void*) { return 0; };
    library.Comm_get_attr = [](Word, int, void*, int*) {
        ++votes;
        return kStandardAbi.error_other;
    };
    library.Comm_call_errhandler = [](Word, int) { return 0; };
    return library;
}

const Library library = fake();

bool votes_on(std::string_view name, Word type, int count)
{
    const Call& call =
        *std::ranges::find(calls(), name, [](const Call& each) { return each.name; });
    std::vector<Word> words(16);
    words[call.receive.type] = type;
    words[call.receive.count] = static_cast<Word>(count);
    votes = 0;
    const auto result = call_on_gpus(library, call, words.data(), true);
    EXPECT_EQ(result.has_value(), votes != 0);
    return votes != 0;
}

TEST(GpuCollectivesTest, ByTheBytesAlone)
{
    constexpr int kGiB = 1 << 30;
    for (const char* name : {"Allgather", "Alltoall", "Bcast"}) {
        for (const int shift : {0, 2, 10, 30}) {
            EXPECT_TRUE(votes_on(name, Word{4} << shift, kGiB >> shift)) << name << " " << shift;
        }
        EXPECT_FALSE(votes_on(name, 4, 10)) << name;
        EXPECT_FALSE(votes_on(name, 40, 1)) << name;
    }
}

} // namespace
