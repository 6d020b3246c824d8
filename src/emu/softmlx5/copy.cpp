// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How the adapter copies in its process, see softhca's memory.hpp. Memory that is registered may
// have been unmapped: an adapter still has its pages, and nobody sees what it does to them. UCX
// ends so, as its cache of registrations keeps them longer than its pools keep the memory.
#include "emu/softhca/memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

namespace softhca {

void copy_own(void* to, const void* from, std::size_t length)
{
    const iovec target = {to, length}, source = {const_cast<void*>(from), length};
    static_cast<void>(!process_vm_writev(getpid(), &source, 1, &target, 1, 0));
}

} // namespace softhca
