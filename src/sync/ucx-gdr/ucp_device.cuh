/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/** @file
 * The names of UCX's device API (ucp/api/device of UCX 1.22) over libucx-gdr's kernel-initiated
 * operations.
 *
 * For kernels that are written for that API, on a UCX that has no CUDA, or none of these functions.
 * Kernels include this header instead of ucp/api/device/ucp_device_impl.h, not beside it. The host
 * makes the lists by ugdr_ucp_list_fill(), of memories that are mapped and imported by ugdr.h.
 *
 * Cooperation of a whole grid, #UCS_DEVICE_LEVEL_GRID, does not compile.
 */
#ifndef UGDR_UCP_DEVICE_CUH
#define UGDR_UCP_DEVICE_CUH

#ifdef UCP_DEVICE_IMPL_H
#error "ucx-gdr/ucp_device.cuh stands for ucp/api/device/ucp_device_impl.h: include one of them"
#endif
#define UCP_DEVICE_IMPL_H

#include "ugdr_initiate.cuh"

#include <ucs/type/status.h>

/** @defgroup ucp_device Names of UCX's device API
 * @{ */

/** Who calls a function: as #ugdr_level_t. */
typedef enum {
    UCS_DEVICE_LEVEL_THREAD = 0, /**< one thread */
    UCS_DEVICE_LEVEL_WARP = 1,   /**< all threads of a warp */
    UCS_DEVICE_LEVEL_BLOCK = 2,  /**< all threads of a block */
    UCS_DEVICE_LEVEL_GRID = 3    /**< not here */
} ucs_device_level_t;

/** Flags of operations. */
typedef enum {
    UCP_DEVICE_FLAG_NODELAY = 1 /**< everything goes out at once here */
} ucp_device_flags_t;

/** Memories, in GPU memory: ours (a local list), or one peer's (a remote list). */
typedef struct ucp_device_mem_list {
    ugdr_dev_t device; /**< whose kernels use the list */
    unsigned length;   /**< how many */
    unsigned ids[1];   /**< of each; there are length */
} ucp_device_mem_list_t;

typedef const ucp_device_mem_list_t* ucp_device_local_mem_list_h;
typedef const ucp_device_mem_list_t* ucp_device_remote_mem_list_h;

/** An operation under way. */
typedef struct ucp_device_request {
    const ugdr_dev_t* device;
    unsigned long long ticket;
    unsigned channel;
    ucs_status_t status;
} ucp_device_request_t;

/** Tells how long a list is.
 *
 * @return bytes
 */
inline unsigned long ugdr_ucp_list_size(unsigned count)
{
    return sizeof(ucp_device_mem_list_t) + count * sizeof(unsigned);
}

/** Writes a list, which the caller then copies to GPU memory.
 *
 * @param list of ugdr_ucp_list_size() bytes
 * @param device of ugdr_device_handle()
 * @param ids of ugdr_mem_id() for a local list, of ugdr_rmem_id() for a remote one
 */
inline void ugdr_ucp_list_fill(ucp_device_mem_list_t* list, const ugdr_dev_t* device,
                               const unsigned* ids, unsigned count)
{
    list->device = *device;
    list->length = count;
    for (unsigned i = 0; i < count; ++i) {
        list->ids[i] = ids[i];
    }
}

/** @} */

namespace ugdr_detail {

template <ucs_device_level_t level>
UGDR_DEVICE constexpr ugdr_level_t level_of()
{
    static_assert(level != UCS_DEVICE_LEVEL_GRID, "libucx-gdr has no operations of a grid");
    return static_cast<ugdr_level_t>(level);
}

UGDR_DEVICE ucs_status_t follow(ucp_device_request_t* request, const ugdr_dev_t& device,
                                unsigned channel, unsigned long long ticket)
{
    if (request != nullptr) {
        *request = {&device, ticket, channel, UCS_INPROGRESS};
    }
    return UCS_INPROGRESS;
}

} // namespace ugdr_detail

/** @addtogroup ucp_device
 * @{ */

/** Writes local memory to a peer's, as ugdr_dev_put() does.
 *
 * @param request may be NULL
 * @retval UCS_INPROGRESS it was posted
 * @retval UCS_ERR_INVALID_PARAM a list has no such index
 */
