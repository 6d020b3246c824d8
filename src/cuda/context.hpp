// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Contexts: holding a device's primary one, and making one current for the length of a scope.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::cuda {

// A device's primary context, retained: it exists for as long as this object does, unless the
// application resets the device. Creating one that nobody else holds takes some 100 ms and memory
// of the device.
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

// Whether somebody in the process holds the device's primary context. Not, too, where the driver
// does not answer.
bool has_primary_context(const Driver& driver, CUdevice device);

// Of a context, unlike its handle never that of another one in the process. 0: there is no such
// context (any more), or the driver, older than CUDA 12, gives contexts no identity.
unsigned long long context_id(const Driver& driver, CUcontext context);

// Whether the calling thread's current context is the one with this identity, which is alive then.
// One query; not, too, where the identity is 0.
bool is_current(const Driver& driver, unsigned long long context_id);

// Makes a context current to the calling thread; at the end of the scope what was current before is
// current again, also if that was none. Costs one query (10 ns) where the context is current
// already. To be destroyed by the thread that made it, in the reverse order of making.
class CurrentContext {
  public:
    // Throws Error if the context has been destroyed.
    CurrentContext(const Driver& driver, CUcontext context);

    // The context that owns the memory. Memory without an owner (of a pool, of cuMemCreate) is
    // accessible to all contexts of its device: the one that is current if it is on that device,
    // else the primary one, which is retained for the scope. Nothing is changed for host memory
    // that is not pinned.
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

// For what needs a context, but no particular one, such as pinning memory for all contexts: the one
// that is current, else a device's primary one is for the length of the scope. None is created:
// throws Error where there is none.
class AnyContext {
  public:
    explicit AnyContext(const Driver& driver);

  private:
    std::optional<PrimaryContext> primary_;
    std::optional<CurrentContext> current_;
};

} // namespace gdr::cuda
