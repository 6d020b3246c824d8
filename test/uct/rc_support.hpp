// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the tests of the RC transport stand on: interfaces and endpoints opened through UCT's public
// calls on emulated HCAs, registered buffers, and what arrived.
#pragma once

#include "../emu/preload.hpp"
#include "copy_support.hpp"
#include "emu/softhca/softhca.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rc_test {

using copy_test::Buffer;
using copy_test::Completion;
using copy_test::Memory;
using copy_test::require;

inline const std::string kDevice = emulated_hca(0) + ":1";
inline const std::string kOtherDevice = emulated_hca(1) + ":1";

using Variables = std::vector<std::pair<std::string, std::string>>; // UCX_GDR_RC_<first>=<second>

struct Address {
    std::vector<char> device;
    std::vector<char> iface;
};

struct Message {
    unsigned id;
    std::string data;
};

// Memory domain, worker and interface.
class Node {
  public:
    explicit Node(const Variables& variables = {}, const std::string& device = kDevice);
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    ~Node();

    uct_component_h component() const { return component_; }
    uct_md_h md() const { return md_; }
    uct_iface_h iface() const { return iface_; }
    const uct_iface_attr_t& attributes() const { return attributes_; }
    Address address() const;
    bool reaches(const Address& address) const;
    unsigned progress() { return uct_worker_progress(worker_); }

    // Opens an interface beside this one, with these parameters too, and closes it.
    ucs_status_t try_to_open(uint64_t open_mode, uint64_t fields, size_t am_alignment,
                             size_t am_align_offset);

    std::vector<Message> received;
    size_t received_count = 0; // also of those that were not kept
    bool keep_messages = true;
    bool hold_buffers = false; // as long as UCT allows
    std::vector<void*> held;
    std::function<void()> on_message; // called from the callback
    std::vector<std::pair<uct_ep_h, ucs_status_t>> failures;

  private:
    static ucs_status_t on_am(void* arg, void* data, size_t length, unsigned flags);
    static ucs_status_t on_failure(void* arg, uct_ep_h ep, ucs_status_t status);
    void open_iface(const Variables& variables, const std::string& device);

    struct Handler {
        Node* node;
        unsigned id;
    };

    uct_component_h component_ = nullptr;
    ucs_async_context_t* async_ = nullptr;
    uct_md_h md_ = nullptr;
    uct_worker_h worker_ = nullptr;
    uct_iface_h iface_ = nullptr;
    uct_iface_attr_t attributes_ = {};
    Handler handlers_[UCT_AM_ID_MAX];
};

enum class Connect { at_once, when_used };

class Endpoint {
  public:
    Endpoint(Node& from, const Address& to, Connect when = Connect::at_once);
    Endpoint(Node& from, const Node& to, Connect when = Connect::at_once)
        : Endpoint(from, to.address(), when)
    {
    }
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;
    ~Endpoint() { destroy(); }

    operator uct_ep_h() const { return ep_; }
    void destroy();

  private:
    uct_ep_h ep_ = nullptr;
};

// An operation for the pending queue of an endpoint.
struct Waiting : uct_pending_req_t {
    Waiting(std::function<ucs_status_t()> operation) : run(std::move(operation))
    {
        func = [](uct_pending_req_t* self) { return static_cast<Waiting*>(self)->run(); };
    }
    std::function<ucs_status_t()> run;
};

// A buffer registered with a node's HCA, and its key as another node sees it.
class Registered {
  public:
    // access: UCT_MD_MEM_ACCESS_*
    Registered(Node& node, void* address, size_t length, unsigned access = UCT_MD_MEM_ACCESS_ALL);
    Registered(Node& node, const Buffer& buffer) : Registered(node, buffer.data(), buffer.length())
    {
    }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
    ~Registered();

    uct_mem_h memh() const { return memh_; }
    uct_rkey_t rkey() const { return bundle_.rkey; }
    uct_iov_t piece(void* address, size_t length) const;

  private:
    Node& node_;
    uct_mem_h memh_ = nullptr;
    uct_rkey_bundle_t bundle_ = {};
};

// Progresses the nodes until done() or for so many seconds; done()'s last answer.
bool wait_until(const std::vector<Node*>& nodes, const std::function<bool()>& done,
                double seconds = 60);

// Repeats an operation that finds no resources.
ucs_status_t retry(const std::vector<Node*>& nodes, const std::function<ucs_status_t()>& operation);

// Completes everything the endpoint has posted.
ucs_status_t flush(const std::vector<Node*>& nodes, uct_ep_h ep);

// From and to memory of any kind.
void copy(void* to, const void* from, size_t length);

std::string pattern(size_t length, unsigned seed);
ssize_t send_bcopy(uct_ep_h ep, uint8_t id, const std::string& data);

// What the emulated HCA did for this program.
struct softhca_counters hca_counters();

// The emulated HCA does all that was posted; what has arrived can be polled.
inline void finish_posted()
{
    (void)hca_counters();
}

// Queue pairs that this program has now.
long queue_pairs();

// What this program says and how it ends when it is run again, with other variables and arguments.
struct Outcome {
    int status; // as of waitpid()
    std::string text;
};
Outcome run_self(const Variables& environment, const std::vector<std::string>& arguments,
                 long locked_memory_limit = -1);

} // namespace rc_test