template <ucs_device_level_t level = UCS_DEVICE_LEVEL_THREAD>
UGDR_DEVICE ucs_status_t ucp_device_put(ucp_device_local_mem_list_h from, unsigned from_index,
                                        unsigned long from_offset, ucp_device_remote_mem_list_h to,
                                        unsigned to_index, unsigned long to_offset,
                                        unsigned long length, unsigned channel,
                                        unsigned long /*flags*/, ucp_device_request_t* request)
{
    if (from_index >= from->length || to_index >= to->length) {
        return UCS_ERR_INVALID_PARAM;
    }
    return ugdr_detail::follow(request, to->device, channel,
                               ugdr_dev_put<ugdr_detail::level_of<level>()>(
                                   to->device, channel, from->ids[from_index], from_offset,
                                   to->ids[to_index], to_offset, length));
}

/** Adds to a counter of a peer, a word of 64 bits, after what was put to it over the channel.
 *
 * As ucp_device_put(). */
template <ucs_device_level_t level = UCS_DEVICE_LEVEL_THREAD>
UGDR_DEVICE ucs_status_t ucp_device_counter_inc(unsigned long value,
                                                ucp_device_remote_mem_list_h list, unsigned index,
                                                unsigned long offset, unsigned channel,
                                                unsigned long /*flags*/,
                                                ucp_device_request_t* request)
{
    if (index >= list->length) {
        return UCS_ERR_INVALID_PARAM;
    }
    return ugdr_detail::follow(request, list->device, channel,
                               ugdr_dev_atomic_add<ugdr_detail::level_of<level>()>(
                                   list->device, channel, list->ids[index], offset, value));
}

/** Tells where a kernel reaches memory of a peer by its own loads and stores.
 *
 * @retval UCS_ERR_UNSUPPORTED it does not
 */
UGDR_DEVICE ucs_status_t ucp_device_get_ptr(ucp_device_remote_mem_list_h list, unsigned index,
                                            void** address_p)
{
    if (index >= list->length) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (list->device.memories == nullptr) {
        return UCS_ERR_UNSUPPORTED;
    }
    const unsigned id = list->ids[index];
    const unsigned long long address = ugdr_detail::part_of(
        ugdr_detail::entry_of(list->device.memories + UGDR_DEV_MEMORIES, id), id, 0, 0);
    if (address == 0) {
        return UCS_ERR_UNSUPPORTED;
    }
    *address_p = reinterpret_cast<void*>(address);
    return UCS_OK;
}

/** Reads a counter of this side. What was put before it was added to is there then. */
template <ucs_device_level_t level = UCS_DEVICE_LEVEL_THREAD>
UGDR_DEVICE unsigned long ucp_device_counter_read(const void* counter)
{
    using namespace ugdr_detail;
    constexpr ugdr_level_t own = level_of<level>();
    meet<own>();
    const unsigned long long value =
        shared<own>(leads<own>() ? load(static_cast<const unsigned long long*>(counter)) : 0);
    meet<own>();
    return static_cast<unsigned long>(value);
}

/** Sets a counter of this side. */
template <ucs_device_level_t level = UCS_DEVICE_LEVEL_THREAD>
UGDR_DEVICE void ucp_device_counter_write(void* counter, unsigned long value)
{
    using namespace ugdr_detail;
    if (leads<level_of<level>()>()) {
        set_word(static_cast<unsigned long long*>(counter), value);
    }
    meet<level_of<level>()>();
}

/** Tells the status of an operation.
 *
 * @retval UCS_INPROGRESS it is under way
 * @retval UCS_OK it is complete, and all before it in its channel; else the status of the first
 *     operation of the channel that failed
 */
template <ucs_device_level_t level = UCS_DEVICE_LEVEL_THREAD>
UGDR_DEVICE ucs_status_t ucp_device_progress_req(ucp_device_request_t* request)
{
    using namespace ugdr_detail;
    constexpr ugdr_level_t own = level_of<level>();
    const ucp_device_request_t known = *request;
    if (known.status != UCS_INPROGRESS) {
        return known.status;
    }
    meet<own>();
    const bool over =
        shared<own>(leads<own>() && ugdr_dev_done(*known.device, known.channel, known.ticket)) != 0;
    if (!over) {
        return UCS_INPROGRESS;
    }
    const auto status =
        static_cast<ucs_status_t>(ugdr_dev_quiet<own>(*known.device, known.channel, known.ticket));
    request->status = status;
    return status;
}

/** @} */

#endif
