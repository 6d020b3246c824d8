// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How the ranks of a job tell the first one, also where MPI is what fails: by files in a directory
// that all of them see. The first makes a directory of its own below it, and removes it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace gdr::doctor {

class Exchange {
  public:
    // job: a name that ranks of the same job share.
    Exchange(const std::filesystem::path& directory, const std::string& job,
             std::chrono::milliseconds patience);

    // The first rank: what the others told until all of them had, or nothing came any more. Throws
    // if it cannot write to the directory.
    std::vector<std::string> gather(unsigned others) const;
    // Another rank; ends when the first rank has read it. Throws if it never sees that one's
    // directory.
    void tell(unsigned rank, const std::string& text) const;

  private:
    const std::filesystem::path place_;
    const std::chrono::milliseconds patience_;
};

} // namespace gdr::doctor
