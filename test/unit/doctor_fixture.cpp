// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The good machine, its ELF files, and the account of what was seen of each check.
#include "doctor_fixture.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <map>
#include <set>

#include <sys/stat.h>

namespace doctor_test {

using namespace gdr::doctor;

namespace {

// What the checks said in all tests.
std::map<std::string, std::set<Status>> seen;

// Each check has to be seen to pass and to fail, if all tests run.
class Account : public testing::Environment {
    void TearDown() override
    {
        if (GTEST_FLAG_GET(filter) != "*") {
            return;
        }
        for (const Check& check : all_checks()) {
            EXPECT_TRUE(seen[check.id].contains(Status::pass)) << check.id;
            EXPECT_TRUE(seen[check.id].contains(Status::fail)) << check.id;
        }
    }
};
const testing::Environment* const account = testing::AddGlobalTestEnvironment(new Account);

template <class Part>
void put(std::string* file, size_t offset, const Part& part)
{
    file->resize(std::max(file->size(), offset + sizeof(part)));
    std::memcpy(file->data() + offset, &part, sizeof(part));
}

size_t add_name(std::string* names, const std::string& name)
{
    const size_t offset = names->size();
    *names += name + '\0';
    return offset;
}

// A file with the parts that the loader reads of a program, and nothing else. Addresses are
// offsets.
std::string elf_file(const ElfContent& content)
{
    constexpr size_t kSegments = sizeof(Elf64_Ehdr);
    constexpr size_t kDynamic = kSegments + 3 * sizeof(Elf64_Phdr);
    std::string names(1, '\0');
    std::vector<Elf64_Dyn> dynamic;
    for (const std::string& name : content.needed) {
        dynamic.push_back({DT_NEEDED, {add_name(&names, name)}});
    }
    if (!content.runpath.empty()) {
        dynamic.push_back({DT_RUNPATH, {add_name(&names, content.runpath)}});
    }
    const size_t code_name = add_name(&names, ".nv_fatbin");
    const size_t names_at = kDynamic + (dynamic.size() + 3) * sizeof(Elf64_Dyn);
    dynamic.push_back({DT_STRTAB, {names_at}});
    dynamic.push_back({DT_STRSZ, {names.size()}});
    dynamic.push_back({DT_NULL, {0}});
    std::string file;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_phoff = kSegments;
    header.e_phnum = content.is_static ? 1 : 3;
    header.e_shoff = names_at + names.size();
    header.e_shnum = content.has_device_code ? 2 : 0;
    put(&file, 0, header);
    const Elf64_Phdr segments[] = {
        {PT_LOAD, PF_R, 0, 0, 0, names_at + names.size(), names_at + names.size(), 1},
        {PT_DYNAMIC, PF_R, kDynamic, kDynamic, kDynamic, dynamic.size() * sizeof(Elf64_Dyn),
         dynamic.size() * sizeof(Elf64_Dyn), 1},
        {PT_INTERP, PF_R, 0, 0, 0, 0, 0, 1},
    };
    for (size_t i = 0; i < 3; ++i) {
        put(&file, kSegments + i * sizeof(Elf64_Phdr), segments[i]);
    }
    for (size_t i = 0; i < dynamic.size(); ++i) {
        put(&file, kDynamic + i * sizeof(Elf64_Dyn), dynamic[i]);
    }
    file.resize(names_at);
    file += names;
    Elf64_Shdr section_names{};
    section_names.sh_offset = names_at;
    section_names.sh_size = names.size();
    Elf64_Shdr code{};
    code.sh_name = static_cast<Elf64_Word>(code_name);
    put(&file, header.e_shoff, section_names);
    put(&file, header.e_shoff + sizeof(code), code);
    return file;
}

} // namespace

DoctorTest::DoctorTest()
{
    facts.environment = {{"PATH", "/usr/bin"}, {"HOME", "/home/user"}};
    facts.directory = "/home/user/job";
    facts.host = "n017";
    facts.kernel = "6.1.0";
    facts.user = 1000;
    facts.groups = {1000};
    facts.descriptors = 65536;
    facts.shared_memory = 1ull << 30;

    add_pci("sys/devices/pci0000:00/0000:00:01.0", "0x8086", "0x060400", 0);
    add_pci("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", "0x1000", "0x060400", 0);
    add_hca("mlx5_0", "uverbs0", kHca);
    add_pci(kGpu, "0x10de", "0x030200", 0);
    write(std::string(kGpu) + "/resource", "0x00000000f0000000 0x00000000f0ffffff 0x0\n"
                                           "0x0000200000000000 0x0000201fffffffff 0x0\n");
    write("proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n");
    write("proc/driver/nvidia/gpus/0000:04:00.0/information",
          "Model: \t\t NVIDIA H200\nIRQ:   90\n");
    for (const char* file :
         {"dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm", "usr/lib/libcuda.so.1"}) {
        write(file, "");
    }
    write("boot/config-6.1.0", "CONFIG_DMA_SHARED_BUFFER=y\nCONFIG_PCI_P2PDMA=y\n");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n");
    for (const char* library :
         {"usr/lib/libucp.so.0", "usr/lib/libuct.so.0", "usr/lib/libucs.so.0"}) {
        elf(library, {});
    }
    elf("usr/bin/orterun", {});
    set_mode("usr/bin/orterun", 0755);
    link("usr/bin/mpirun", "/usr/bin/orterun");
    elf("usr/lib/libmpi.so.40", {});
    elf("usr/lib/openmpi/mca_pml_ucx.so", {.needed = {"libucp.so.0"}});
    write("etc/openmpi/openmpi-mca-params.conf", "# a comment\npml = ucx\n");
    elf("home/user/job/program", {.needed = {"libmpi.so.40"}});
    set_mode("home/user/job/program", 0755);
}

void DoctorTest::link(const std::string& name, const std::string& target)
{
    tree_.have(std::filesystem::path(name).parent_path());
    std::filesystem::remove(root() / name);
    std::filesystem::create_symlink(target, root() / name);
}

void DoctorTest::elf(const std::string& file, const ElfContent& content)
{
    write(file, elf_file(content));
}

void DoctorTest::set_mode(const std::string& file, unsigned mode)
{
    ASSERT_EQ(chmod((root() / file).c_str(), mode), 0);
}

void DoctorTest::add_pci(const std::string& place, const std::string& vendor,
                         const std::string& its_class, int numa_node)
{
    const std::string address = std::filesystem::path(place).filename();
    write(place + "/vendor", vendor + "\n");
    write(place + "/class", its_class + "\n");
    write(place + "/numa_node", std::to_string(numa_node) + "\n");
    for (const char* which : {"/current", "/max"}) {
        write(place + which + "_link_speed", "32.0 GT/s PCIe\n");
        write(place + which + "_link_width", "16\n");
    }
    link("sys/bus/pci/devices/" + address, "/" + place);
}

void DoctorTest::add_hca(const std::string& name, const std::string& uverbs,
                         const std::string& place)
{
    add_pci(place, "0x15b3", "0x020700", 0);
    link(place + "/driver", "/sys/bus/pci/drivers/mlx5_core");
    const std::string hca = "sys/class/infiniband/" + name;
    link(hca + "/device", "/" + place);
    write(hca + "/node_type", "1: CA\n");
    write(hca + "/ports/1/state", "4: ACTIVE\n");
    write(hca + "/ports/1/link_layer", "InfiniBand\n");
    write(hca + "/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    write(hca + "/ports/1/sm_lid", "0x1\n");
    for (const char* counter : {"symbol_error", "link_error_recovery", "link_downed",
                                "port_rcv_errors", "local_link_integrity_errors"}) {
        write(hca + "/ports/1/counters/" + counter, "0\n");
    }
    write("sys/class/infiniband_verbs/" + uverbs + "/ibdev", name + "\n");
    write("dev/infiniband/" + uverbs, "");
    set_mode("dev/infiniband/" + uverbs, 0666);
}

void DoctorTest::add_far_hca()
{
    add_hca("mlx5_1", "uverbs1", "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0");
    write("sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/numa_node", "1\n");
}

void DoctorTest::make_ethernet()
{
    const std::string port = kPort;
    write(port + "link_layer", "Ethernet\n");
    write(port + "gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
    write(port + "gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    write(port + "gids/4", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    for (const char* index : {"0", "3"}) {
        write(port + "gid_attrs/types/" + index, "RoCE v2\n");
        write(port + "gid_attrs/ndevs/" + index, "eth0\n");
    }
    write("sys/class/net/eth0/mtu", "9000\n");
}

Finding DoctorTest::look(const std::string& id) const
{
    const Root its_root(root(), facts);
    const Machine machine(its_root);
    const Examination examination(machine);
    for (const Finding& finding : examination.findings) {
        if (finding.id == id) {
            seen[id].insert(finding.result.status);
            return finding;
        }
    }
    ADD_FAILURE() << "there is no check " << id;
    return {};
}

void DoctorTest::passes(const std::string& id) const
{
    const Finding finding = look(id);
    EXPECT_EQ(finding.result.status, Status::pass) << id << ": " << finding.result.summary;
}

void DoctorTest::is_skipped(const std::string& id) const
{
    const Finding finding = look(id);
    EXPECT_EQ(finding.result.status, Status::skipped) << id << ": " << finding.result.summary;
}

void DoctorTest::is_unknown(const std::string& id) const
{
    const Finding finding = look(id);
    EXPECT_EQ(finding.result.status, Status::unknown) << id << ": " << finding.result.summary;
}

void DoctorTest::fails(const std::string& id, Consequence consequence,
                       const std::string& words) const
{
    const Finding finding = look(id);
    const std::string told =
        finding.result.summary + "\n" + finding.result.detail + "\n" + finding.result.fix;
    EXPECT_EQ(finding.result.status, Status::fail) << id << ": " << told;
    EXPECT_EQ(finding.consequence, consequence) << id << ": " << told;
    EXPECT_NE(told.find(words), std::string::npos) << id << ": " << told;
}

} // namespace doctor_test
