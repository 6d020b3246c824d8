// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the application asks for: a structure for each kind of operation, with the arguments of its
// function, and nothing else.
#pragma once

#include "sync/ucx-gdr/ugdr.h"

#include <cstdint>
#include <variant>

namespace gdr::sync {

struct TagSend {
    static constexpr const char* kName = "ugdr_tag_send";
    ucp_ep_h ep;
    const void* buffer;
    size_t count;
    ucp_tag_t tag;
};

struct TagReceive {
    static constexpr const char* kName = "ugdr_tag_recv";
    void* buffer;
    size_t count;
    ucp_tag_t tag;
    ucp_tag_t tag_mask;
    ucp_tag_recv_info_t info = {};            // of the message that has come
    ucp_tag_recv_info_t* user_info = nullptr; // where the application wants it
};

struct AmSend {
    static constexpr const char* kName = "ugdr_am_send";
    ucp_ep_h ep;
    unsigned id;
    const void* header;
    size_t header_length;
    const void* buffer;
    size_t count;
};

struct Put {
    static constexpr const char* kName = "ugdr_put";
    ucp_ep_h ep;
    const void* buffer;
    size_t count;
    uint64_t remote;
    ucp_rkey_h rkey;
};

struct Get {
    static constexpr const char* kName = "ugdr_get";
    ucp_ep_h ep;
    void* buffer;
    size_t count;
    uint64_t remote;
    ucp_rkey_h rkey;
};

struct Atomic {
    static constexpr const char* kName = "ugdr_atomic";
    ucp_ep_h ep;
    ucp_atomic_op_t opcode;
    const void* buffer;
    size_t count;
    uint64_t remote;
    ucp_rkey_h rkey;
};

struct EpFlush {
    static constexpr const char* kName = "ugdr_ep_flush";
    ucp_ep_h ep;
};

struct WorkerFlush {
    static constexpr const char* kName = "ugdr_worker_flush";
};

struct Call {
    ugdr_call_cb_t start;
    ugdr_call_cb_t test;
    void* argument;
    const char* kName = "ugdr_call"; // or what of the library's it is
};

using Arguments =
    std::variant<TagSend, TagReceive, AmSend, Put, Get, Atomic, EpFlush, WorkerFlush, Call>;

inline const char* name_of(const Arguments& arguments)
{
    return std::visit([](const auto& any) { return any.kName; }, arguments);
}

// The local buffer; nullptr if the kind has none.
inline const void* buffer_of(const Arguments& arguments)
{
    return std::visit(
        [](const auto& any) -> const void* {
            if constexpr (requires { any.buffer; }) {
                return any.buffer;
            } else {
                return nullptr;
            }
        },
        arguments);
}

} // namespace gdr::sync
