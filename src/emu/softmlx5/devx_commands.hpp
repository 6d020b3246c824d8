// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the device answers to commands of its own format.
#pragma once

#include "emu/softmlx5/context.hpp"
#include "emu/softmlx5/prm.hpp"

namespace softmlx5 {

// Why a command failed, beside its status. Of these numbers a device's maker alone knows what his
// mean; docs/reference/softmlx5.md has ours.
enum class Syndrome : std::uint32_t {
    none,
    too_short,    // the command is shorter than its structure
    opcode,       // is not emulated, or not of this method
    object,       // a number names no object of the context, or another than the handle
    not_emulated, // a field has a value that is not emulated
    memory,       // no registered memory holds the queue or its record
    refused,      // the emulated HCA does not take it, as its verbs would not
};

struct Outcome {
    prm::Status status = prm::Status::ok;
    Syndrome syndrome = Syndrome::none;

    bool is_ok() const { return status == prm::Status::ok; }
};

Outcome execute_general(Context& context, prm::Input in, prm::Output out);

// The object is the context's from then on.
Outcome create_object(Context& context, prm::Input in, prm::Output out, std::uint32_t& handle);
// Handles are those of DEVX objects, or of queue pairs of the verbs.
Outcome modify_object(Context& context, std::uint32_t handle, prm::Input in);
Outcome query_object(Context& context, std::uint32_t handle, prm::Input in, prm::Output out);
// 0 or an errno.
int destroy_object(Context& context, std::uint32_t handle);

} // namespace softmlx5
