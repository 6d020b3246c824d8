// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// sync_deaths ROUNDS: peers are killed while streams wait for them, eight at a time in different
// situations; every stream must go on, what cannot have come to its end must have failed, and the
// first failure be told once. Prints what became of them.
#include "killed_peers.hpp"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace synctest;

namespace {

constexpr int kPeers = 8;
constexpr size_t kLarge = 1 << 20;
constexpr size_t kSmall = 64;
constexpr int kTimes = 20;

// What a peer does until it dies.
enum class Role : char {
    sleeps,  // matches nothing, makes no progress
    idles,   // matches nothing
    receives // all that comes
};

// ---- what both sides have

struct Process {
    explicit Process(ucs_thread_mode_t mode)
    {
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
        CALL(ucp_init, &params, nullptr, &context);
        ucp_worker_params_t worker_params{};
        worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        worker_params.thread_mode = mode;
        CALL(ucp_worker_create, context, &worker_params, &worker);
    }

    ucp_ep_h connect(const std::string& address, ucp_err_handler_cb_t lost, void* argument)
    {
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = lost;
        params.err_handler.arg = argument;
        ucp_ep_h ep;
        CALL(ucp_ep_create, worker, &params, &ep);
        return ep;
    }

    std::string address() const
    {
        ucp_address_t* own;
        size_t length;
        CALL(ucp_worker_get_address, worker, &own, &length);
        std::string copy(reinterpret_cast<const char*>(own), length);
        ucp_worker_release_address(worker, own);
        return copy;
    }

    ucp_context_h context;
    ucp_worker_h worker;
};

// ---- peers

[[noreturn]] void be_a_peer(int fd)
{
    Process self(UCS_THREAD_MODE_SINGLE);
    static char memory[kLarge];
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory;
    params.length = sizeof(memory);
    ucp_mem_h memh;
    CALL(ucp_mem_map, self.context, &params, &memh);
    void* rkey;
    size_t rkey_size;
    CALL(ucp_rkey_pack, self.context, memh, &rkey, &rkey_size);
    send_bytes(fd, std::to_string(getpid()));
    send_bytes(fd, self.address());
    send_bytes(fd, std::string(static_cast<char*>(rkey), rkey_size));
    char* const start = memory;
    send_bytes(fd, std::string(reinterpret_cast<const char*>(&start), sizeof(start)));
    const auto role = static_cast<Role>(receive_bytes(fd).at(0));
    const auto tag = std::stoul(receive_bytes(fd));
    const ucp_ep_h ep = self.connect(
        receive_bytes(fd), [](void*, ucp_ep_h, ucs_status_t) {}, nullptr);
    ucp_request_param_t plain{};
    const auto complete = [&](void* request) {
        while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(self.worker);
        }
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        }
    };
    const auto receive = [&] {
        complete(ucp_tag_recv_nbx(self.worker, memory, sizeof(memory), tag, ~0ul, &plain));
    };
    receive();
    complete(ucp_tag_send_nbx(ep, memory, 1, tag, &plain));
    for (;;) {
        if (role == Role::sleeps) {
            pause();
        }
        if (role == Role::idles) {
            ucp_worker_progress(self.worker);
            continue;
        }
        receive();
    }
}

// ---- the survivor

struct Peer {
    pid_t process;
    std::string address, rkey_buffer;
    uint64_t memory;
    ucp_tag_t tag;
    ucp_ep_h ep = nullptr;
    ucp_rkey_h rkey = nullptr;
    CUstream stream = nullptr;
    CUgraphExec executable = nullptr;
    std::vector<char> buffer = std::vector<char>(kLarge);
    std::vector<ugdr_request_h> requests;
    std::atomic<ugdr_request_h> receives{nullptr}; // one of these
    std::atomic<bool> lost{false};
};

