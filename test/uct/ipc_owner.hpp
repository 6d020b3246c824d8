// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Another process with device memory, and that memory opened through UCT's public calls.
#pragma once

#include "copy_support.hpp"

#include "cuda/context.hpp"
#include "cuda/driver.hpp"
#include "ipc/address.hpp"
#include "ipc/component.hpp"
#include "ipc/exports.hpp"
#include "ipc/remote_key.hpp"

#include <cuda.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace copy_test {

// A process with memory of its own; it lives as long as this object. Made before CUDA is used.
class Owner {
  public:
    static constexpr size_t kSize = 1 << 16;

    Owner()
    {
        if (pipe(from_) != 0 || pipe(to_) != 0) {
            throw std::runtime_error("pipe");
        }
        pid_ = fork();
        if (pid_ == 0) {
            close(to_[1]);
            serve();
            _exit(0);
        }
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner()
    {
        close(to_[1]);
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }

    // The key of kSize bytes on GPU 0 with this value.
    gdr::ipc::RemoteKey allocate(unsigned char fill)
    {
        gdr::ipc::RemoteKey key;
        if (write(to_[1], &fill, 1) != 1 || read(from_[0], &key, sizeof(key)) != sizeof(key)) {
            throw std::runtime_error("the owner has gone");
        }
        return key;
    }

  private:
    void serve()
    {
        const gdr::cuda::Driver& driver = *gdr::cuda::driver();
        const gdr::cuda::PrimaryContext primary(driver, 0);
        const gdr::cuda::CurrentContext current(driver, primary.handle());
        gdr::ipc::Exports exports(driver);
        for (unsigned char fill; read(to_[0], &fill, 1) == 1;) {
            CUdeviceptr memory = 0;
            copy_test::require(cuMemAlloc(&memory, kSize), "cuMemAlloc");
            copy_test::require(cuMemsetD8(memory, fill, kSize), "cuMemsetD8");
            copy_test::require(cuCtxSynchronize(), "cuCtxSynchronize"); // it may return before
            const auto key = exports.key_of(reinterpret_cast<void*>(memory), kSize);
            (void)!write(from_[1], &key, sizeof(key));
        }
    }

    int from_[2];
    int to_[2];
    pid_t pid_;
};

// Its memory, opened in this process.
class Opened {
  public:
    // context: that is current then, of whose GPU it is opened.
    Opened(const gdr::ipc::RemoteKey& key, CUcontext context) : key_(key)
    {
        const Current current(context);
        require(uct_rkey_unpack(component_, &key_, &bundle_), "uct_rkey_unpack");
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    ~Opened() { uct_rkey_release(component_, &bundle_); }

    uint64_t address() const { return key_.base; }
    uct_rkey_t rkey() const { return bundle_.rkey; }

    // An interface with an endpoint to the owner.
    std::unique_ptr<Transport> connect() const
    {
        gdr::ipc::Address peer = gdr::ipc::make_address();
        peer.process.id = key_.owner;
        peer.process.pid = key_.pid;
        const auto* bytes = reinterpret_cast<const char*>(&peer);
        return std::make_unique<Transport>(gdr::ipc::component(), "ipc",
                                           std::vector<char>(bytes, bytes + sizeof(peer)));
    }

  private:
    const gdr::ipc::RemoteKey key_;
    const uct_component_h component_ = find_component(gdr::ipc::component());
    uct_rkey_bundle_t bundle_{};
};

} // namespace copy_test
