// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: UCX, MPI, and their settings.
#include "doctor_fixture.hpp"

namespace doctor_test {
namespace {

using enum gdr::doctor::Consequence;

class DoctorUcxTest : public DoctorTest {};

TEST_F(DoctorUcxTest, AGoodMachineHasNoFault)
{
    for (const char* id :
         {"ucx.found", "ucx.conf", "ucx.env", "ucx.other", "mpi.pml", "mpi.noucx"}) {
        passes(id);
    }
    is_skipped("mpi.paths");
}

TEST_F(DoctorUcxTest, UcxIsMissing)
{
    remove("usr/lib/libuct.so.0");
    fails("ucx.found", cannot_run, "/usr/lib/libuct.so.0 is missing");
    remove("usr/lib/libucp.so.0");
    fails("ucx.found", cannot_run, "libucp.so.0 is not found");
    is_skipped("ucx.other");
}

TEST_F(DoctorUcxTest, UcxIsWhereTheLoaderLooks)
{
    remove("usr/lib/libucp.so.0");
    for (const char* library : {"libucp.so.0", "libuct.so.0", "libucs.so.0"}) {
        elf("opt/ucx/lib/" + std::string(library), {});
    }
    write("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
    write("etc/ld.so.conf.d/ucx.conf", "# of a site\n/opt/ucx/lib\n");
    passes("ucx.found");
    remove("etc/ld.so.conf");
    fails("ucx.found", cannot_run, "is not found");
    run({"./program"});
    elf("home/user/job/program",
        {.needed = {"libucp.so.0"}, .runpath = "$ORIGIN/../../../opt/ucx/lib"});
    passes("ucx.found");
}

TEST_F(DoctorUcxTest, AFileOfUcxThatCannotBeRead)
{
    passes("ucx.conf");
    std::filesystem::create_directories(root() / "home/user/job/ucx.conf");
    is_unknown("ucx.conf");
    EXPECT_NE(look("ucx.conf")
                  .result.summary.find("/home/user/job/ucx.conf cannot be read: Is a "
                                       "directory"),
              std::string::npos);
}

TEST_F(DoctorUcxTest, FilesOfSettings)
{
    write("home/user/job/ucx.conf", "UCX_TLS=rc,cuda_copy\n");
    fails("ucx.conf", no_gpudirect, "/home/user/job/ucx.conf: UCX_TLS=rc,cuda_copy leaves gdr out");
    fails("ucx.conf", no_gpudirect, "sed -i");
    passes("ucx.env");
    set("UCX_TLS", "gdr,sm,self"); // counts more
    fails("ucx.conf", none, "UCX reads /home/user/job/ucx.conf");
    remove("home/user/job/ucx.conf");
    facts.environment.erase("UCX_TLS");
    for (const char* file : {"etc/ucx/ucx.conf", "usr/etc/ucx/ucx.conf", "home/user/ucx.conf"}) {
        write(file, "  UCX_MODULES = ^gdr # why?\n");
        fails("ucx.conf", no_gpudirect, std::string("/") + file);
        write(file, "[some processors]\nUCX_MODULES=^gdr\n");
        passes("ucx.conf");
        remove(file);
    }
    set("UCX_CONFIG_DIR", "/site");
    write("site/ucx.conf", "UCX_NET_DEVICES=eth0\n");
    fails("ucx.conf", no_gpudirect, "names no port of this machine, such as mlx5_0:1");
}

TEST_F(DoctorUcxTest, TheEnvironment)
{
    set("UCX_TLS", "^gdr");
    fails("ucx.env", no_gpudirect, "unset UCX_TLS");
    set("UCX_TLS", "all");
    set("UCX_NET_DEVICES", "mlx5_0:1");
    passes("ucx.env");
    set("UCX_NET_DEVICES", "mlx5_9:1");
    fails("ucx.env", no_gpudirect, "names no port");
    set("UCX_NET_DEVICES", "eth0");
    fails("ucx.env", no_gpudirect, "such as mlx5_0:1");
    set("UCX_NET_DEVICES", "all");
    set("UCX_GDR_RC_GID_INDX", "3");
    fails("ucx.env", loss, "is UCX_GDR_RC_GID_INDEX meant?");
    facts.environment.erase("UCX_GDR_RC_GID_INDX");
    set("UCX_GDR_RC_MAX_NUM_EPS", "8"); // one that UCX adds
    passes("ucx.env");
}

// The emulated ones, for example.
TEST_F(DoctorUcxTest, HcasThatTheKernelDoesNotShow)
{
    remove("sys/class/infiniband");
    set("UCX_NET_DEVICES", "eth0");
    fails("ucx.env", no_gpudirect, "UCX_NET_DEVICES=eth0 names no port of an HCA");
    for (const char* devices : {"softhca0:1", "eth0,softhca0:1", "^eth0", "all"}) {
        set("UCX_NET_DEVICES", devices);
        passes("ucx.env");
    }
}

TEST_F(DoctorUcxTest, AnEmulatedHcaShowsNoPorts)
{
    remove("sys/class/infiniband/mlx5_0/ports");
    set("UCX_NET_DEVICES", "mlx5_0:1");
    fails("ucx.env", no_gpudirect, "names no port of this machine");
    set("LD_PRELOAD", "/usr/lib/ucx-gdr/libsoftmlx5.so");
    passes("ucx.env");
    set("UCX_NET_DEVICES", "eth0");
    fails("ucx.env", no_gpudirect, "UCX_NET_DEVICES=eth0 names no port of an HCA");
}

TEST_F(DoctorUcxTest, OtherUcx)
{
    elf("opt/hpcx/ucx/lib/libucp.so.0", {});
    set("HPCX_UCX_DIR", "/opt/hpcx/ucx");
    fails("ucx.other", loss, "/opt/hpcx/ucx/lib/libucp.so.0");
    write("usr/lib/ucx/libuct_cuda.so.0", "");
    fails("ucx.other", none, "UCX has CUDA of its own");
}

TEST_F(DoctorUcxTest, OpenMpiWithoutItsUcxLayer)
{
    write("etc/openmpi/openmpi-mca-params.conf", "pml = ^ucx\n");
    fails("mpi.pml", no_gpudirect, "/etc/openmpi/openmpi-mca-params.conf says pml = ^ucx");
    fails("mpi.pml", no_gpudirect, "ucx-gdr setup --user");
    run({"mpirun", "-n", "2", "ucx-gdr", "run", "./program"});
    passes("mpi.pml");
    run({"mpirun", "--mca", "pml", "ob1", "-n", "2", "./program"});
    fails("mpi.pml", no_gpudirect, "--mca pml ob1");
    run({"./program"});
    write("home/user/.openmpi/mca-params.conf", "pml = ucx\n"); // counts more than the system's
    passes("mpi.pml");
    set("OMPI_MCA_pml", "^ucx");
    fails("mpi.pml", no_gpudirect, "unset OMPI_MCA_pml");
    run({"ucx-gdr", "run", "./program"}); // keeps it
    fails("mpi.pml", no_gpudirect, "unset OMPI_MCA_pml");
    facts.environment.erase("OMPI_MCA_pml");
    run({});
    remove("etc/openmpi");
    remove("home/user/.openmpi");
    fails("mpi.pml", none, "nothing tells Open MPI to use UCX");
}

TEST_F(DoctorUcxTest, OpenMpiWithoutUcx)
{
    remove("usr/lib/openmpi");
    fails("mpi.noucx", no_gpudirect, "--with-ucx");
    elf("usr/lib/libmpi.so.40", {.needed = {"libucp.so.0"}}); // that of 5.0
    passes("mpi.noucx");
    remove("usr/lib/libmpi.so.40");
    is_unknown("mpi.noucx");
}

TEST_F(DoctorUcxTest, Mpich)
{
    link("usr/bin/mpirun", "mpiexec.hydra");
    elf("usr/bin/mpiexec.hydra", {});
    set_mode("usr/bin/mpiexec.hydra", 0755);
    elf("usr/lib/libmpich.so.12", {.needed = {"libucp.so.0"}});
    passes("mpi.noucx");
    is_skipped("mpi.pml");
    elf("usr/lib/libfabric.so.1", {});
    elf("usr/lib/libmpich.so.12", {.needed = {"libfabric.so.1"}});
    fails("mpi.noucx", no_gpudirect, "it brings libfabric.so.1 instead");
    fails("mpi.noucx", no_gpudirect, "--with-device=ch4:ucx");
    remove("usr/bin/mpirun");
    is_skipped("mpi.noucx");
}

TEST_F(DoctorUcxTest, ACommandWithoutMpi)
{
    write("etc/openmpi/openmpi-mca-params.conf", "pml = ^ucx\n");
    elf("home/user/job/program", {.needed = {"libucp.so.0"}});
    run({"./program"});
    is_skipped("mpi.noucx");
    is_skipped("mpi.pml");
    run({"mpirun", "./program"});
    fails("mpi.pml", no_gpudirect, "pml = ^ucx");
    write("home/user/job/program", "#!/usr/bin/python3\n");
    run({"./program"});
    fails("mpi.pml", no_gpudirect, "pml = ^ucx");
}

TEST_F(DoctorUcxTest, IntelMpi)
{
    elf("opt/intel/oneapi/mpi/bin/mpirun", {});
    set_mode("opt/intel/oneapi/mpi/bin/mpirun", 0755);
    set("PATH", "/opt/intel/oneapi/mpi/bin");
    fails("mpi.noucx", no_gpudirect, "FI_PROVIDER=mlx");
    set("FI_PROVIDER", "mlx");
    passes("mpi.noucx");
}

TEST_F(DoctorUcxTest, PathOfComponents)
{
    set("OMPI_MCA_mca_base_component_path", "SYSTEM_DEFAULT:/usr/lib/openmpi:USER_DEFAULT");
    passes("mpi.paths");
    set("OMPI_MCA_mca_base_component_path", "/nowhere:SYSTEM_DEFAULT");
    fails("mpi.paths", loss, "no further than /nowhere");
    set("OMPI_MCA_mca_base_component_path", "/home/user");
    fails("mpi.paths", no_gpudirect, "lacks SYSTEM_DEFAULT");
}

} // namespace
} // namespace doctor_test
