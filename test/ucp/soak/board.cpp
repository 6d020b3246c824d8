// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Shared by fork.
#include "board.hpp"

#include <cstdio>
#include <new>

#include <sys/mman.h>

#include "../support/failure.hpp"

namespace ucptest {

const char* name(Kind kind)
{
    static constexpr const char* names[kKinds] = {"tag", "am", "stream", "put", "get", "atomic"};
    return names[static_cast<unsigned>(kind)];
}

Board& Board::create()
{
    void* memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "no shared memory");
    return *new (memory) Board;
}

void Board::fail(const char* who, const char* why)
{
    std::fprintf(stderr, "FAILED: %s: %s\n", who, why);
    ++failures;
}

} // namespace ucptest
