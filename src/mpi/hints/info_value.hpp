// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The value of a key in an info object. MPI 4 has deprecated MPI_Info_get, and not all later
// libraries have it, so this uses whichever call the library has.
#pragma once

#include "mpi/interface/library.hpp"

#include <array>
#include <string_view>

namespace gdr::mpi {

class InfoValue {
  public:
    static constexpr size_t kLongest = 255; // Open MPI's MPI_MAX_INFO_VAL, the smallest of all

    // A longer value is truncated.
    InfoValue(const Library& library, Word info, const char* key)
    {
        int found = 0, room = static_cast<int>(text_.size());
        if (library.Info_get_string != nullptr) {
            result_ = library.Info_get_string(info, key, &room, text_.data(), &found);
        } else {
            result_ = library.Info_get(info, key, room - 1, text_.data(), &found);
        }
        found_ = result_ == 0 && found != 0;
    }

    int result() const { return result_; } // what MPI returned
    bool found() const { return found_; }
    std::string_view text() const { return found_ ? text_.data() : std::string_view(); }

  private:
    std::array<char, kLongest + 1> text_{};
    int result_ = 0;
    bool found_ = false;
};

} // namespace gdr::mpi
