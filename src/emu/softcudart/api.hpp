// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The border of the runtime: every exported function runs its body through api(), which makes a
// context current first, turns the exceptions used inside into error codes and keeps the last of
// these for cudaGetLastError. The runtime's error codes have the driver's numbers, as far as the
// driver has the error; so they are plain numbers in here. cuda_runtime_api.h is not included:
// what it declares differs between versions of CUDA, and all of them are served.
#pragma once

#include <new>

#include <cuda.h>

#define SOFTCUDART_EXPORT extern "C" __attribute__((visibility("default")))

/// Another name of an exported function of the same file.
#define SOFTCUDART_ALSO(name, function)                                                            \
    extern "C" __attribute__((visibility("default"), alias(#function))) decltype(function) name;

namespace softcudart {

/// Thrown inside the runtime; leaves an exported function as its result.
struct Error {
    int code;
    bool told = false; // standard error has heard of it
};

inline void require(bool condition, int otherwise = CUDA_ERROR_INVALID_VALUE)
{
    if (!condition) {
        throw Error{otherwise};
    }
}

inline void check(CUresult result)
{
    require(result == CUDA_SUCCESS, result);
}

/// An error code, for functions declared with cudaError_t.
struct Answer {
    int code;
    template <typename Code>
    operator Code() const
    {
        return static_cast<Code>(code);
    }
};

/// Records an error as the thread's last one. What is not supported is named on standard error,
/// once for each function.
Answer fail(const char* function, const Error& error);

/// What has to be in place before a function's body may run. The driver is initialised, and the
/// thread gets a context, when they are needed for the first time.
enum class Needs { nothing, driver, context };

/// Throws what the driver says.
void provide(Needs needs);

template <typename Body>
Answer api(const char* function, Needs needs, Body&& body)
{
    try {
        provide(needs);
        if constexpr (requires { CUresult(body()); }) {
            check(body());
        } else {
            body();
        }
        return {CUDA_SUCCESS};
    } catch (const Error& error) {
        return fail(function, error);
    } catch (const std::bad_alloc&) {
        return fail(function, {CUDA_ERROR_OUT_OF_MEMORY});
    }
}

/// The version of CUDA whose runtime this is, as CUDART_VERSION has it: each soname has its own.
extern const int kVersion;

inline CUdeviceptr as_address(const void* pointer)
{
    return reinterpret_cast<CUdeviceptr>(pointer);
}
inline void** as_pointer(CUdeviceptr& address)
{
    return reinterpret_cast<void**>(&address);
}

} // namespace softcudart
