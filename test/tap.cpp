// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "tap.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace {

// The reasons that a skipped test gave, in one line.
std::string reason(const testing::TestResult& result)
{
    std::string text;
    for (int i = 0; i < result.total_part_count(); ++i) {
        text += std::string(" ") + result.GetTestPartResult(i).message();
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

class Tap : public testing::EmptyTestEventListener {
    void OnTestEnd(const testing::TestInfo& test) override
    {
        const testing::TestResult& result = *test.result();
        const std::string name = std::string(test.test_suite_name()) + "." + test.name();
        const std::string directive = result.Skipped() ? " # SKIP" + reason(result) : "";
        ++cases_;
        print(std::string(result.Failed() ? "not ok " : "ok ") + std::to_string(cases_) + " - " +
              name + directive);
    }

    void OnTestProgramEnd(const testing::UnitTest&) override
    {
        print("1.." + std::to_string(cases_));
    }

    // A child that a test forked has results of its own, which are not the program's.
    void print(const std::string& line) const
    {
        if (getpid() != process_) {
            return;
        }
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
    }

    const pid_t process_ = getpid();
    int cases_ = 0;
};

} // namespace

int run_tests(int& argc, char** argv)
{
    testing::InitGoogleTest(&argc, argv);
    // A test may start its own program again: that one's results are not the program's either.
    constexpr const char* kReports = "GDR_TEST_REPORTS";
    if (std::getenv(kReports) == nullptr) {
        setenv(kReports, "y", 1);
        testing::UnitTest::GetInstance()->listeners().Append(new Tap);
    }
    return RUN_ALL_TESTS();
}
