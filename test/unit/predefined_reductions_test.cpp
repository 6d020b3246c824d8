// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which of MPI's predefined operations on which of its types the GPUs have: with a library that has
// every type, as no MPI at hand does, and whose LOGICALs are true in their own way.
#include "mpi/collectives/predefined_reductions.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

using namespace gdr::mpi;
using gdr::kernels::Operation;

namespace {

struct FakeType {
    const char* name; // none of those of MPI_Type_create_f90_real, ...
    intptr_t extent;
    const char* permitted; // a letter for each class of operations that MPI permits and GPUs have
    int combiner = kStandardAbi.combiners.named;
};

// sum and prod, min and max, land and its like, band and its like, minloc and maxloc.
constexpr const char* kClasses = "nolbp";
constexpr int kClassOf[] = {0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4};

const std::vector<FakeType> kTypes = {
    {"MPI_SIGNED_CHAR", 1, "nolb"},
    {"MPI_LONG", 8, "nolb"},
    {"MPI_UNSIGNED", 4, "nolb"},
    {"MPI_UINT16_T", 2, "nolb"},
    {"MPI_AINT", 8, "nob"},
    {"MPI_COUNT", 8, "nob"},
    {"MPI_INTEGER", 4, "nob"},
    {"MPI_INTEGER", 8, "nob"},
    {"MPI_INTEGER16", 16, ""},
    {"MPI_FLOAT", 4, "no"},
    {"MPI_REAL", 8, "no"},
    {"MPI_REAL2", 2, ""},
    {"MPI_REAL16", 16, ""},
    {"MPI_DOUBLE_PRECISION", 16, ""},
    {"MPI_LONG_DOUBLE", 16, ""},
    {"MPI_COMPLEX", 8, "n"},
    {"MPI_CXX_FLOAT_COMPLEX", 8, "n"},
    {"MPI_CXX_DOUBLE_COMPLEX", 16, "n"},
    {"MPI_COMPLEX4", 4, ""},
    {"MPI_COMPLEX32", 32, ""},
    {"MPI_C_LONG_DOUBLE_COMPLEX", 32, ""},
    {"MPI_CXX_BOOL", 1, "l"},
    {"MPI_LOGICAL", 4, "l"},
    {"MPI_LOGICAL1", 1, "l"},
    {"MPI_LOGICAL8", 8, "l"},
    {"MPI_LOGICAL16", 16, ""},
    {"MPI_BYTE", 1, "b"},
    {"MPI_CHAR", 1, ""},
    {"MPI_PACKED", 1, ""},
    {"MPI_DOUBLE_INT", 16, "p"},
    {"MPI_LONG_DOUBLE_INT", 32, ""},
    {"MPI_2INTEGER", 8, "p"},
    {"MPI_2INTEGER", 16, ""},
    {"MPI_2REAL", 8, "p"},
    {"MPI_2REAL", 16, ""},
    {"MPI_2DOUBLE_PRECISION", 16, "p"},
    {"a user's", 4, "", kStandardAbi.combiners.contiguous},
    {"MPI_INT", 4, "", kStandardAbi.combiners.dup},
    {"", 4, "no", kStandardAbi.combiners.f90},
    {"", 16, "", kStandardAbi.combiners.f90},
    {"", 16, "n", kStandardAbi.combiners.f90 + 1},
    {"", 32, "", kStandardAbi.combiners.f90 + 1},
    {"", 2, "nob", kStandardAbi.combiners.f90 + 2},
    {"", 16, "", kStandardAbi.combiners.f90 + 2},
};

int64_t true_value = 1;

// Types are their places in the list, from 1 on.
const FakeType& at(Word type)
{
    return kTypes.at(type - 1);
}

Library fake()
{
    Library library{};
    library.abi = &kStandardAbi;
    library.operations = kStandardAbi.operations;
    library.Type_get_envelope = [](Word type, int*, int*, int*, int* combiner) {
        *combiner = at(type).combiner;
        return 0;
    };
    library.Type_get_name = [](Word type, char* name, int* length) {
        *length = static_cast<int>(std::strlen(at(type).name));
        std::memcpy(name, at(type).name, std::strlen(at(type).name) + 1);
        return 0;
    };
    library.Type_get_extent = [](Word type, intptr_t* lower, intptr_t* extent) {
        *lower = 0;
        *extent = at(type).extent;
        return 0;
    };
    library.Reduce_local = [](const void*, void* result, int, Word type, Word) {
        std::memcpy(result, &true_value, static_cast<size_t>(at(type).extent));
        return 0;
    };
    return library;
}

std::string classes_of(const Library& library, Word type)
{
    std::string classes;
    for (size_t operation = 0; operation < library.operations.size(); ++operation) {
        const auto found = predefined_reduction(library, library.operations[operation], type);
        const char letter = kClasses[kClassOf[operation]];
        if (found) {
            EXPECT_EQ(found->operation, static_cast<Operation>(operation));
            EXPECT_EQ(gdr::kernels::size_of(found->type), static_cast<size_t>(at(type).extent));
        }
        if (found && classes.find(letter) == std::string::npos) {
            classes += letter;
        }
        EXPECT_EQ(found.has_value(), classes.find(letter) != std::string::npos)
            << "one operation of a class without the others";
    }
    return classes;
}

class PredefinedReductionsTest : public testing::Test {
  protected:
    void SetUp() override { true_value = 1; }
    const Library library_ = fake();
};

TEST_F(PredefinedReductionsTest, AsMpiPermitsAndTheKernelsHave)
{
    for (Word type = 1; type <= kTypes.size(); ++type) {
        EXPECT_EQ(classes_of(library_, type), at(type).permitted)
            << at(type).name << " of " << at(type).extent << " bytes";
    }
}

TEST_F(PredefinedReductionsTest, AnotherTrueIsLeftToTheLibrary)
{
    true_value = -1;
    for (Word type = 1; type <= kTypes.size(); ++type) {
        if (std::string(at(type).name).find("LOGICAL") != std::string::npos) {
            EXPECT_EQ(classes_of(library_, type), "") << at(type).name;
        }
    }
}

TEST_F(PredefinedReductionsTest, OperationsOfTheUsers)
{
    EXPECT_FALSE(predefined_reduction(library_, 0x12345, 1));
}

} // namespace
