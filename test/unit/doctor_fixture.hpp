// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: a machine that is a directory. It begins as a good one, and tests break it.
#pragma once

#include "verbs_fixture.hpp"

#include "doctor/checks.hpp"
#include "doctor/examination.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace doctor_test {

struct ElfContent {
    std::vector<std::string> needed = {};
    bool is_static = false;
    bool has_device_code = false;
    std::string runpath = {};
};

class DoctorTest : public testing::Test {
  protected:
    DoctorTest();

    // file: without the "/" in front.
    void write(const std::string& file, const std::string& text) { tree_.write(file, text); }
    void link(const std::string& name, const std::string& target);
    void elf(const std::string& file, const ElfContent& content);
    void remove(const std::string& file) { std::filesystem::remove_all(tree_.root() / file); }
    void set_mode(const std::string& file, unsigned mode);
    void run(std::vector<std::string> command) { facts.command = std::move(command); }
    void set(const std::string& name, const std::string& value) { facts.environment[name] = value; }

    // A second HCA, on another NUMA node.
    void add_far_hca();
    // mlx5_0 becomes a RoCE HCA with the GID of an IPv4 address.
    void make_ethernet();

    gdr::doctor::Finding look(const std::string& id) const;
    std::filesystem::path root() const { return tree_.root(); }

    // Expectations.
    void passes(const std::string& id) const;
    void is_skipped(const std::string& id) const;
    void is_unknown(const std::string& id) const;
    // The finding has the words in what it tells.
    void fails(const std::string& id, gdr::doctor::Consequence consequence,
               const std::string& words) const;

    gdr::doctor::Facts facts;

    static constexpr const char* kHca = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/"
                                        "0000:02:00.0/0000:03:00.0";
    static constexpr const char* kGpu = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/"
                                        "0000:02:01.0/0000:04:00.0";
    static constexpr const char* kPort = "sys/class/infiniband/mlx5_0/ports/1/";

  private:
    void add_pci(const std::string& place, const std::string& vendor, const std::string& its_class,
                 int numa_node);
    void add_hca(const std::string& name, const std::string& uverbs, const std::string& place);

    verbs_test::Tree tree_;
};

} // namespace doctor_test
