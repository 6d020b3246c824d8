// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: what is dumped on one machine and looked at on another.
#include "doctor_fixture.hpp"

#include "doctor/dump.hpp"
#include "doctor/pseudonyms.hpp"
#include "doctor/report.hpp"
#include "packed.hpp"

#include <fstream>
#include <iterator>

namespace doctor_test {
namespace {

using namespace gdr::doctor;
namespace fs = std::filesystem;

class DoctorDumpTest : public DoctorTest {
  protected:
    // The report, with a dump of it; then that of the dump.
    std::string dumped()
    {
        fs::remove_all(dump_);
        const Root its_root(root(), facts);
        const Machine machine(its_root);
        const std::string text = report(Examination(machine), {.verbose = true});
        write_dump(its_root, dump_);
        return Pseudonyms(facts).replaced(text);
    }
    std::string replayed() const
    {
        const Root its_root = read_dump(dump_);
        const Machine machine(its_root);
        return report(Examination(machine), {.verbose = true});
    }
    // All that is in the dump: names, targets, contents.
    std::string everything() const
    {
        std::string all;
        for (const auto& entry : fs::recursive_directory_iterator(dump_)) {
            all += entry.path().native() + "\n";
            if (entry.is_symlink()) {
                all += fs::read_symlink(entry.path()).native() + "\n";
            } else if (entry.is_regular_file()) {
                std::ifstream file(entry.path());
                all.append(std::istreambuf_iterator<char>(file), {});
            }
        }
        return all;
    }

    const fs::path dump_ = root() / "dump";
};

TEST_F(DoctorDumpTest, ADumpShowsTheSame)
{
    run({"mpirun", "-n", "2", "./program"});
    const std::string text = dumped();
    EXPECT_EQ(text, replayed());
}

TEST_F(DoctorDumpTest, SoDoesThatOfABadMachine)
{
    facts.locked_memory = 1 << 20;
    set_mode("dev/infiniband/uverbs0", 0600);
    remove("dev/nvidia0");
    make_ethernet();
    write("home/user/ucx.conf", "UCX_TLS=tcp\n");
    write("etc/openmpi/openmpi-mca-params.conf", "pml = ^ucx\n");
    write("sys/class/infiniband/mlx5_0/node_desc", "n017 SW_MNG serial 42\n");
    run({"./program"});
    const std::string text = dumped();
    EXPECT_NE(text.find("NVSwitches"), std::string::npos);
    EXPECT_EQ(text, replayed());
}

TEST_F(DoctorDumpTest, NamesAreReplaced)
{
    facts.host = "n017.cluster.example";
    set("HOME", "/home/alice");
    set("USER", "alice");
    set("SECRET", "token");
    set("LD_LIBRARY_PATH", "/scratch/alice/n017/lib");
    facts.directory = "/home/alice/job";
    elf("home/alice/job/program", {});
    set_mode("home/alice/job/program", 0755);
    write("home/alice/ucx.conf", "# of alice\n");
    write("sys/class/infiniband/mlx5_0/node_desc", "n017 mlx5_0\n");
    make_ethernet();
    write(std::string(kPort) + "gids/3", "0000:0000:0000:0000:0000:ffff:c0a8:0715\n");
    write(std::string(kPort) + "gids/5", "2001:0db8:0000:0000:0000:0000:beef:cafe\n");
    run({"./program"});
    const std::string text = dumped();
    EXPECT_EQ(text, replayed());
    const std::string all = everything();
    for (const char* name : {"n017", "alice", "token", "c0a8", "beef", "cluster.example"}) {
        EXPECT_EQ(all.find(name), std::string::npos) << name;
    }
    EXPECT_NE(all.find("/home/user/ucx.conf"), std::string::npos);
}

#ifdef HAVE_ZLIB
// A name in what is packed is replaced, and does not spoil the rest.
TEST_F(DoctorDumpTest, APackedConfiguration)
{
    facts.host = "n017";
    remove("boot");
    write("proc/config.gz",
          packed("CONFIG_DEFAULT_HOSTNAME=\" n017 \"\nCONFIG_DMA_SHARED_BUFFER=y\n",
                 Z_NO_COMPRESSION));
    fails("kernel.dmabuf", gdr::doctor::Consequence::loss, "without CONFIG_PCI_P2PDMA=y");
    const std::string text = dumped();
    EXPECT_EQ(text, replayed());
    EXPECT_EQ(everything().find("n017"), std::string::npos);
}
#endif

TEST_F(DoctorDumpTest, PseudonymsAreForWholeWords)
{
    facts.host = "vm";
    EXPECT_EQ(Pseudonyms(facts).replaced("vmw_pvrdma vm vm-1 /vm/ vm.x"),
              "vmw_pvrdma host vm-1 /host/ host.x");
}

TEST_F(DoctorDumpTest, WhatIsThereIsNotOverwritten)
{
    fs::create_directories(dump_);
    const Root its_root(root(), facts);
    EXPECT_THROW(write_dump(its_root, dump_), std::runtime_error);
}

TEST_F(DoctorDumpTest, WhatIsNoDumpIsRefused)
{
    EXPECT_ANY_THROW(read_dump(dump_));
    fs::create_directories(dump_);
    std::ofstream(dump_ / "facts.json") << "{\"format\": 2}";
    EXPECT_ANY_THROW(read_dump(dump_));
    std::ofstream(dump_ / "facts.json") << "{";
    EXPECT_ANY_THROW(read_dump(dump_));
}

} // namespace
} // namespace doctor_test
