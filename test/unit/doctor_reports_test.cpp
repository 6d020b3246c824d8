// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: set-ups that users reported in public, where GPUDirect RDMA was missing or slow for a
// reason that took long to find. The reason has to stand first, and alone where nothing follows
// from it.
#include "doctor_fixture.hpp"

#include "doctor/reader/text.hpp"
#include "doctor/report.hpp"

namespace doctor_test {
namespace {

using namespace gdr::doctor;

class DoctorReportsTest : public DoctorTest {
  protected:
    // The report's first finding is this, and has the words.
    void first_is(const std::string& id, const std::string& words) const
    {
        const Root its_root(root(), facts);
        const Machine machine(its_root);
        const std::string text = report(Examination(machine), {});
        for (const std::string& line : lines(text)) {
            if (line.starts_with("ERROR") || line.starts_with("WARNING") ||
                line.starts_with("info")) {
                EXPECT_EQ(split(line, ' ')[1], id) << text;
                EXPECT_NE(line.find(words), std::string::npos) << text;
                return;
            }
        }
        ADD_FAILURE() << "nothing is found: " << text;
    }
};

// openucx/ucx#8229, rapidsai/ucx-py#361: ibv_create_cq fails where 64 KiB may be locked.
TEST_F(DoctorReportsTest, LittleMemoryMayBeLocked)
{
    facts.locked_memory = 64 << 10;
    first_is("limits.memlock", "64 KiB may be locked");
}

// The same in a job: the limit is that of Slurm's daemon.
TEST_F(DoctorReportsTest, LittleMemoryMayBeLockedInAJob)
{
    facts.locked_memory = 64 << 10;
    set("SLURM_JOB_ID", "1");
    first_is("limits.memlock", "64 KiB may be locked");
    EXPECT_NE(look("limits.memlock").result.fix.find("slurm.conf"), std::string::npos);
}

// open-mpi/ompi#8367: Debian switches UCX off in Open MPI, for all machines.
TEST_F(DoctorReportsTest, OpenMpiOfDebian)
{
    write("etc/openmpi/openmpi-mca-params.conf", "btl_base_warn_component_unused=0\npml = ^ucx\n");
    set("LD_PRELOAD", "/usr/lib/libuct_gdr.so.0");
    run({"mpirun", "-n", "2", "./program"});
    first_is("mpi.pml", "/etc/openmpi/openmpi-mca-params.conf says pml = ^ucx");
}

// openucx/ucx#3984: without nv_peer_mem, and without dmabuf, GPU memory is staged.
TEST_F(DoctorReportsTest, ClosedModulesWithoutPeermem)
{
    write("proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\n");
    first_is("gpu.modules-closed", "");
}

// NVIDIA/nccl#451, openucx/ucx#10625: a container of docker without the HCA's files.
TEST_F(DoctorReportsTest, AContainerWithoutTheHca)
{
    write(".dockerenv", "");
    remove("dev/infiniband");
    first_is("hca.uverbs", "/dev/infiniband/uverbs0 is missing");
    EXPECT_NE(look("ct.devices").result.fix.find("--device=/dev/infiniband"), std::string::npos);
}

// Mellanox/k8s-rdma-shared-dev-plugin#101, NVIDIA/nccl#1796: a pod has the HCA, and no network
// interface of it.
TEST_F(DoctorReportsTest, APodWithoutTheInterfaceOfItsHca)
{
    make_ethernet();
    remove("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/net");
    remove(std::string(kPort) + "gids");
    write(std::string(kPort) + "gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    first_is("roce.gid", "");
}

// openucx/ucx#7991: packets of 1024 bytes, as the interface has an MTU of 1500.
TEST_F(DoctorReportsTest, ShortPacketsOfRoce)
{
    make_ethernet();
    write("sys/class/net/eth0/mtu", "1500\n");
    first_is("roce.mtu", "");
}

// NVIDIA/nccl#1737, linux-rdma/perftest#241: an IOMMU is between GPU and HCA.
TEST_F(DoctorReportsTest, AnIommuTranslates)
{
    write("sys/kernel/iommu_groups/5/type", "DMA-FQ\n");
    link(std::string(kHca) + "/iommu_group", "/sys/kernel/iommu_groups/5");
    first_is("pci.iommu", "0000:03:00.0");
}

// Azure/azhpc-images#140, openucx/ucx#7232: two versions of UCX, and ucx_info is of the other one.
TEST_F(DoctorReportsTest, TwoUcx)
{
    elf("usr/local/ucx/lib/libucp.so.0", {.needed = {"libuct.so.0"}});
    set("LD_LIBRARY_PATH", "/usr/local/ucx/lib");
    first_is("ucx.found", "");
}

// openucx/ucx#10929: UCX_TLS without what handles GPU memory.
TEST_F(DoctorReportsTest, UcxTlsWithoutGpuMemory)
{
    set("UCX_TLS", "rc,sm,self");
    first_is("ucx.env", "UCX_TLS=rc,sm,self leaves gdr out");
}

// vllm-project/vllm#16336: the first HCAs of a B200 machine lead to its NVSwitches.
TEST_F(DoctorReportsTest, PinnedToAPortOfNvSwitches)
{
    write("sys/class/infiniband/mlx5_0/node_desc", "SW_MNG\n");
    add_far_hca();
    first_is("topo.far", "");
    EXPECT_NE(look("hca.provider").result.summary.find("NVSwitches"), std::string::npos);
}

// NVIDIA/nccl#1264, openucx/ucx#11121: the HCA of the other socket.
TEST_F(DoctorReportsTest, TheHcaIsOnAnotherNumaNode)
{
    add_far_hca();
    write(std::string(kPort) + "state", "1: DOWN\n");
    first_is("topo.far", "has no HCA on its NUMA node");
}

// Environments do not pass launchers: nothing brings gdr into the ranks.
TEST_F(DoctorReportsTest, ALauncherStripsTheEnvironment)
{
    run({"./program"});
    first_is("launch.preload", "nothing brings gdr into ./program");
}

} // namespace
} // namespace doctor_test
