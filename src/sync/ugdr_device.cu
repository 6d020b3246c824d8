// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ugdr_device.cuh, ugdr_initiate.cuh and ugdr_transfer.cuh as PTX, for programs that use the driver
// API without a GPU compiler: kernels of one thread, and functions to link with.
#include <ucx-gdr/ugdr_initiate.cuh>
#include <ucx-gdr/ugdr_transfer.cuh>

#define UGDR_KERNEL extern "C" __attribute__((global)) void
#define UGDR_FUNCTION extern "C" __attribute__((device, used))

UGDR_KERNEL ugdr_trigger(ugdr_dev_condition_t condition, unsigned index)
{
    ugdr_dev_trigger(condition, index);
}

// status: where the status goes; may be nullptr.
UGDR_KERNEL ugdr_wait(ugdr_dev_condition_t condition, unsigned index, int* status)
{
    const int result = ugdr_dev_wait(condition, index);
    if (status != nullptr) {
        *status = result;
    }
}

UGDR_FUNCTION void ugdr_function_trigger(const ugdr_dev_condition_t* condition, unsigned index)
{
    ugdr_dev_trigger(*condition, index);
}

UGDR_FUNCTION void ugdr_function_trigger_waited(const ugdr_dev_condition_t* condition,
                                                unsigned index)
{
    ugdr_dev_trigger_waited(*condition, index);
}

UGDR_FUNCTION void ugdr_function_arrive(const ugdr_dev_condition_t* condition, unsigned index)
{
    ugdr_dev_arrive(*condition, index);
}

UGDR_FUNCTION int ugdr_function_test(const ugdr_dev_condition_t* condition, unsigned index)
{
    return ugdr_dev_test(*condition, index) ? 1 : 0;
}

UGDR_FUNCTION int ugdr_function_wait(const ugdr_dev_condition_t* condition, unsigned index)
{
    return ugdr_dev_wait(*condition, index);
}

UGDR_FUNCTION unsigned long long ugdr_function_put(const ugdr_dev_t* device, unsigned channel,
                                                   unsigned mem, unsigned long long offset,
                                                   unsigned rmem, unsigned long long remote_offset,
                                                   unsigned long long length)
{
    return ugdr_dev_put(*device, channel, mem, offset, rmem, remote_offset, length);
}

UGDR_FUNCTION unsigned long long
ugdr_function_put_signal(const ugdr_dev_t* device, unsigned channel, unsigned mem,
                         unsigned long long offset, unsigned rmem, unsigned long long remote_offset,
                         unsigned long long length, unsigned signal,
                         unsigned long long signal_offset, unsigned long long value, int op)
{
    return ugdr_dev_put_signal(*device, channel, mem, offset, rmem, remote_offset, length, signal,
                               signal_offset, value, static_cast<ugdr_signal_op_t>(op));
}

UGDR_FUNCTION unsigned long long ugdr_function_put_value(const ugdr_dev_t* device, unsigned channel,
                                                         unsigned long long value, unsigned bytes,
                                                         unsigned rmem,
                                                         unsigned long long remote_offset)
{
    return ugdr_dev_put_value(*device, channel, value, bytes, rmem, remote_offset);
}

UGDR_FUNCTION unsigned long long ugdr_function_get(const ugdr_dev_t* device, unsigned channel,
                                                   unsigned mem, unsigned long long offset,
                                                   unsigned rmem, unsigned long long remote_offset,
                                                   unsigned long long length)
{
    return ugdr_dev_get(*device, channel, mem, offset, rmem, remote_offset, length);
}

UGDR_FUNCTION unsigned long long ugdr_function_atomic_add(const ugdr_dev_t* device,
                                                          unsigned channel, unsigned rmem,
                                                          unsigned long long remote_offset,
                                                          unsigned long long value)
{
    return ugdr_dev_atomic_add(*device, channel, rmem, remote_offset, value);
}

UGDR_FUNCTION unsigned long long
ugdr_function_atomic_fetch_add(const ugdr_dev_t* device, unsigned channel, unsigned mem,
                               unsigned long long offset, unsigned rmem,
                               unsigned long long remote_offset, unsigned long long value)
{
    return ugdr_dev_atomic_fetch_add(*device, channel, mem, offset, rmem, remote_offset, value);
}

UGDR_FUNCTION int ugdr_function_done(const ugdr_dev_t* device, unsigned channel,
                                     unsigned long long ticket)
{
    return ugdr_dev_done(*device, channel, ticket) ? 1 : 0;
}

UGDR_FUNCTION int ugdr_function_quiet(const ugdr_dev_t* device, unsigned channel,
                                      unsigned long long ticket)
{
    return ugdr_dev_quiet(*device, channel, ticket);
}

UGDR_FUNCTION int ugdr_function_signal_wait(const ugdr_dev_t* device,
                                            const unsigned long long* signal,
                                            unsigned long long at_least)
{
    return ugdr_dev_signal_wait(*device, signal, at_least);
}

UGDR_FUNCTION void ugdr_function_ready(const ugdr_dev_transfer_t* transfer, unsigned partition)
{
    ugdr_dev_ready(*transfer, partition);
}

UGDR_FUNCTION int ugdr_function_arrived(const ugdr_dev_transfer_t* transfer, unsigned partition)
{
    return ugdr_dev_arrived(*transfer, partition) ? 1 : 0;
}

UGDR_FUNCTION int ugdr_function_wait_arrived(const ugdr_dev_transfer_t* transfer,
                                             unsigned partition)
{
    return ugdr_dev_wait_arrived(*transfer, partition);
}
