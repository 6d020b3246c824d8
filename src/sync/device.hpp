// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A GPU whose kernels initiate operations: its rings, and the threads that serve them.
#pragma once

#include "sync/network/address_table.hpp"
#include "sync/rings/ring.hpp"
#include "sync/rings/rings.hpp"
#include "sync/triggers/engine.hpp"
#include "sync/triggers/proxy.hpp"
#include "sync/triggers/service.hpp"
#include "sync/triggers/words.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace gdr::sync {

class Device : RingEvents {
  public:
    struct Settings {
        unsigned channels = 4; // a power of two
        unsigned log_entries = 10;
        unsigned threads = 1; // the engine's is the first
        ugdr_idle_t idle = UGDR_IDLE_ADAPTIVE;
        const ucs_cpu_set_t* cores = nullptr;
    };

    // Of the current CUDA context. Throws Refusal, cuda::Error, std::exception.
    Device(const cuda::Driver& driver, Engine& engine, Memories& memories,
           RemoteMemories& remote_memories, AddressTable& addresses, const Settings& settings);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device() = default;

    // As kernels have it.
    ugdr_dev_t handle() const;

    // Whether operations are not complete. It stays so if no kernel runs.
    bool busy() const;

    // Ends the service. No kernel uses the device any more, and it is not busy.
    void close();

    // Ends the device's own threads. Returns false if one did not end in time.
    bool stop(std::chrono::milliseconds limit);

    // Lets kernels go on, for good. No thread serves the rings any more. What kernels may still
    // write is left to them.
    void abandon();

  private:
    void failed(ucs_status_t status, const std::string& what) override;
    void flush() override;
    Completed& status_word() { return completed_.words.host[settings_.channels]; }

    Engine& engine_;
    const Settings settings_;
    const CUcontext context_;
    const Abilities abilities_;
    Taken<Entry> entries_;
    Taken<Completed> completed_; // of each channel, and the device's status
    TakenCounters counters_;
    AddressTable::Copy addresses_;
    std::vector<std::unique_ptr<Ring>> rings_;
    std::vector<std::unique_ptr<Rings>> served_; // by each thread
    std::vector<std::unique_ptr<Proxy<Rings>>> threads_;
    std::atomic<int> status_{UCS_OK}; // of the first operation that has failed
    std::optional<Service> service_;
};

} // namespace gdr::sync
