// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: HCAs, GPUs, and the way between them.
#include "doctor_fixture.hpp"

#include <array>
#include <fstream>

#include <sys/xattr.h>
#include <unistd.h>

namespace doctor_test {
namespace {

using enum gdr::doctor::Consequence;

class DoctorDeviceTest : public DoctorTest {};

// A list for a file of root's, which gives one user the permissions: the value of
// system.posix_acl_access.
std::array<unsigned, 11> access_list(unsigned permissions, unsigned user)
{
    const auto entry = [](unsigned tag, unsigned its_permissions) {
        return tag | its_permissions << 16;
    };
    constexpr unsigned kNobody = ~0u;
    return {2, // the version
            entry(0x01, 6),
            kNobody, // the owner
            entry(0x02, permissions),
            user,
            entry(0x04, 6),
            kNobody, // the group
            entry(0x10, 6),
            kNobody, // most that user and group get
            entry(0x20, 6),
            kNobody};
}

TEST_F(DoctorDeviceTest, AGoodMachineHasNoFault)
{
    for (const char* id :
         {"hca.none", "hca.emulated", "hca.provider", "hca.port", "hca.uverbs", "hca.perm",
          "gpu.driver", "gpu.emulated", "gpu.dev", "gpu.lib", "gpu.modules-closed", "gpu.bar1",
          "pci.link", "pci.iommu", "topo.far", "ib.sm", "ib.counters"}) {
        passes(id);
    }
    for (const char* id : {"roce.gid", "roce.mtu", "gpu.cudart", "ct.devices"}) {
        is_skipped(id);
    }
}

TEST_F(DoctorDeviceTest, WithoutHcaTheOthersHaveNothingToLookAt)
{
    remove("sys/class/infiniband");
    fails("hca.none", no_gpudirect, "modprobe mlx5_ib"); // there is an adapter
    is_skipped("hca.port");
    is_skipped("ib.sm");
    remove("sys/bus/pci/devices/0000:03:00.0");
    fails("hca.none", no_gpudirect, "no RDMA device");
    remove("sys/class");
    is_unknown("hca.none");
}

TEST_F(DoctorDeviceTest, AProviderThatGdrRefuses)
{
    link(std::string(kHca) + "/driver", "/sys/bus/pci/drivers/efa");
    fails("hca.provider", no_gpudirect, "mlx5_0 is not used: it has no RC queue pairs");
    passes("hca.port"); // is none of its faults
    link(std::string(kHca) + "/driver", "/sys/bus/pci/drivers/unheard_of");
    passes("hca.provider");
    write("sys/class/infiniband/mlx5_0/node_type", "4: RNIC\n");
    fails("hca.provider", no_gpudirect, "iWARP");
    write("sys/class/infiniband/mlx5_0/node_type", "7: <unknown>\n");
    fails("hca.provider", no_gpudirect, "srd");
    add_far_hca();
    fails("hca.provider", none, "mlx5_0 is not used");
}

TEST_F(DoctorDeviceTest, AProviderWithLoss)
{
    link(std::string(kHca) + "/driver", "/sys/bus/pci/drivers/mlx4_core");
    fails("hca.provider", none, "it takes no dmabuf");
}

TEST_F(DoctorDeviceTest, AnHcaThatLeadsToNvSwitches)
{
    write("sys/class/infiniband/mlx5_0/node_desc", "x SW_MNG\n");
    fails("hca.provider", no_gpudirect, "NVSwitches");
}

TEST_F(DoctorDeviceTest, APortThatIsDown)
{
    write(std::string(kPort) + "state", "1: DOWN\n");
    fails("hca.port", no_gpudirect, "mlx5_0:1 is DOWN, not ACTIVE");
    add_far_hca();
    fails("hca.port", none, "mlx5_0:1 is DOWN, not ACTIVE");
}

TEST_F(DoctorDeviceTest, ADeviceFileThatIsMissing)
{
    remove("dev/infiniband");
    fails("hca.uverbs", no_gpudirect, "/dev/infiniband/uverbs0 is missing");
    is_skipped("ct.devices");
    write(".dockerenv", "");
    fails("hca.uverbs", no_gpudirect, "--device=/dev/infiniband");
    fails("ct.devices", no_gpudirect, "--device=/dev/infiniband");
    remove("dev/nvidiactl");
    fails("ct.devices", no_gpudirect, "--device=/dev/infiniband --gpus all");
    remove("sys/class/infiniband_verbs");
    fails("hca.uverbs", no_gpudirect, "modprobe ib_uverbs");
}

TEST_F(DoctorDeviceTest, AContainerWithItsDevices)
{
    write("run/.containerenv", "");
    passes("ct.devices");
}

TEST_F(DoctorDeviceTest, ADeviceFileOfOthers)
{
    set_mode("dev/infiniband/uverbs0", 0660);
    fails("hca.perm", no_gpudirect, "no permission for /dev/infiniband/uverbs0");
    facts.groups.push_back(getegid());
    passes("hca.perm");
    facts.groups.pop_back();
    facts.user = 0;
    passes("hca.perm");
}

TEST_F(DoctorDeviceTest, WhatMayDenyADeviceFileBesideItsMode)
{
    write("run/.containerenv", "");
    is_unknown("hca.perm");
    remove("run/.containerenv");
    write("proc/self/attr/current", "jobs (enforce)\n");
    is_unknown("hca.perm");
    write("proc/self/attr/current", "jobs (complain)\n");
    passes("hca.perm");
    write("proc/self/attr/current", "unconfined\n");
    passes("hca.perm");
    write("proc/self/attr/current", "system_u:system_r:jobs_t:s0\n");
    passes("hca.perm"); // SELinux is permissive
    write("sys/fs/selinux/enforce", "1");
    is_unknown("hca.perm");
    write("proc/self/attr/current", "unconfined_u:unconfined_r:unconfined_t:s0\n");
    passes("hca.perm");
}

// The kernel judges by access lists, too.
TEST_F(DoctorDeviceTest, AnAccessList)
{
    if (geteuid() != 0) {
        GTEST_SKIP() << "it takes another user for a moment";
    }
    constexpr uid_t kOther = 65534;
    const auto file =
        std::filesystem::temp_directory_path() / ("doctor_test." + std::to_string(getpid()));
    std::ofstream(file).close();
    const auto may_use = [&](unsigned permissions) {
        const auto list = access_list(permissions, kOther); // the mode is 0666 with either
        EXPECT_EQ(setxattr(file.c_str(), "system.posix_acl_access", list.data(), sizeof(list), 0),
                  0);
        EXPECT_EQ(seteuid(kOther), 0);
        const bool may =
            gdr::doctor::Root("", gdr::doctor::facts_of_this_process({})).may_use(file);
        EXPECT_EQ(seteuid(0), 0);
        return may;
    };
    EXPECT_TRUE(may_use(6));
    EXPECT_FALSE(may_use(4));
    std::filesystem::remove(file);
}

// softmlx5 shows an HCA in /sys, whose uverbs device is no file.
TEST_F(DoctorDeviceTest, AnEmulatedHcaHasNoDeviceFile)
{
    remove("dev/infiniband");
    write(".dockerenv", "");
    set("LD_PRELOAD", "/opt/libsoftmlx5.so.0");
    is_skipped("hca.uverbs");
    passes("ct.devices");
    set("LD_PRELOAD", "");
    fails("hca.uverbs", no_gpudirect, "is missing");
    fails("ct.devices", no_gpudirect, "/dev/infiniband");
}

TEST_F(DoctorDeviceTest, EmulatedHcas)
{
    set("LD_PRELOAD", "/usr/lib/libsofthca.so:/usr/lib/libuct_gdr.so.0");
    fails("hca.emulated", no_gpudirect, "unset LD_PRELOAD");
    set("LD_PRELOAD", "");
    run({"ucx-gdr", "run", "--emulate-hca", "./program"});
    fails("hca.emulated", no_gpudirect, "--emulate-hca");
    run({"ucx-gdr", "run", "./program"});
    passes("hca.emulated");
    remove("sys/class/infiniband");
    fails("hca.emulated", no_gpudirect, "GDR_EMULATION=no");
    run({"ucx-gdr", "run", "--no-emulation", "./program"});
    is_skipped("hca.emulated");
    run({"ucx-gdr", "run", "./program"});
    set("GDR_EMULATION", "no");
    is_skipped("hca.emulated");
}

TEST_F(DoctorDeviceTest, ADriverThatIsNotLoaded)
{
    remove("proc/driver");
    fails("gpu.driver", no_gpudirect, "there is a GPU (0000:04:00.0)");
    for (const char* id : {"gpu.dev", "gpu.lib", "gpu.modules-closed"}) {
        is_skipped(id);
    }
    remove("sys/bus/pci/devices/0000:04:00.0");
    fails("gpu.driver", no_gpudirect, "no NVIDIA GPU");
    is_skipped("gpu.bar1");
}

TEST_F(DoctorDeviceTest, AnOldDriver)
{
    write("proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82.01  Wed\n");
    fails("gpu.driver", loss, "driver 470.82.01 exports no dmabuf");
    write("proc/driver/nvidia/version", "NVRM version: a kind of module\n");
    is_unknown("gpu.driver");
}

TEST_F(DoctorDeviceTest, ClosedModules)
{
    write("proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n");
    fails("gpu.modules-closed", no_gpudirect, "modprobe nvidia_peermem");
    write("sys/module/nvidia_peermem/refcnt", "0\n");
    fails("gpu.modules-closed", loss, "cudaMallocAsync");
}

TEST_F(DoctorDeviceTest, FilesOfAGpu)
{
    remove("dev/nvidia0");
    fails("gpu.dev", no_gpudirect, "/dev/nvidia0 is missing");
    remove("usr/lib/libcuda.so.1");
    fails("gpu.lib", no_gpudirect, "libcuda.so.1 is not found");
    write("opt/cuda/libcuda.so.1", "");
    set("LD_LIBRARY_PATH", "/opt/none:/opt/cuda");
    passes("gpu.lib");
}

TEST_F(DoctorDeviceTest, EmulatedGpus)
{
    write("usr/lib/ucx-gdr/softcuda/libcuda.so.1", "");
    set("LD_LIBRARY_PATH", "/usr/lib/ucx-gdr/softcuda");
    fails("gpu.emulated", no_gpudirect, "unset LD_LIBRARY_PATH");
    set("LD_LIBRARY_PATH", "");
    run({"mpirun", "-n", "2", "ucx-gdr", "run", "--emulate-gpu", "./program"});
    fails("gpu.emulated", no_gpudirect, "--emulate-gpu");
    run({"ucx-gdr", "run", "./program"});
    passes("gpu.emulated");
    remove("dev/nvidia0");
    fails("gpu.emulated", no_gpudirect, "GDR_EMULATION=no");
}

TEST_F(DoctorDeviceTest, AStaticCudaRuntime)
{
    run({"./program"});
    elf("home/user/job/program", {.needed = {"libcudart.so.12"}, .has_device_code = true});
    passes("gpu.cudart");
    elf("home/user/job/program", {.has_device_code = true});
    fails("gpu.cudart", none, "CUDA runtime inside"); // nothing is emulated
    run({"ucx-gdr", "run", "--emulate-gpu", "./program"});
    fails("gpu.cudart", cannot_run, "nvcc -cudart shared");
}

TEST_F(DoctorDeviceTest, ASmallAperture)
{
    const std::string resource = std::string(kGpu) + "/resource";
    write(resource, "0x0 0x0 0x0\n0x00000000e0000000 0x00000000efffffff 0x0\n");
    fails("gpu.bar1", loss, "shows 256 MiB (BAR1)");
    write(resource, "");
    is_unknown("gpu.bar1");
}

TEST_F(DoctorDeviceTest, SlowLinks)
{
    const std::string hca = kHca;
    write(hca + "/current_link_width", "8\n");
    fails("pci.link", loss, "mlx5_0 0000:03:00.0 has 8 of 16 lanes");
    write(hca + "/current_link_width", "16\n");
    write(hca + "/current_link_speed", "8.0 GT/s PCIe\n");
    fails("pci.link", loss, "mlx5_0 0000:03:00.0 runs at 8.0 GT/s PCIe of 32.0 GT/s PCIe");
    write(hca + "/current_link_speed", "32.0 GT/s PCIe\n");
    const std::string gpu = kGpu;
    write(gpu + "/current_link_speed", "2.5 GT/s PCIe\n");
    passes("pci.link"); // an idle GPU
    write(gpu + "/current_link_width", "4\n");
    fails("pci.link", loss, "GPU 0000:04:00.0 has 4 of 16 lanes");
    write(gpu + "/current_link_width", "16\n");
    // The switch's end of the link to the processor, and the processor's, which may be wider.
    write("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_width", "8\n");
    fails("pci.link", loss, "0000:01:00.0 has 8 of 16 lanes");
    write("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_width", "16\n");
    write("sys/devices/pci0000:00/0000:00:01.0/current_link_width", "8\n");
    passes("pci.link");
}

TEST_F(DoctorDeviceTest, LinksOfAVirtualMachine)
{
    for (const std::string device :
         {kHca, kGpu, "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"}) {
        write(device + "/current_link_speed", "Unknown\n");
        write(device + "/current_link_width", "0\n");
    }
    is_unknown("pci.link");
}

TEST_F(DoctorDeviceTest, AnIommuThatTranslates)
{
    write(std::string(kGpu) + "/iommu_group/type", "identity\n");
    passes("pci.iommu");
    write(std::string(kGpu) + "/iommu_group/type", "DMA-FQ\n");
    fails("pci.iommu", loss, "iommu=pt");
    remove(std::string(kGpu) + "/iommu_group/type");
    write(std::string(kGpu) + "/iommu_group/devices", "");
    is_unknown("pci.iommu");
}

TEST_F(DoctorDeviceTest, AnHcaThatIsFar)
{
    add_far_hca();
    passes("topo.far");
    write(std::string(kPort) + "state", "1: DOWN\n");
    fails("topo.far", loss, "GPU 0 (0000:04:00.0) has no HCA on its NUMA node");
    write("sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/numa_node", "-1\n");
    is_unknown("topo.far");
    write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    is_skipped("topo.far");
}

TEST_F(DoctorDeviceTest, AddressesOfRoce)
{
    make_ethernet();
    passes("roce.gid");
    is_skipped("ib.sm");
    const std::string port = kPort;
    set("UCX_GDR_RC_GID_INDEX", "0");
    fails("roce.gid", loss, "uses GID 0, a link-local address");
    facts.environment.erase("UCX_GDR_RC_GID_INDEX");
    write(port + "gid_attrs/types/3", "IB/RoCE v1\n");
    write(port + "gid_attrs/types/0", "IB/RoCE v1\n");
    fails("roce.gid", loss, "uses GID 3 of RoCE v1");
    remove(port + "gid_attrs/ndevs");
    fails("roce.gid", no_gpudirect, "of this network namespace");
    remove(port + "gids");
    fails("roce.gid", no_gpudirect, "has no GID");
}

TEST_F(DoctorDeviceTest, PacketsOfRoce)
{
    make_ethernet();
    passes("roce.mtu");
    write("sys/class/net/eth0/mtu", "1500\n");
    fails("roce.mtu", loss, "ip link set eth0 mtu 4200");
    remove("sys/class/net");
    is_unknown("roce.mtu");
}

TEST_F(DoctorDeviceTest, InfiniBandWithoutSubnetManager)
{
    write(std::string(kPort) + "sm_lid", "0x0\n");
    fails("ib.sm", loss, "mlx5_0:1 knows no subnet manager");
    write(std::string(kPort) + "state", "2: INIT\n");
    fails("ib.sm", no_gpudirect, "opensm");
    remove(std::string(kPort) + "sm_lid");
    is_unknown("ib.sm");
}

TEST_F(DoctorDeviceTest, ErrorsOfALink)
{
    write(std::string(kPort) + "counters/symbol_error", "17\n");
    fails("ib.counters", loss, "mlx5_0:1 counted 17 of symbol_error");
    remove(std::string(kPort) + "counters");
    is_unknown("ib.counters");
}

} // namespace
} // namespace doctor_test
