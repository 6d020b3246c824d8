// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The kernels of ugdr_device.cu, partitions.cu and initiators.cu: on a GPU as a compiler made them,
// on the emulated one the same source compiled for the host.
#pragma once

#include "emu/softcuda/softcuda.h"

#include "fixture.hpp"
#include "initiators.hpp"
#include "partitions.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace synctest {

// ---- in the emulated GPU: a launch is one thread

// Its memory is reached by its alias, what is host memory as it is.
template <typename Value>
Value* on_host(const softcuda_launch* launch, Value* memory)
{
    softcuda_range range;
    if (memory == nullptr || SOFTCUDA(softcuda_kernel_memory)(launch, memory, &range) != 0) {
        return memory;
    }
    return reinterpret_cast<Value*>(range.bytes +
                                    (reinterpret_cast<uintptr_t>(memory) - range.address));
}

// The same of what it has written in a table of memories, which is this process's own from then on.
inline std::vector<ugdr_dev_memory_t> memories_on_host(const softcuda_launch* launch,
                                                       const ugdr_dev_memory_t* memories)
{
    const auto* first = on_host(launch, memories);
    std::vector<ugdr_dev_memory_t> all(first, first + size_t{2} * UGDR_DEV_MEMORIES);
    for (ugdr_dev_memory_t& memory : all) {
        memory.address =
            reinterpret_cast<uintptr_t>(on_host(launch, reinterpret_cast<char*>(memory.address)));
    }
    return all;
}

template <typename Value>
const Value& parameter(void* const* parameters, int index)
{
    return *static_cast<const Value*>(parameters[index]);
}

inline ugdr_dev_condition_t condition_of(const softcuda_launch* launch, void* const* parameters)
{
    auto condition = parameter<ugdr_dev_condition_t>(parameters, 0);
    condition.arrived = on_host(launch, condition.arrived);
    return condition;
}

inline int run_trigger(const softcuda_launch* launch, void* const* parameters)
{
    ugdr_dev_trigger(condition_of(launch, parameters), parameter<unsigned>(parameters, 1));
    return 0;
}

inline int run_wait(const softcuda_launch* launch, void* const* parameters)
{
    const int status =
        ugdr_dev_wait(condition_of(launch, parameters), parameter<unsigned>(parameters, 1));
    if (int* to = on_host(launch, parameter<int*>(parameters, 2)); to != nullptr) {
        *to = status;
    }
    return 0;
}

inline int run_produce(const softcuda_launch* launch, void* const* parameters)
{
    for (unsigned block = 0; block < launch->grid[0]; ++block) {
        produce({block, 0, 1}, condition_of(launch, parameters),
                on_host(launch, parameter<int*>(parameters, 1)), parameter<unsigned>(parameters, 2),
                parameter<unsigned>(parameters, 3), parameter<int>(parameters, 4));
    }
    return 0;
}

inline int run_consume(const softcuda_launch* launch, void* const* parameters)
{
    for (unsigned block = 0; block < launch->grid[0]; ++block) {
        consume({block, 0, 1}, condition_of(launch, parameters),
                on_host(launch, parameter<const int*>(parameters, 1)),
                parameter<unsigned>(parameters, 2), parameter<int>(parameters, 3),
                on_host(launch, parameter<int*>(parameters, 4)));
    }
    return 0;
}

template <auto body>
int run_initiator(const softcuda_launch* launch, void* const* parameters)
{
    auto with = parameter<Exchange>(parameters, 0);
    with.device.counters = on_host(launch, with.device.counters);
    const auto memories = memories_on_host(launch, with.device.memories);
    with.device.memories = memories.data();
    with.out = on_host(launch, with.out);
    with.in = on_host(launch, with.in);
    with.signals = on_host(launch, with.signals);
    with.statuses = on_host(launch, with.statuses);
    for (unsigned block = 0; block < launch->grid[0]; ++block) {
        body({block, 0, 1}, with);
    }
    return 0;
}

inline int run_meeting(const softcuda_launch* launch, void* const* parameters)
{
    auto with = parameter<Meeting>(parameters, 0);
    with.device.counters = on_host(launch, with.device.counters);
    const auto memories = memories_on_host(launch, with.device.memories);
    with.device.memories = memories.data();
    with.team.words = on_host(launch, with.team.words);
    with.in = on_host(launch, with.in);
    with.status = on_host(launch, with.status);
    meet_rounds({0, 0, 1}, with);
    return 0;
}

inline int run_make_ready(const softcuda_launch* launch, void* const* parameters)
{
    auto transfer = parameter<ugdr_dev_transfer_t>(parameters, 0);
    transfer.ready.arrived = on_host(launch, transfer.ready.arrived);
    for (unsigned block = 0; block < launch->grid[0]; ++block) {
        make_ready({block, 0, 1}, transfer, on_host(launch, parameter<unsigned*>(parameters, 1)),
                   parameter<unsigned>(parameters, 2), parameter<unsigned>(parameters, 3));
    }
    return 0;
}

inline int run_look_at_arrivals(const softcuda_launch* launch, void* const* parameters)
{
    auto transfer = parameter<ugdr_dev_transfer_t>(parameters, 0);
    transfer.arrived = on_host(launch, transfer.arrived);
    for (unsigned block = 0; block < launch->grid[0]; ++block) {
        look_at_arrivals({block, 0, 1}, transfer,
                         on_host(launch, parameter<const unsigned*>(parameters, 1)),
                         parameter<unsigned>(parameters, 2), parameter<unsigned>(parameters, 3),
                         on_host(launch, parameter<int*>(parameters, 4)));
    }
    return 0;
}

