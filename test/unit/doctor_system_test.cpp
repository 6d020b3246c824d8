// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: kernel, limits, processors.
#include "doctor_fixture.hpp"

#include "packed.hpp"

namespace doctor_test {
namespace {

using enum gdr::doctor::Consequence;

class DoctorSystemTest : public DoctorTest {};

TEST_F(DoctorSystemTest, AGoodMachineHasNoFault)
{
    for (const char* id : {"kernel.sysfs", "kernel.dmabuf", "limits.memlock", "limits.nofile",
                           "limits.shm", "mem.hooks", "fork", "cpu.power"}) {
        passes(id);
    }
}

TEST_F(DoctorSystemTest, WithoutSysfs)
{
    remove("sys");
    fails("kernel.sysfs", cannot_run, "mount -t sysfs");
}

TEST_F(DoctorSystemTest, AKernelWithoutP2p)
{
    write("boot/config-6.1.0", "CONFIG_DMA_SHARED_BUFFER=y\n# CONFIG_PCI_P2PDMA is not set\n");
    fails("kernel.dmabuf", loss, "without CONFIG_PCI_P2PDMA=y");
    remove("boot");
    is_unknown("kernel.dmabuf");
#ifdef HAVE_ZLIB
    write("proc/config.gz", packed("CONFIG_DMA_SHARED_BUFFER=y\n# CONFIG_PCI_P2PDMA is not set\n"));
    fails("kernel.dmabuf", loss, "without CONFIG_PCI_P2PDMA=y");
    write("proc/config.gz", packed("CONFIG_DMA_SHARED_BUFFER=y\nCONFIG_PCI_P2PDMA=y\n"));
    passes("kernel.dmabuf");
    write("proc/config.gz",
          packed("CONFIG_DMA_SHARED_BUFFER=y\nCONFIG_PCI_P2PDMA=y\n").substr(0, 20));
    is_unknown("kernel.dmabuf");
#endif
}

TEST_F(DoctorSystemTest, LockedMemory)
{
    facts.locked_memory = 8 << 20;
    fails("limits.memlock", no_gpudirect, "8 MiB may be locked, an interface needs up to 36 MiB");
    fails("limits.memlock", no_gpudirect, "limits.d");
    facts.locks_without_limit = true;
    passes("limits.memlock");
    facts.locks_without_limit = false;
    set("SLURM_JOB_ID", "1");
    fails("limits.memlock", no_gpudirect, "PropagateResourceLimitsExcept=MEMLOCK");
    set("container", "podman");
    fails("limits.memlock", no_gpudirect, "--ulimit memlock=-1");
    facts.locked_memory = 64ull << 30;
    fails("limits.memlock", loss, "limited to 64 GiB");
}

TEST_F(DoctorSystemTest, OtherLimits)
{
    facts.descriptors = 1024;
    fails("limits.nofile", loss, "ulimit -n 4096");
    facts.shared_memory = 64 << 20;
    fails("limits.shm", loss, "/dev/shm has 64 MiB");
    facts.shared_memory.reset();
    fails("limits.shm", loss, "there is no /dev/shm");
}

TEST_F(DoctorSystemTest, MemoryHooks)
{
    set("UCX_MEM_EVENTS", "n");
    fails("mem.hooks", loss, "unset UCX_MEM_EVENTS");
    facts.environment.erase("UCX_MEM_EVENTS");
    write("home/user/ucx.conf", "UCX_MEM_MMAP_HOOK_MODE = none\n");
    fails("mem.hooks", loss, "/home/user/ucx.conf");
}

TEST_F(DoctorSystemTest, Fork)
{
    facts.kernel = "5.10.0-28-amd64";
    fails("fork", none, "older than 5.12");
    set("UCX_GDR_RC_FORK_INIT", "n");
    fails("fork", loss, "RDMAV_FORK_SAFE=1");
    facts.kernel = "";
    is_unknown("fork");
}

TEST_F(DoctorSystemTest, PowerOfProcessors)
{
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    fails("cpu.power", loss, "1 of 1 processors");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
    fails("cpu.power", none, "powersave");
    remove("sys/devices/system/cpu/cpu0/cpufreq");
    is_unknown("cpu.power");
}

} // namespace
} // namespace doctor_test
