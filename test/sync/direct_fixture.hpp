// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A side of a connection as the library's rooms make it, without a context: its HCAs and memories,
// a peer, and what the peer's lanes have retired.
#pragma once

#include "eventually.hpp"
#include "sync/context.hpp"
#include "sync/ucx/refusal.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <cuda.h>
#include <gtest/gtest.h>

namespace synctest {

using namespace gdr::sync;
using Kind = Transfer::Kind;
using Blob = std::vector<uint8_t>;

inline Ucx this_ucx()
{
    Ucx ucx{};
    EXPECT_EQ(find_ucx(reinterpret_cast<const void*>(&ucp_get_version), ucx), "");
    return ucx;
}

// Why it was refused; UCS_OK: it was not.
inline ucs_status_t refusal_of(const std::function<void()>& call)
{
    try {
        call();
        return UCS_OK;
    } catch (const Refusal& refusal) {
        return refusal.status();
    }
}

// Host memory or a GPU's.
class Bytes {
  public:
    Bytes(bool host, size_t length) : length_(length)
    {
        if (host) {
            host_ = std::make_unique<char[]>(length);
        } else {
            EXPECT_EQ(cuMemAlloc(&device_, length), CUDA_SUCCESS);
            EXPECT_EQ(cuMemsetD8(device_, 0, length), CUDA_SUCCESS);
        }
    }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    ~Bytes()
    {
        if (!host_) {
            cuMemFree(device_);
        }
    }

    void* address() const { return host_ ? host_.get() : reinterpret_cast<void*>(device_); }
    char* host() const { return host_.get(); }
    size_t length() const { return length_; }

    void write(size_t offset, const void* from, size_t length) const
    {
        if (host_) {
            std::copy_n(static_cast<const char*>(from), length, host_.get() + offset);
        } else {
            EXPECT_EQ(cuMemcpyHtoD(device_ + offset, from, length), CUDA_SUCCESS);
        }
    }
    std::vector<char> read(size_t offset, size_t length) const
    {
        std::vector<char> copy(length);
        if (host_) {
            std::copy_n(host_.get() + offset, length, copy.data());
        } else {
            EXPECT_EQ(cuMemcpyDtoH(copy.data(), device_ + offset, length), CUDA_SUCCESS);
        }
        return copy;
    }
    uint64_t word(size_t offset) const
    {
        uint64_t value = 0;
        std::memcpy(&value, read(offset, sizeof(value)).data(), sizeof(value));
        return value;
    }

  private:
    const size_t length_;
    std::unique_ptr<char[]> host_;
    CUdeviceptr device_ = 0;
};

// An application with a context on UCP that uses no HCA.
class Application {
  public:
    Application()
    {
        ucp_params_t ucp{};
        ucp.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        ucp.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
        ucp.mt_workers_shared = 1;
        EXPECT_EQ(ucp_init(&ucp, nullptr, &ucp_), UCS_OK);
        ugdr_context_params_t params{};
        params.field_mask = UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT | UGDR_CONTEXT_PARAM_FIELD_FLAGS;
        params.ucp_context = ucp_;
        params.flags = UGDR_CONTEXT_FLAG_NO_DIRECT;
        EXPECT_EQ(ugdr_context_create(&params, &context_), UCS_OK);
    }
    Application(const Application&) = delete;
    Application& operator=(const Application&) = delete;
    ~Application()
    {
        // What was on its way to a peer that is gone may end a little later.
        EXPECT_TRUE(eventually([&] { return ugdr_context_destroy(context_, 0) == UCS_OK; }));
        ucp_cleanup(ucp_);
    }

    Network& network() { return context_->network(); }
    // Operations given to UCP.
    uint64_t posted() { return context_->engine().counters().posted; }

  private:
    ucp_context_h ucp_ = nullptr;
    ugdr_context_h context_ = nullptr;
};

enum class Carrier { queue_pairs, ucp };

// One side.
class Side : public Retired {
    std::optional<Application> application_;
    std::optional<Network> own_;

  public:
    explicit Side(unsigned channels = 1, Carrier carrier = Carrier::queue_pairs)
        : application_(carrier == Carrier::ucp ? std::optional<Application>(std::in_place)
                                               : std::nullopt),
          own_(carrier == Carrier::ucp
                   ? std::nullopt
                   : std::optional<Network>(std::in_place, this_ucx(), true, nullptr)),
          network(own_ ? *own_ : application_->network()), peer(network.add_peer(channels))
    {
    }
    // Without UCP and HCAs.
    static std::unique_ptr<Network> cut_off()
    {
        return std::make_unique<Network>(this_ucx(), false, nullptr);
    }

    // The other side's blob, and its memory's.
    void connect(const Blob& other) { network.connect(*peer, other.data(), other.size()); }
    ugdr_mem* map(const Bytes& bytes) { return network.map(bytes.address(), bytes.length()); }
    ugdr_rmem* import(const Blob& blob) { return network.import(*peer, blob.data(), blob.size()); }

    Lane& lane(unsigned channel = 0) { return *peer->lanes().of(channel); }
    Memory* memory(ugdr_mem* mapped) { return network.memories.use(number_of(mapped->id)); }
    RemoteMemory* memory(ugdr_rmem* imported)
    {
        return network.remote_memories.use(number_of(imported->id));
    }

    void retired(uint64_t ticket, ucs_status_t status) override
    {
        tickets.emplace_back(ticket, status);
    }

    // Posts, as soon as there is room.
    void post(const Transfer& transfer, unsigned channel = 0)
    {
        while (!lane(channel).post(transfer)) {
            lane(channel).submit();
            lane(channel).poll(*this);
        }
    }
    // Whether so many more are retired in time.
    bool finish(size_t count, unsigned channel = 0)
    {
        lane(channel).submit();
        const size_t all = tickets.size() + count;
        return eventually([&] {
            lane(channel).poll(*this);
            return tickets.size() >= all;
        });
    }
    // One transfer, from its post to its end.
    ucs_status_t carry_out(const Transfer& transfer, unsigned channel = 0)
    {
        post(transfer, channel);
        EXPECT_TRUE(finish(1, channel));
        return tickets.back().second;
    }

    Application& application() { return *application_; }

    Network& network;
    ugdr_peer* const peer;
    std::vector<std::pair<uint64_t, ucs_status_t>> tickets;
};

// Both in this process.
struct Pair {
    explicit Pair(unsigned channels = 1, Carrier carrier = Carrier::queue_pairs)
        : a(channels, carrier), b(channels, carrier)
    {
        a.connect(b.peer->blob());
        b.connect(a.peer->blob());
    }
    Side a, b;
};

// Memory of side a, and memory of side b that a has imported.
struct Window {
    Window(Pair& pair, bool host, size_t length)
        : near(host, length), far(host, length), near_handle(pair.a.map(near)),
          far_handle(pair.b.map(far)), imported(pair.a.import(far_handle->blob)),
          local(pair.a.memory(near_handle)), remote(pair.a.memory(imported))
    {
    }

    Transfer put(size_t length, uint64_t ticket = 0) const
    {
        return {Kind::put, static_cast<uint32_t>(length), local, 0, remote, 0, nullptr, 0, 0,
                ticket};
    }

    Bytes near, far;
    ugdr_mem* const near_handle;
    ugdr_mem* const far_handle;
    ugdr_rmem* const imported;
    Memory* const local;
    RemoteMemory* const remote;
};

} // namespace synctest
