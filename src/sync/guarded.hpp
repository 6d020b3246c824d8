// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the functions of the API have in common. Exceptions end here: each becomes a status and a
// line in UCX's log.
#pragma once

#include "sync/process.hpp"
#include "sync/ucx/log.hpp"
#include "sync/ucx/refusal.hpp"

#include <cstdint>
#include <new>
#include <string>
#include <system_error>

#define UGDR_EXPORT extern "C" __attribute__((visibility("default")))

namespace gdr::sync {

inline ucs_status_t status_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_VALUE:
        return UCS_ERR_INVALID_PARAM;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_NOT_SUPPORTED:
        return UCS_ERR_UNSUPPORTED;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return UCS_ERR_NO_MEMORY;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

template <typename Body>
ucs_status_t guarded(const Ucx& ucx, Body&& body)
{
    if (in_forked_child()) {
        return UCS_ERR_UNSUPPORTED;
    }
    const auto refuse = [&](ucs_status_t status, const char* cause) {
        log_once(ucx, status == UCS_ERR_BUSY ? UCS_LOG_LEVEL_DIAG : UCS_LOG_LEVEL_ERROR, cause);
        return status;
    };
    try {
        body();
        return UCS_OK;
    } catch (const Refusal& refusal) {
        return refuse(refusal.status(), refusal.what());
    } catch (const cuda::Error& error) {
        return refuse(status_of(error.result()), error.what());
    } catch (const std::bad_alloc&) {
        return refuse(UCS_ERR_NO_MEMORY, "out of memory");
    } catch (const std::system_error& error) {
        return refuse(UCS_ERR_NO_RESOURCE, error.what());
    } catch (const std::exception& error) {
        return refuse(UCS_ERR_IO_ERROR, error.what());
    }
}

template <typename Body>
ucs_status_t guarded(ugdr_context_h context, Body&& body)
{
    return context != nullptr ? guarded(context->ucx(), body) : UCS_ERR_INVALID_PARAM;
}

inline void require(const void* pointer, const char* what)
{
    if (pointer == nullptr) {
        throw Refusal(UCS_ERR_INVALID_PARAM, std::string(what) + " is NULL");
    }
}

// An array cannot have more items than the address space has room for.
template <typename Item>
void require_array(const Item* items, size_t count, const char* what)
{
    if (count > 0) {
        require(items, what);
    }
    if (count > PTRDIFF_MAX / sizeof(Item)) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      std::string(what) + ": there cannot be " + std::to_string(count));
    }
}

// Unknown bits of a mask come from a later version, or the caller has not initialized the mask.
inline void require_known_fields(uint64_t mask, uint64_t known, const char* structure)
{
    if ((mask & ~known) != 0) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      std::string("unknown bits in field_mask of ") + structure);
    }
}

} // namespace gdr::sync
