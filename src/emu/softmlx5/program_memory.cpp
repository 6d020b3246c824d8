// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies of queues, see program_memory.hpp.
#include "emu/softmlx5/program_memory.hpp"

#include <endian.h>
#include <sys/uio.h>
#include <unistd.h>

namespace softmlx5 {

bool read_program(void* to, const void* from, std::size_t length)
{
    const iovec target = {to, length}, source = {const_cast<void*>(from), length};
    return process_vm_readv(getpid(), &target, 1, &source, 1, 0) == static_cast<ssize_t>(length);
}

void write_program(void* to, const void* from, std::size_t length)
{
    const iovec target = {to, length}, source = {const_cast<void*>(from), length};
    static_cast<void>(!process_vm_writev(getpid(), &source, 1, &target, 1, 0));
}

std::uint32_t Record::look(unsigned word)
{
    // The kernel may copy byte by byte, so a word that is just being written may be half of each:
    // a new one counts when it was read twice.
    std::uint32_t latest = seen_[word], now;
    while (read_program(&now, &words_[word], sizeof now) && now != seen_[word]) {
        if (now == latest) {
            seen_[word] = now;
            break;
        }
        latest = now;
    }
    return be32toh(seen_[word]);
}

std::uint32_t Record::seen(unsigned word) const
{
    return be32toh(seen_[word]);
}

void Record::write(unsigned word, std::uint32_t value)
{
    seen_[word] = htobe32(value);
    write_program(&words_[word], &seen_[word], sizeof seen_[word]);
}

} // namespace softmlx5
