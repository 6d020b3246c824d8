// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "emu/softnccl/room.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace softnccl {

Room::Room(const std::string& name, int ranks, int rank) : name_(name), ranks_(ranks), rank_(rank)
{
    const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes())) != 0) {
        throw std::runtime_error("no shared memory " + name);
    }
    void* const memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) {
        throw std::runtime_error("shared memory cannot be mapped");
    }
    shared_ = static_cast<Shared*>(memory); // zeros
}

Room::~Room()
{
    shm_unlink(name_.c_str());
    munmap(shared_, bytes());
}

size_t Room::bytes() const
{
    return sizeof(Shared) + static_cast<size_t>(ranks_) * sizeof(Slot);
}

Room::Slot& Room::slot(int rank) const
{
    return reinterpret_cast<Slot*>(shared_ + 1)[rank];
}

void Room::meet()
{
    const uint64_t all = ++meetings_ * static_cast<uint64_t>(ranks_);
    shared_->arrivals.fetch_add(1);
    while (shared_->arrivals < all) {
        if (aborted_) {
            throw Aborted();
        }
        usleep(20);
    }
    shm_unlink(name_.c_str()); // all have opened it
}

} // namespace softnccl
