// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: the command that is to be run, and reading below a root.
#include "doctor_fixture.hpp"

#include "doctor/reader/text.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>

namespace doctor_test {
namespace {

using namespace gdr::doctor;
using enum gdr::doctor::Consequence;

class DoctorCommandTest : public DoctorTest {
  protected:
    Command command(std::vector<std::string> words)
    {
        run(std::move(words));
        const Root its_root(root(), facts);
        return read_command(its_root);
    }
};

TEST_F(DoctorCommandTest, NoCommand)
{
    EXPECT_FALSE(command({}).is_given());
    is_skipped("launch.command");
    is_skipped("launch.preload");
}

TEST_F(DoctorCommandTest, WordsInFrontOfTheProgram)
{
    const Command found =
        command({"A=1",           "mpirun", "-n",        "2",   "--mca", "pml", "ucx",     "-x",
                 "B=2",           "-x",     "C",         "env", "-u",    "D=3", "ucx-gdr", "run",
                 "--emulate-gpu", "E=4",    "./program", "F=5"});
    EXPECT_EQ(found.launcher, "/usr/bin/orterun");
    EXPECT_TRUE(found.by_ucx_gdr);
    EXPECT_EQ(found.emulation, "--emulate-gpu");
    EXPECT_EQ(found.program, "/home/user/job/program");
    EXPECT_EQ(found.variable("A") + found.variable("B") + found.variable("E"), "124");
    EXPECT_EQ(found.variable("F"), "");
    EXPECT_EQ(found.mca.at("pml"), "ucx");
}

TEST_F(DoctorCommandTest, UcxGdrThatOnlyEmulates)
{
    EXPECT_FALSE(command({"ucx-gdr", "run", "--no-plugin", "--", "./program"}).by_ucx_gdr);
}

TEST_F(DoctorCommandTest, ACommandThatIsNotThere)
{
    run({"./program"});
    passes("launch.command");
    run({"./another"});
    fails("launch.command", cannot_run, "./another is not found");
    run({"srun", "./program"});
    fails("launch.command", cannot_run, "srun is not found");
}

TEST_F(DoctorCommandTest, WhatBringsGdr)
{
    run({"mpirun", "-n", "2", "./program"});
    fails("launch.preload", no_gpudirect, "mpirun ... ucx-gdr run ./program ...");
    run({"mpirun", "-n", "2", "-x", "LD_PRELOAD=/usr/lib/libuct_gdr.so.0", "./program"});
    passes("launch.preload");
    run({"ucx-gdr", "run", "./program"});
    passes("launch.preload");
    run({"./program"});
    set("UCX_PLUGIN_PATH", "/usr/lib/ucx-gdr/plugins");
    passes("launch.preload");
    facts.environment.erase("UCX_PLUGIN_PATH");
    write("usr/lib/ucx/libuct_gdr.so.0", "");
    passes("launch.preload");
    remove("usr/lib/ucx");
    elf("home/user/job/program", {.needed = {"libuct_gdr.so.0"}});
    passes("launch.preload");
}

TEST_F(DoctorCommandTest, WhereNothingCanBePreloaded)
{
    run({"ucx-gdr", "run", "./program"});
    elf("home/user/job/program", {.is_static = true});
    fails("launch.preload", no_gpudirect, "statically linked");
    elf("home/user/job/program", {});
    set_mode("home/user/job/program", 04755);
    facts.user = geteuid() + 1;
    fails("launch.preload", no_gpudirect, "another user or group");
    facts.user = geteuid();
    passes("launch.preload");
}

TEST_F(DoctorCommandTest, AProgramWithCapabilities)
{
    // The value of security.capability, of revision 2: CAP_NET_RAW.
    const unsigned capabilities[] = {0x02000001, 1u << 13, 0, 0, 0};
    const auto program = root() / "home/user/job/program";
    run({"ucx-gdr", "run", "./program"});
    facts.user = 1000;
    passes("launch.preload");
    if (setxattr(program.c_str(), "security.capability", capabilities, sizeof(capabilities), 0) !=
        0) {
        GTEST_SKIP() << "no right to give a program capabilities";
    }
    fails("launch.preload", no_gpudirect, "takes capabilities");
    facts.user = 0; // takes none that it has not
    passes("launch.preload");
}

TEST_F(DoctorCommandTest, AScriptIsNoElfFile)
{
    write("home/user/job/program", "#!/bin/sh\n");
    EXPECT_FALSE(command({"ucx-gdr", "run", "./program"}).elf);
    passes("launch.preload");
}

TEST_F(DoctorCommandTest, FilesThatAreNoSoundElfFiles)
{
    elf("home/user/job/program", {.needed = {"libmpi.so.40"}, .has_device_code = true});
    const auto file = root() / "home/user/job/program";
    const auto size = std::filesystem::file_size(file);
    for (auto length = size; length > 0; --length) {
        std::filesystem::resize_file(file, length);
        command({"./program"}); // does not crash
    }
}

// A process would wait for the other end of a pipe, and keep whatever a file has.
TEST_F(DoctorCommandTest, WhatIsNoFileOfAMachineIsNotRead)
{
    ASSERT_EQ(mkfifo((root() / "home/user/job/pipe").c_str(), 0755), 0);
    EXPECT_FALSE(command({"./pipe"}).elf);
    write("huge", "");
    std::filesystem::resize_file(root() / "huge", uint64_t{1} << 36);
    const Root its_root(root(), facts);
    EXPECT_EQ(its_root.read("/home/user/job/pipe").error, ESPIPE);
    EXPECT_EQ(its_root.read("/huge").error, EFBIG);
}

TEST_F(DoctorCommandTest, LinksStayBelowTheRoot)
{
    write("etc/secret", "within");
    link("a/link", "../../../../etc/secret");
    link("b/link", "/a/link");
    link("loop", "loop");
    const Root its_root(root(), facts);
    EXPECT_EQ(its_root.resolved("/b/link"), "/etc/secret");
    EXPECT_EQ(its_root.read("/b/link").text, "within");
    EXPECT_EQ(its_root.read("/loop").error, ELOOP);
    EXPECT_EQ(its_root.read("/none").error, ENOENT);
    EXPECT_TRUE(its_root.seen().at("/etc/secret").was_read);
    EXPECT_EQ(its_root.links().at("/b/link"), "/a/link");
}

TEST(DoctorText, Text)
{
    EXPECT_EQ(bytes(8 << 20), "8 MiB");
    EXPECT_EQ(bytes(1536), "1.5 KiB");
    EXPECT_EQ(bytes(12), "12 bytes");
    EXPECT_TRUE(lists("gdr,sm", "gdr"));
    EXPECT_TRUE(lists("all", "gdr"));
    EXPECT_TRUE(lists("^ud", "gdr"));
    EXPECT_FALSE(lists("^gdr", "gdr"));
    EXPECT_FALSE(lists("", "gdr"));
    EXPECT_EQ(nearest("abx", {"zzzzzz", "abc"}), "abc");
    EXPECT_EQ(nearest("completely", {"different"}), "");
}

} // namespace
} // namespace doctor_test