class Survivor {
  public:
    explicit Survivor(const Peers& peers) : self_(UCS_THREAD_MODE_MULTI), peers_(peers)
    {
        CALL(cuInit, 0u);
        CUcontext context;
        CALL(cuDevicePrimaryCtxRetain, &context, 0);
        CALL(cuCtxSetCurrent, context);
        ugdr_context_params_t params{};
        params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER | UGDR_CONTEXT_PARAM_FIELD_ERROR_CB;
        params.worker = self_.worker;
        params.error_cb = [](void* told, ucs_status_t status, const char*) {
            static_cast<std::vector<ucs_status_t>*>(told)->push_back(status);
        };
        params.error_arg = &told_;
        CALL(ugdr_context_create, &params, &sync_);
    }

    // False: a stream hung, or what its peer had no part in went well.
    bool round(int number)
    {
        in_one_ = number % 2 == 1;
        std::vector<std::unique_ptr<Peer>> peers;
        peers_.order(kPeers);
        for (int i = 0; i < kPeers; ++i) {
            peers.push_back(meet(roles_[i]));
        }
        for (int i = 0; i < kPeers; ++i) {
            situations_[i].begin(*this, *peers[static_cast<size_t>(i)]);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(number % 7));
        for (const auto& peer : peers) {
            kill(peer->process, SIGKILL);
        }
        for (int i = 0; i < kPeers; ++i) {
            if (!goes_on(*peers[static_cast<size_t>(i)], situations_[i])) {
                return false;
            }
        }
        for (const auto& peer : peers) {
            part_from(*peer);
        }
        return true;
    }

    void report() const
    {
        for (const auto& [name, statuses] : outcomes_) {
            std::printf("%-30s", name.c_str());
            for (const auto& [status, count] : statuses) {
                std::printf("  %s: %d", ucs_status_string(status), count);
            }
            std::printf("\n");
        }
        std::printf("longest wait after a death: %.2f s\n", longest_);
    }

    void close()
    {
        const auto until = Clock::now() + kDeadline;
        while (ugdr_context_destroy(sync_, 0) == UCS_ERR_BUSY) {
            if (Clock::now() > until) {
                fail("the context stays busy");
            }
            std::this_thread::yield();
        }
    }

    // Once, of the first that failed: after that the context tells it.
    bool told_once() const
    {
        ugdr_context_attr_t attr{};
        attr.field_mask = UGDR_CONTEXT_ATTR_FIELD_STATUS;
        CALL(ugdr_context_query, sync_, &attr);
        if (told_.size() == 1 && told_[0] != UCS_OK && attr.status == told_[0]) {
            return true;
        }
        std::printf("FAILED: told of %zu failures, the context of \"%s\"\n", told_.size(),
                    ucs_status_string(attr.status));
        return false;
    }

  private:
    struct Situation {
        const char* name;
        bool hopeless; // the last operation cannot come to its end
        void (*begin)(Survivor&, Peer&);
    };