// What a compiler declares of them (device_test.sh compares).
static_assert(sizeof(Exchange) == 104 && sizeof(Meeting) == 176 &&
              sizeof(ugdr_dev_transfer_t) == 48);
constexpr const char* kDeclarations = R"PTX(
.version 6.3
.target sm_70
.address_size 64
.visible .entry ugdr_trigger(
    .param .align 8 .b8 ugdr_trigger_param_0[24],
    .param .u32 ugdr_trigger_param_1
) { ret; }
.visible .entry ugdr_wait(
    .param .align 8 .b8 ugdr_wait_param_0[24],
    .param .u32 ugdr_wait_param_1,
    .param .u64 ugdr_wait_param_2
) { ret; }
.visible .entry sync_produce(
    .param .align 8 .b8 sync_produce_param_0[24],
    .param .u64 sync_produce_param_1,
    .param .u32 sync_produce_param_2,
    .param .u32 sync_produce_param_3,
    .param .u32 sync_produce_param_4
) { ret; }
.visible .entry sync_consume(
    .param .align 8 .b8 sync_consume_param_0[24],
    .param .u64 sync_consume_param_1,
    .param .u32 sync_consume_param_2,
    .param .u32 sync_consume_param_3,
    .param .u64 sync_consume_param_4
) { ret; }
.visible .entry sync_send_rounds(
    .param .align 8 .b8 sync_send_rounds_param_0[104]
) { ret; }
.visible .entry sync_receive_rounds(
    .param .align 8 .b8 sync_receive_rounds_param_0[104]
) { ret; }
.visible .entry sync_every_kind(
    .param .align 8 .b8 sync_every_kind_param_0[104]
) { ret; }
.visible .entry sync_send_parts(
    .param .align 8 .b8 sync_send_parts_param_0[104]
) { ret; }
.visible .entry sync_put_bytes(
    .param .align 8 .b8 sync_put_bytes_param_0[104]
) { ret; }
.visible .entry sync_meet(
    .param .align 8 .b8 sync_meet_param_0[176]
) { ret; }
.visible .entry sync_names(
    .param .align 8 .b8 sync_names_param_0[104]
) { ret; }
.visible .entry sync_wrong(
    .param .align 8 .b8 sync_wrong_param_0[104]
) { ret; }
.visible .entry sync_make_ready(
    .param .align 8 .b8 sync_make_ready_param_0[48],
    .param .u64 sync_make_ready_param_1,
    .param .u32 sync_make_ready_param_2,
    .param .u32 sync_make_ready_param_3
) { ret; }
.visible .entry sync_look_at_arrivals(
    .param .align 8 .b8 sync_look_at_arrivals_param_0[48],
    .param .u64 sync_look_at_arrivals_param_1,
    .param .u32 sync_look_at_arrivals_param_2,
    .param .u32 sync_look_at_arrivals_param_3,
    .param .u64 sync_look_at_arrivals_param_4
) { ret; }
)PTX";

// ---- on either

// SYNC_KERNELS: the directory with what a compiler made of the sources, .ptx or .fatbin. None
// is needed on the emulated GPU.
constexpr const char* kNoKernels = "no compiled kernels: SYNC_KERNELS is not set";
inline bool have_kernels()
{
    return SOFTCUDA(softcuda_kernel) != nullptr || std::getenv("SYNC_KERNELS") != nullptr;
}

// Of the current context. file: "ugdr_device", "partitions" or "initiators". To be called before
// streams wait.
inline CUfunction kernel(const std::string& file, const char* name)
{
    std::string image = kDeclarations;
    if (const auto stands_for = SOFTCUDA(softcuda_kernel)) {
        stands_for("ugdr_trigger", run_trigger);
        stands_for("ugdr_wait", run_wait);
        stands_for("sync_produce", run_produce);
        stands_for("sync_consume", run_consume);
        stands_for("sync_send_rounds", run_initiator<send_rounds>);
        stands_for("sync_receive_rounds", run_initiator<receive_rounds>);
        stands_for("sync_every_kind", run_initiator<every_kind>);
        stands_for("sync_send_parts", run_initiator<send_parts>);
        stands_for("sync_put_bytes", run_initiator<put_bytes>);
        stands_for("sync_wrong", run_initiator<wrong>);
        stands_for("sync_meet", run_meeting);
        stands_for("sync_make_ready", run_make_ready);
        stands_for("sync_look_at_arrivals", run_look_at_arrivals);
    } else {
        for (const char* kind : {".ptx", ".fatbin"}) {
            std::ifstream in(std::getenv("SYNC_KERNELS") + ("/" + file + kind), std::ios::binary);
            if (in) {
                image.assign(std::istreambuf_iterator<char>(in), {});
            }
        }
    }
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_CUDA(cuModuleLoadData(&module, image.c_str()));
    EXPECT_CUDA(cuModuleGetFunction(&function, module, name));
    return function;
}

// parameters: pointers to them.
inline void launch(CUfunction kernel, unsigned blocks, unsigned threads, CUstream stream,
                   std::initializer_list<const void*> parameters)
{
    std::vector<void*> all;
    for (const void* one : parameters) {
        all.push_back(const_cast<void*>(one));
    }
    EXPECT_CUDA(
        cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, all.data(), nullptr));
}

} // namespace synctest
