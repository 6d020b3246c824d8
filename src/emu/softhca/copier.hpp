// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The copier: what an HCA's DMA engine is to device memory that only the CUDA driver can copy. One
// thread of a process runs those of its send queues that come to such memory, and waits for the
// copies, so that posting does not. A second one copies between the process's own device memory and
// a buffer for others, whose driver cannot open that memory or who have none; it waits for nobody,
// so two processes may ask each other. Either starts when it is first needed.
#pragma once

#include "emu/softhca/cuda_import.hpp"
#include "emu/softhca/memory.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace softhca {

class Process;

// Has the copier of the process whose arena this is run a send queue.
void call_copier(Arena& arena, std::uint32_t qp_index);

class Copier {
  public:
    static constexpr std::uint64_t kBufferSize = 1 << 20;

    explicit Copier(Process& process) : process_(process) {}

    // Sees to it that the thread is there that runs send queues, or the one that copies for others.
    void start_running();
    void start_answering();
    // Whether this send queue is with it.
    bool is_running(std::uint32_t qp_index) const { return running_qp_.load() == qp_index + 1; }

    // For the running thread.
    CudaImports& imports() { return imports_; }
    std::uint64_t buffer() const; // of kBufferSize bytes, which other processes reach too
    // Has the owner of a segment copy it to or from the buffer.
    Moved ask_owner(const Segment& segment, bool to_device);

  private:
    void run_queues();
    void answer();
    bool copy_for(const Staging& staging);

    Process& process_;
    std::once_flag running_, answering_;
    std::atomic<std::uint32_t> running_qp_{0}; // index + 1
    std::uint64_t buffer_ = 0;                 // offset in the arena
    CudaImports imports_;
};

} // namespace softhca
