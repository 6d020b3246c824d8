// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Retains a device's primary context, and makes a context current within a scope.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::cuda {

// A device's primary context, retained: it exists as long as this object, unless the application
// resets the device. Creating one that nobody else holds takes about 100 ms and some device memory.
class PrimaryContext {
  public:
    PrimaryContext(const Driver& driver, CUdevice device); // throws Error
    PrimaryContext(const PrimaryContext&) = delete;
    PrimaryContext& operator=(const PrimaryContext&) = delete;
    ~PrimaryContext();

    CUcontext handle() const { return handle_; }
    CUdevice device() const { return device_; }

  private:
    const Driver& driver_;
    const CUdevice device_;
    CUcontext handle_ = nullptr;
};

// Whether anybody in the process holds the device's primary context. False if the driver does not
// answer.
bool has_primary_context(const Driver& driver, CUdevice device);

// The context's id, which, unlike its handle, is never reused in the process. 0: the context no
// longer exists, or the driver is older than CUDA 12 and has no ids.
unsigned long long context_id(const Driver& driver, CUcontext context);

// Whether the calling thread's current context has this id; it is alive then. Costs one query.
// False if the id is 0.
bool is_current(const Driver& driver, unsigned long long context_id);

// Makes a context current to the calling thread and restores the previous state, which may be no
// context, at the end of the scope. Costs one query (10 ns) if the context is current already. The
// thread that created the object must destroy it, in reverse order of creation.
class CurrentContext {
  public:
    // Throws Error if the context has been destroyed.
    CurrentContext(const Driver& driver, CUcontext context);

    // Makes the context that owns the memory current. Memory without an owner (of a pool or
    // cuMemCreate) is accessible from all contexts of its device, so the current context stays if
    // it is on that device; otherwise the primary one is retained and current for the scope.
    // Unpinned host memory changes nothing.
    CurrentContext(const Driver& driver, const Pointer& memory);

    CurrentContext(const CurrentContext&) = delete;
    CurrentContext& operator=(const CurrentContext&) = delete;
    ~CurrentContext();

  private:
    void enter(CUcontext context);

    const Driver& driver_;
    std::optional<PrimaryContext> primary_;
    bool pushed_ = false;
};

// For calls that need any context, such as pinning memory for all contexts: keeps the current
// context, or makes the primary context of some device current for the scope. Never creates a
// context: throws Error if there is none.
class AnyContext {
  public:
    explicit AnyContext(const Driver& driver);

  private:
    std::optional<PrimaryContext> primary_;
    std::optional<CurrentContext> current_;
};

} // namespace gdr::cuda
