// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An open device: its part in the arena, its descriptors, see objects.hpp.
#include "emu/softhca/config.hpp"
#include "emu/softhca/device.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/wire.hpp"

#include <cstdio>
#include <cstring>
#include <functional>

#include <fcntl.h>

namespace softhca {

namespace {

// For all processes.
void describe(Arena& arena, unsigned device)
{
    const Profile& profile = profile_of(device);
    std::snprintf(arena.profiles[device], sizeof arena.profiles[0], "%s", profile.text.c_str());
    arena.port_lid[device] = profile.isolated ? kNoLid : port_lid(device);
    arena.ports[device] = port_model(device);
    for (unsigned i = 0; i < kGids; ++i) {
        const ibv_gid gid = profile.isolated ? ibv_gid{} : port_gid(device, i);
        std::memcpy(arena.gids[device][i], gid.raw, sizeof gid.raw);
    }
}

} // namespace

Context& open_context(unsigned device, unsigned ports)
{
    auto context = std::make_unique<Context>();
    context->process = &Process::join();
    context->device = device;
    context->ports = ports;
    Process& self = *context->process;
    Arena& arena = self.arena();
    context->async.open();
    // Programs that share a device with another process hand on a duplicate; nobody talks to it.
    context->command_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    context->index = self.context_indices.allocate();
    if (context->index == kNone) {
        context->close();
        throw std::bad_alloc();
    }
    for (unsigned port = device; port < device + ports; ++port) {
        std::call_once(self.described[port], describe, std::ref(arena), port);
    }
    ibv_context& base = context->verbs.context;
    base.cmd_fd = context->command_fd;
    base.async_fd = context->async.read_fd;
    base.num_comp_vectors = 1;
    pthread_mutex_init(&base.mutex, nullptr);
    const SharedGuard guard(arena.contexts_lock, self.token());
    arena.contexts[context->index] = {context->async.write_end, device, ports};
    return *context.release();
}

void close_context(Context& context)
{
    if (!is_stale(&context.verbs.context)) {
        Process& self = *context.process;
        const SharedGuard guard(self.arena().contexts_lock, self.token());
        self.arena().contexts[context.index] = {};
        self.context_indices.release(context.index);
    }
    context.close();
    delete &context;
}

} // namespace softhca
