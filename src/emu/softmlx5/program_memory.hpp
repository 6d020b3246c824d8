// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The program's memory that queues lie in. A program may unmap it without a word: an adapter still
// has the pages, this one reaches them no more. So the kernel copies, as copy.cpp has it do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace softmlx5 {

// False: it is not there any more.
bool read_program(void* to, const void* from, std::size_t length);
void write_program(void* to, const void* from, std::size_t length);

// Two big-endian words, of which the program writes one while it is read.
class Record {
  public:
    explicit Record(std::uint64_t address) : words_(reinterpret_cast<std::uint32_t*>(address)) {}

    // What a word is now. Without the memory: what it was.
    std::uint32_t look(unsigned word);
    // What it was at the latest look.
    std::uint32_t seen(unsigned word) const;
    void write(unsigned word, std::uint32_t value);

  private:
    std::uint32_t* const words_;
    std::array<std::uint32_t, 2> seen_ = {};
};

} // namespace softmlx5
