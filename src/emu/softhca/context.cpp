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

#include <fcntl.h>

namespace softhca {

Context& open_context(unsigned device)
{
    auto context = std::make_unique<Context>();
    context->process = &Process::join();
    context->device = device;
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
    const Profile& profile = profile_of(context->device);
    std::snprintf(arena.profiles[context->device], sizeof arena.profiles[0], "%s",
                  profile.text.c_str());
    arena.port_lid[context->device] = profile.isolated ? kNoLid : port_lid(context->device);
    arena.ports[context->device] = port_model(context->device);
    for (unsigned i = 0; i < kGids; ++i) {
        const ibv_gid gid = profile.isolated ? ibv_gid{} : port_gid(context->device, i);
        std::memcpy(arena.gids[context->device][i], gid.raw, sizeof gid.raw);
    }
    ibv_context& base = context->verbs.context;
    base.cmd_fd = context->command_fd;
    base.async_fd = context->async.read_fd;
    base.num_comp_vectors = 1;
    pthread_mutex_init(&base.mutex, nullptr);
    const SharedGuard guard(arena.contexts_lock, self.token());
    arena.contexts[context->index] = {context->async.write_end, context->device};
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
