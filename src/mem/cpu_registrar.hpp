// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Maps device memory for the CPU. It maps windows, because a mapping takes room in the GPU's BAR1
// aperture and, if the CUDA driver maps, a file descriptor.
#pragma once

#include "cuda/gdrcopy.hpp"
#include "mem/registrar.hpp"

namespace gdr::mem {

class CpuRegistrar final : public Registrar {
  public:
    // Windows are aligned to their size; a buffer that crosses the end of one has several.
    static constexpr size_t kWindow = size_t{2} << 20;

    // At a time in the process: 256 MiB and 128 descriptors. More memory is not mapped, because
    // replacing windows would cost more than mappings save.
    static constexpr unsigned kMostWindows = 128;

    explicit CpuRegistrar(cuda::Gdrcopy& library) : library_(library) {}

    Target describe(uintptr_t address, size_t length, Access access) override;
    Registration register_memory(Target& target, Failure* failure) override;
    const GpuDirect* gpu_direct() const override { return nullptr; }

  private:
    cuda::Gdrcopy& library_;
};

} // namespace gdr::mem
