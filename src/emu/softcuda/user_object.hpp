// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// User objects: what a program wants to be told of when the last graph that uses it is gone.
#pragma once

#include "emu/softcuda/api.hpp"

#include <map>

namespace softcuda {

/// The references to user objects that a graph, or an executable one, holds; given up at its end,
/// which must not come under the lock of the engine.
class UserObjectReferences {
  public:
    UserObjectReferences() = default;
    UserObjectReferences(const UserObjectReferences&) = delete;
    UserObjectReferences& operator=(const UserObjectReferences&) = delete;
    ~UserObjectReferences();

    /// Takes references: `move`: of the caller's, else new ones. Throws CUDA_ERROR_INVALID_VALUE.
    void retain(CUuserObject object, unsigned count, bool move);

    /// Takes as many as another holds.
    void retain(const UserObjectReferences& other);

    /// Gives up some. Throws CUDA_ERROR_INVALID_VALUE where there are less.
    void release(CUuserObject object, unsigned count);

  private:
    std::map<CUuserObject, unsigned> held_;
};

} // namespace softcuda