    std::unique_ptr<Peer> meet(Role role)
    {
        auto peer = std::make_unique<Peer>();
        const int fd = peers_.meet();
        peer->process = std::stoi(receive_bytes(fd));
        peer->address = receive_bytes(fd);
        peer->rkey_buffer = receive_bytes(fd);
        std::memcpy(&peer->memory, receive_bytes(fd).data(), sizeof(peer->memory));
        peer->tag = ++tags_;
        send_bytes(fd, std::string(1, static_cast<char>(role)));
        send_bytes(fd, std::to_string(peer->tag));
        send_bytes(fd, self_.address());
        ::close(fd);
        peer->ep = self_.connect(peer->address, lost, peer.get());
        CALL(ucp_ep_rkey_unpack, peer->ep, peer->rkey_buffer.data(), &peer->rkey);
        CALL(cuStreamCreate, &peer->stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
        // A rendezvous, and an answer: while UCP still connects it does not notice a death.
        ugdr_request_h greetings[2];
        CALL(ugdr_tag_send, sync_, peer->ep, peer->buffer.data(), kLarge, peer->tag, nullptr,
             &greetings[0]);
        CALL(ugdr_tag_recv, sync_, peer->buffer.data(), 1, peer->tag, ~0ul, nullptr, &greetings[1]);
        for (ugdr_request_h greeting : greetings) {
            CALL(ugdr_request_wait, greeting);
            ugdr_request_free(greeting);
        }
        return peer;
    }

    // UCP calls it in the library's thread. A receive that nothing was matched to belongs to no
    // endpoint: who knows whom it was for cancels it.
    static void lost(void* argument, ucp_ep_h, ucs_status_t)
    {
        auto& peer = *static_cast<Peer*>(argument);
        if (peer.receives != nullptr) {
            ugdr_request_cancel(peer.receives);
        }
        peer.lost = true;
    }

    template <typename Operation>
    void at_point(Peer& peer, Operation&& operation)
    {
        ugdr_condition_params_t params{};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM;
        params.category = UGDR_CONDITION_STREAM;
        params.stream = peer.stream;
        ugdr_op_param_t param{};
        param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_FLAGS;
        if (in_one_) {
            params.field_mask |= UGDR_CONDITION_PARAM_FIELD_FLAGS;
            params.flags = UGDR_CONDITION_FLAG_WAIT;
        } else {
            param.flags = UGDR_OP_FLAG_STREAM_WAIT;
        }
        CALL(ugdr_condition_create, sync_, &params, &param.condition);
        peer.requests.push_back(nullptr);
        check(operation(&param, &peer.requests.back()), "an operation");
        CALL(ugdr_condition_destroy, param.condition);
    }

    void send(Peer& peer, size_t size)
    {
        at_point(peer, [&](const ugdr_op_param_t* param, ugdr_request_h* request) {
            return ugdr_tag_send(sync_, peer.ep, peer.buffer.data(), size, peer.tag, param,
                                 request);
        });
    }
    void receive(Peer& peer)
    {
        at_point(peer, [&](const ugdr_op_param_t* param, ugdr_request_h* request) {
            return ugdr_tag_recv(sync_, peer.buffer.data(), kSmall, peer.tag, ~0ul, param, request);
        });
        peer.receives = peer.requests.back();
    }
    void put(Peer& peer)
    {
        at_point(peer, [&](const ugdr_op_param_t* param, ugdr_request_h* request) {
            return ugdr_put(sync_, peer.ep, peer.buffer.data(), kLarge, peer.memory, peer.rkey,
                            param, request);
        });
        at_point(peer, [&](const ugdr_op_param_t* param, ugdr_request_h* request) {
            return ugdr_ep_flush(sync_, peer.ep, param, request);
        });
    }
    void get(Peer& peer)
    {
        at_point(peer, [&](const ugdr_op_param_t* param, ugdr_request_h* request) {
            return ugdr_get(sync_, peer.ep, peer.buffer.data(), kLarge, peer.memory, peer.rkey,
                            param, request);
        });
    }
    // Captures what is enqueued, and launches it.
    template <typename Body>
    void in_a_graph(Peer& peer, Body&& body)
    {
        CUgraph graph;
        CALL(cuStreamBeginCapture, peer.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        body();
        CALL(cuStreamEndCapture, peer.stream, &graph);
        CALL(cuGraphInstantiateWithFlags, &peer.executable, graph, 0ull);
        CALL(cuGraphDestroy, graph);
        for (int i = 0; i < kTimes; ++i) {
            CALL(cuGraphLaunch, peer.executable, peer.stream);
        }
    }

    bool goes_on(Peer& peer, const Situation& situation)
    {
        const auto began = Clock::now();
        while (cuStreamQuery(peer.stream) == CUDA_ERROR_NOT_READY) {
            if (Clock::now() - began > kDeadline) {
                std::printf("FAILED: the stream waits for ever: %s; UCP %s of the death\n",
                            situation.name, peer.lost ? "has told" : "has not told");
                return false;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        CALL(cuStreamSynchronize, peer.stream);
        longest_ = std::max(longest_, std::chrono::duration<double>(Clock::now() - began).count());
        const ucs_status_t status = ugdr_request_test(peer.requests.back());
        ++outcomes_[situation.name][status];
        if (status != UCS_INPROGRESS && (status != UCS_OK || !situation.hopeless)) {
            return true;
        }
        std::printf("FAILED: %s: %s\n", situation.name, ucs_status_string(status));
        return false;
    }

    void part_from(Peer& peer)
    {
        if (peer.executable != nullptr) {
            CALL(cuGraphExecDestroy, peer.executable);
        }
        ucp_rkey_destroy(peer.rkey);
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
        void* request = ucp_ep_close_nbx(peer.ep, &param);
        while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(self_.worker);
        }
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        }
        for (ugdr_request_h one : peer.requests) {
            ugdr_request_free(one);
        }
        CALL(cuStreamDestroy, peer.stream);
    }

    static constexpr Role roles_[kPeers] = {Role::idles,    Role::idles,    Role::sleeps,
                                            Role::receives, Role::receives, Role::receives,
                                            Role::idles,    Role::receives};
    static const Situation situations_[kPeers];

    Process self_;
    const Peers peers_;
    ugdr_context_h sync_;
    ucp_tag_t tags_ = 0;
    bool in_one_ = false; // trigger and wait, this round
    std::map<std::string, std::map<ucs_status_t, int>> outcomes_;
    double longest_ = 0;
    std::vector<ucs_status_t> told_; // in the library's thread
};

constexpr Survivor::Situation Survivor::situations_[kPeers] = {
    {"receive of nothing", true, [](Survivor& self, Peer& peer) { self.receive(peer); }},
    {"rendezvous that is ignored", true,
     [](Survivor& self, Peer& peer) { self.send(peer, kLarge); }},
    {"sends to one that sleeps", true,
     [](Survivor& self, Peer& peer) {
         for (int i = 0; i < kTimes; ++i) {
             self.send(peer, kLarge);
         }
     }},
    {"large sends", false,
     [](Survivor& self, Peer& peer) {
         for (int i = 0; i < kTimes; ++i) {
             self.send(peer, kLarge);
         }
     }},
    {"puts", false,
     [](Survivor& self, Peer& peer) {
         for (int i = 0; i < kTimes; ++i) {
             self.put(peer);
         }
     }},
    {"gets", false,
     [](Survivor& self, Peer& peer) {
         for (int i = 0; i < kTimes; ++i) {
             self.get(peer);
         }
     }},
    {"graph that receives nothing", true,
     [](Survivor& self, Peer& peer) { self.in_a_graph(peer, [&] { self.receive(peer); }); }},
    {"graph that sends", false, [](Survivor& self, Peer& peer) {
         self.in_a_graph(peer, [&] {
             self.send(peer, kSmall);
             self.send(peer, kLarge);
         });
     }}};

int survive(int rounds, const Peers& peers)
{
    Survivor survivor(peers);
    for (int i = 0; i < rounds; ++i) {
        if (!survivor.round(i)) {
            std::_Exit(1);
        }
    }
    survivor.report();
    if (!survivor.told_once()) {
        std::_Exit(1);
    }
    survivor.close();
    std::printf("%d peers killed, every stream went on\n", rounds * kPeers);
    std::fflush(stdout);
    std::_Exit(0); // endpoints of the dead may be closing
}

} // namespace

int main(int argc, char** argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const int rounds = argc == 2 ? std::atoi(argv[1]) : 0;
    if (rounds < 1) {
        fail("usage: sync_deaths ROUNDS");
    }
    return with_killed_peers(
        kPeers, [&](const Peers& peers) { return survive(rounds, peers); }, be_a_peer);
}
