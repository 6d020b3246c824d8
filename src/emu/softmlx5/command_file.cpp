// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Open device files and what they are asked, see command_file.hpp. libibverbs puts most requests,
// whose structures are older than the ioctl, into one method of it: it tries the others first, and
// takes to that where they are not there.
#include "emu/softmlx5/command_file.hpp"

#include "emu/softmlx5/adapter.hpp"
#include "emu/softmlx5/command.hpp"
#include "emu/softmlx5/methods.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <system_error>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace softmlx5 {
namespace {

// What a descriptor is, to be looked up without a lock. Descriptors beyond have no device file.
enum class Kind : std::uint8_t { other, events, device }; // of device 0; 1 and so on follow
constexpr int kMaxFd = 1 << 16;
std::array<std::atomic<std::uint8_t>, kMaxFd> kinds;

void mark(int fd, Kind kind, unsigned device = 0)
{
    if (fd >= 0 && fd < kMaxFd) {
        kinds[static_cast<unsigned>(fd)].store(
            static_cast<std::uint8_t>(static_cast<unsigned>(kind) + device));
    }
}

Kind kind_of(int fd)
{
    const unsigned kind = fd < 0 || fd >= kMaxFd ? 0u : kinds[static_cast<unsigned>(fd)].load();
    return static_cast<Kind>(std::min<unsigned>(kind, static_cast<unsigned>(Kind::device)));
}

// Under the adapter's lock.
struct Files {
    std::map<int, std::unique_ptr<Context>> contexts; // null: not asked for one yet
    std::map<int, std::shared_ptr<CompletionChannel>> channels;
};

Files& files()
{
    static Files* current = nullptr;
    static const int registered = pthread_atfork(nullptr, nullptr, [] {
        current = nullptr; // the parent's objects are bytes here
        for (auto& kind : kinds) {
            kind.store(static_cast<std::uint8_t>(Kind::other));
        }
    });
    static_cast<void>(registered);
    if (current == nullptr) {
        current = new Files;
    }
    return *current;
}

} // namespace

int open_command_file(unsigned device)
{
    constexpr off_t size = off_t{1} << 36; // sparse
    const int fd = memfd_create("softmlx5", MFD_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (fd >= kMaxFd || ftruncate(fd, size) != 0) {
        const int error = fd >= kMaxFd ? EMFILE : errno;
        close(fd);
        errno = error;
        return -1;
    }
    const Adapter::Guard guard;
    files().contexts[fd] = nullptr;
    mark(fd, Kind::device, device);
    return fd;
}

std::optional<unsigned> device_of(int fd)
{
    if (kind_of(fd) != Kind::device) {
        return std::nullopt;
    }
    return kinds[static_cast<unsigned>(fd)].load() - static_cast<unsigned>(Kind::device);
}

int execute(int fd, ib_uverbs_ioctl_hdr& header)
{
    const auto device = device_of(fd);
    const Adapter::Guard guard;
    const auto file = files().contexts.find(fd);
    if (!device || file == files().contexts.end()) {
        return EBADF;
    }
    try {
        std::unique_ptr<Context>& context = file->second;
        if (context == nullptr && asks_for_context(header)) {
            context = std::make_unique<Context>(*guard, *device);
        }
        const int error = execute(context.get(), header);
        if (error != 0 && asks_for_context(header)) {
            context.reset(); // and the next one is another
        }
        return error;
    } catch (const std::system_error& error) {
        return error.code().value();
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

void forget(int fd)
{
    if (kind_of(fd) == Kind::other) {
        return;
    }
    const Adapter::Guard guard;
    mark(fd, Kind::other);
    if (const auto channel = find_channel(fd)) {
        channel->end(); // objects may have it still
        files().channels.erase(fd);
    }
    files().contexts.erase(fd);
}

std::shared_ptr<CompletionChannel> find_channel(int fd)
{
    const auto found = files().channels.find(fd);
    return found == files().channels.end() ? nullptr : found->second;
}

void keep_channel(std::shared_ptr<CompletionChannel> channel)
{
    const int fd = channel->read_fd();
    mark(fd, Kind::events);
    files().channels[fd] = std::move(channel);
}

} // namespace softmlx5
