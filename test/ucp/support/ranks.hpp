// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Processes that test together: rank 0 and its children, joined by sockets in a star around rank
// 0, over which they exchange addresses and meet at barriers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "worker.hpp"

namespace ucptest {

using Bytes = std::vector<uint8_t>;

class Ranks {
  public:
    // Forks count - 1 children, before anything of UCX or CUDA is initialised. The caller is rank
    // 0; children die with it. UCPTEST_NET_DEVICES=LIST;LIST... gives rank 0, 1, ..., and again
    // from the first, its UCX_NET_DEVICES, UCPTEST_VISIBLE_DEVICES its CUDA_VISIBLE_DEVICES.
    explicit Ranks(int count);
    ~Ranks();
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;

    int rank() const { return rank_; }
    int count() const { return static_cast<int>(sockets_.size()); }
    // Those this rank has a socket to: all others for rank 0, rank 0 for the others.
    std::vector<int> peers() const;
    pid_t process(int rank) const { return processes_.at(static_cast<size_t>(rank)); } // rank 0's

    void send(int peer, const Bytes& bytes);
    // Waits while the worker makes progress. A Failure when the peer's process has ended.
    Bytes receive(int peer, Worker& worker, const std::string& what);
    // Sends to every peer and receives from every peer; the result is indexed by rank.
    std::vector<Bytes> exchange(const std::function<Bytes(int peer)>& mine, Worker& worker,
                                const std::string& what);
    void barrier(Worker& worker, const std::string& what);
    // Adds up a number of every rank; all ranks receive the sum.
    uint64_t sum(uint64_t mine, Worker& worker, const std::string& what);

    // Rank 0 waits for its children; the number of those that did not exit with 0. Others have no
    // one to wait for.
    int join();

  private:
    void choose_devices() const;
    void choose(const char* lists, const char* variable) const;

    int rank_ = 0;
    std::vector<int> sockets_; // by rank; -1 where there is none
    std::vector<pid_t> processes_;
};

} // namespace ucptest
