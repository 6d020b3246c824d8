// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How softhca copies in its process, see memory.hpp.
#include "emu/softhca/memory.hpp"

#include <cstring>

namespace softhca {

void copy_own(void* to, const void* from, std::size_t length)
{
    std::memmove(to, from, length);
}

} // namespace softhca
