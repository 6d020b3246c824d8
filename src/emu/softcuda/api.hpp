// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The border of the emulated driver: every exported function runs its body through api(), which
// counts the call, refuses it while the driver is not initialised or no context is current, and
// turns the exceptions used inside into result codes.
#pragma once

#include "emu/softcuda/call_counter.hpp"

#include <new>

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#define SOFTCUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace softcuda {

/// Thrown inside the driver; leaves an exported function as its result code.
struct Error {
    CUresult result;
};

inline void require(bool condition, CUresult otherwise = CUDA_ERROR_INVALID_VALUE)
{
    if (!condition) {
        throw Error{otherwise};
    }
}

/// What has to be in place before a function's body may run.
enum class Needs { nothing, init, context };

/// CUDA_SUCCESS when what is needed is in place. A forked child of an initialised process gets
/// CUDA_ERROR_NOT_INITIALIZED for ever, as with the real driver.
CUresult admit(Needs needs);

/// Initialises the driver in this process (cuInit).
CUresult initialise();

template <typename Body>
CUresult api(const char* name, Needs needs, Body&& body)
{
    static CallCounter counter(name); // one per exported function: each body has its own type
    counter.calls.fetch_add(1, std::memory_order_relaxed);
    if (const auto watcher = call_watcher.load(std::memory_order_acquire)) {
        watcher(name);
    }
    try {
        if (CUresult refused = admit(needs); refused != CUDA_SUCCESS) {
            return refused;
        }
        if constexpr (requires { CUresult(body()); }) {
            return body();
        } else {
            body();
            return CUDA_SUCCESS;
        }
    } catch (const Error& error) {
        return error.result;
    } catch (const std::bad_alloc&) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

} // namespace softcuda
