// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ugdr_device.cuh as PTX, for programs that use the driver API without a GPU compiler: kernels of
// one thread, and functions to link with.
#include <ucx-gdr/ugdr_device.cuh>

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
