// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What MPI is told of blocks that were packed, where they are more than 2 GiB: with a library that
// makes types and moves nothing.
#include "mpi/staging/packed_arguments.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <stdexcept>
#include <string_view>
#include <vector>

using namespace gdr::mpi;

namespace {

constexpr int kSize = 1 << 20; // of the application's type
constexpr Word kType = 1, kComm = 2;

struct Made {
    int size;
    intptr_t offset;
};
std::vector<Made> made; // types, from 1000 on

Word keep(Made type)
{
    made.push_back(type);
    return 999 + made.size();
}

Library fake()
{
    Library library{};
    library.abi = &kStandardAbi;
    library.Comm_test_inter = [](Word, int* inter) { return *inter = 0; };
    library.Comm_rank = [](Word, int* rank) { return *rank = 0; };
    library.Comm_size = [](Word, int* size) {
        *size = 4;
        return 0;
    };
    library.Type_size = [](Word, int* size) {
        *size = kSize;
        return 0;
    };
    library.Type_contiguous = [](int size, Word, Word* type) {
        *type = keep({size, 0});
        return 0;
    };
    library.Type_create_hindexed = [](int, const int* sizes, const intptr_t* offsets, Word,
                                      Word* type) {
        *type = keep({*sizes, *offsets});
        return 0;
    };
    library.Type_commit = [](Word*) { return 0; };
    library.Type_free = [](Word*) { return 0; };
    return library;
}

const Call& call_of(std::string_view name)
{
    return *std::ranges::find(calls(), name, [](const Call& call) { return call.name; });
}

class PackedArgumentsTest : public testing::Test {
  protected:
    void SetUp() override { made.clear(); }

    // Of a call whose blocks of 1,000 elements are sent from far apart.
    void pack(const Call& call)
    {
        const Side& side = call.send;
        words_[side.count] = reinterpret_cast<Word>(counts_.data());
        words_[side.displacements] = reinterpret_cast<Word>(displacements_.data());
        words_[static_cast<size_t>(call.comm)] = kComm;
        words_[side.type] = side.types ? reinterpret_cast<Word>(types_.data()) : kType;
        const Arguments arguments(library_, call, words_.data());
        const Group group(arguments);
        const PackedArguments packed(arguments, group, side);
        for (int i = 0; i < 4; ++i) {
            const auto* displacements =
                reinterpret_cast<const int*>(arguments.words()[side.displacements]);
            const Made& type = made.at(arguments.type(side, i) - 1000);
            begins_.push_back(displacements[i] + type.offset);
            EXPECT_EQ(type.size, kSize);
        }
    }

    const Library library_ = fake();
    std::vector<Word> words_ = std::vector<Word>(16);
    std::vector<int> counts_{1000, 1000, 1500, 1000};
    std::vector<int> displacements_{0, INT_MAX / 3, INT_MAX / 2, INT_MAX};
    std::vector<Word> types_ = std::vector<Word>(4, kType);
    std::vector<int64_t> begins_;
};

TEST_F(PackedArgumentsTest, TypesReachWhereDisplacementsDoNot)
{
    constexpr int64_t kBlock = int64_t{1000} * kSize;
    pack(call_of("Alltoallw"));
    EXPECT_EQ(begins_, (std::vector<int64_t>{0, kBlock, 2 * kBlock, 3 * kBlock + kBlock / 2}));
    EXPECT_EQ(made[2].offset, 0); // while they do they are what they were
    EXPECT_NE(made[3].offset, 0);
}

TEST_F(PackedArgumentsTest, OneTypeForAllDoesNot)
{
    counts_ = {INT_MAX, 1, 1, 1};
    EXPECT_THROW(pack(call_of("Alltoallv")), std::runtime_error);
}

} // namespace
