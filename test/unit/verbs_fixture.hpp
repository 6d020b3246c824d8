// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A directory in the place of /sys.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace verbs_test {

class Tree {
  public:
    Tree() { std::filesystem::create_directories(root_); }
    ~Tree() { std::filesystem::remove_all(root_); }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    const std::filesystem::path& root() const { return root_; }

    void have(const std::string& directory)
    {
        std::filesystem::create_directories(root_ / directory);
    }
    void write(const std::string& file, const std::string& text)
    {
        have(std::filesystem::path(file).parent_path());
        std::ofstream(root_ / file) << text;
    }
    void link(const std::string& name, const std::string& target)
    {
        have(std::filesystem::path(name).parent_path());
        std::filesystem::create_symlink(root_ / target, root_ / name);
    }

  private:
    const std::filesystem::path root_ =
        std::filesystem::temp_directory_path() / ("gdr-sysfs-" + std::to_string(getpid()));
};

} // namespace verbs_test
