// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the tests of the copy interface stand on: the interface opened through UCT's public calls,
// and buffers of every kind of memory whose bytes can be written and read from outside the
// interface.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>
}

namespace gdr::abi {
struct Component;
}

namespace copy_test {

inline constexpr unsigned kCopyLatencyMicroseconds = 200; // of softcuda, in these tests

// Throws std::runtime_error naming the call.
void require(ucs_status_t status, const char* call);
void require(CUresult result, const char* call);

// The component's memory domain; NULL where it is not offered.
uct_component_h find_component();
uct_component_h find_component(const gdr::abi::Component& component);

// Memory domain, worker, interface and an endpoint to the interface itself, or to a peer.
class Transport {
  public:
    Transport(); // for copies
    Transport(const gdr::abi::Component& component, const std::string& device,
              const std::vector<char>& peer);
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    ~Transport();

    uct_md_h md() const { return md_; }
    uct_worker_h worker() const { return worker_; }
    uct_iface_h iface() const { return iface_; }
    uct_ep_h ep() const { return ep_; }
    const uct_iface_attr_t& attributes() const { return attributes_.own; }
    std::vector<char> address() const;

    // Of the worker; of the interface alone where another UCX runs than that of the headers, whose
    // inline functions know no other's worker.
    void progress();

    // Progresses until the completion's count is 0; throws after 20 s.
    void wait(const uct_completion_t& completion);

  private:
    Transport(const gdr::abi::Component& component, const std::string& device);
    void connect(const std::vector<char>& peer);
    void open_iface(const std::string& device);

    ucs_async_context_t* async_ = nullptr;
    uct_md_h md_ = nullptr;
    uct_worker_h worker_ = nullptr;
    uct_iface_h iface_ = nullptr;
    uct_ep_h ep_ = nullptr;
    union {
        uct_iface_attr_t own;
        char room[2 * sizeof(uct_iface_attr_t)]; // that of a later UCX is longer
    } attributes_ = {};
};

enum class Memory { host, pinned, device, managed, pool };
std::string name_of(Memory memory);

// Makes a context current for a scope: nullptr for none.
class Current {
  public:
    explicit Current(CUcontext context);
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current();

  private:
    CUcontext before_ = nullptr;
};

CUcontext primary_context(CUdevice device);

// Bytes with guard bytes before and behind them, which check() requires to be untouched.
class Buffer {
  public:
    // context: of device and managed memory, or on the pool's device; nullptr: the primary context
    // of device 0.
    Buffer(Memory memory, size_t length, CUcontext context = nullptr);
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer();

    char* data() const { return start_ + kGuard; }
    uint64_t address() const { return reinterpret_cast<uint64_t>(data()); }
    size_t length() const { return length_; }

    // Different bytes for every seed.
    void fill(unsigned seed);
    void clear();

    // Whether the length bytes at offset are those that fill(seed) puts at from, and the guards are
    // whole.
    bool holds(unsigned seed, size_t offset, size_t length, size_t from = 0) const;
    bool holds(unsigned seed) const { return holds(seed, 0, length_); }

    void free();                        // before the end of its life
    void forget() { start_ = nullptr; } // what something else has freed

  private:
    static constexpr size_t kGuard = 64;

    void write(const std::vector<char>& bytes);
    std::vector<char> read() const;

    Memory memory_;
    size_t length_;
    CUcontext context_;
    char* start_ = nullptr; // of the guard
};

// Counts down once.
struct Completion : uct_completion_t {
    explicit Completion(int operations = 1);
    bool done() const { return count == 0; }
};

} // namespace copy_test
