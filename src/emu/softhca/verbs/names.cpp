// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The names of what verbs report, where no libibverbs is there to have them: the InfiniBand
// specification's words.
#include "emu/softhca/verbs_abi.hpp"

#include <cstddef>
#include <iterator>

namespace {

template <std::size_t size>
const char* name_of(const char* const (&names)[size], int value)
{
    return value >= 0 && value < static_cast<int>(size) ? names[value] : "unknown";
}

constexpr const char* kNodes[] = {"unknown",           "InfiniBand channel adapter",
                                  "InfiniBand switch", "InfiniBand router",
                                  "iWARP NIC",         "usNIC",
                                  "usNIC UDP",         "unspecified"};

constexpr const char* kPortStates[] = {"nop", "down", "init", "armed", "active", "active defer"};

constexpr const char* kEvents[] = {"CQ error",
                                   "local work queue catastrophic error",
                                   "invalid request local work queue error",
                                   "local access violation work queue error",
                                   "communication established",
                                   "send queue drained",
                                   "path migrated",
                                   "path migration request error",
                                   "local catastrophic error",
                                   "port active",
                                   "port error",
                                   "LID changed",
                                   "partition key table changed",
                                   "subnet manager changed",
                                   "SRQ catastrophic error",
                                   "SRQ limit reached",
                                   "last work request reached",
                                   "client reregistration",
                                   "GID table changed",
                                   "WQ fatal error"};

constexpr const char* kCompletions[] = {"success",
                                        "local length error",
                                        "local QP operation error",
                                        "local EE context operation error",
                                        "local protection error",
                                        "work request flushed error",
                                        "memory window bind error",
                                        "bad response error",
                                        "local access error",
                                        "remote invalid request error",
                                        "remote access error",
                                        "remote operation error",
                                        "transport retry counter exceeded",
                                        "RNR retry counter exceeded",
                                        "local RDD violation error",
                                        "remote invalid RD request",
                                        "remote aborted error",
                                        "invalid EE context number",
                                        "invalid EE context state",
                                        "fatal error",
                                        "response timeout error",
                                        "general error",
                                        "tag matching error",
                                        "tag matching rendezvous incomplete"};

static_assert(std::size(kNodes) == IBV_NODE_UNSPECIFIED + 1);
static_assert(std::size(kPortStates) == IBV_PORT_ACTIVE_DEFER + 1);
static_assert(std::size(kEvents) == IBV_EVENT_WQ_FATAL + 1);
static_assert(std::size(kCompletions) == IBV_WC_TM_RNDV_INCOMPLETE + 1);

} // namespace

extern "C" {

const char* ibv_node_type_str(ibv_node_type type)
{
    return name_of(kNodes, type);
}

const char* ibv_port_state_str(ibv_port_state state)
{
    return name_of(kPortStates, state);
}

const char* ibv_event_type_str(ibv_event_type event)
{
    return name_of(kEvents, event);
}

const char* ibv_wc_status_str(ibv_wc_status status)
{
    return name_of(kCompletions, status);
}

} // extern "C"
