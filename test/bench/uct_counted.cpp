// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCT operations of a process with itself, for callgrind: see counted.hpp.
#include "counted.hpp"

#include "../ucp/support/failure.hpp"
#include "../ucp/support/memory.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <uct/api/uct.h>

namespace bench {
namespace {

using ucptest::Failure;
using ucptest::Memory;
using ucptest::require_ok;

constexpr const char* kUsage =
    "usage: uct_counted TRANSPORT DEVICE TEST LAYOUT SIZE LOCAL REMOTE COUNT BATCH\n"
    "TEST: am, put, get, add, fadd, swap, cswap. LAYOUT: short, bcopy, zcopy; - for atomics.\n"
    "LOCAL, REMOTE: kinds of memory: host, cuda. COUNT operations are counted, BATCH of them are\n"
    "posted before the first poll.\n";

constexpr uint8_t kId = 5;

struct Asked {
    std::string transport, device, test, layout;
    size_t size;
};

// The first domain that has this transport on this device.
class Domain {
  public:
    explicit Domain(const Asked& asked)
    {
        uct_component_h* components;
        unsigned count;
        require_ok(uct_query_components(&components, &count), "uct_query_components");
        for (unsigned i = 0; i < count && md_ == nullptr; ++i) {
            search(components[i], asked);
        }
        uct_release_component_list(components);
        if (md_ == nullptr) {
            throw Failure("there is no " + asked.transport + " on " + asked.device);
        }
    }
    Domain(const Domain&) = delete;
    Domain& operator=(const Domain&) = delete;
    ~Domain() { uct_md_close(md_); }

    uct_md_h md() const { return md_; }
    uct_component_h component() const { return component_; }

  private:
    void search(uct_component_h component, const Asked& asked)
    {
        uct_component_attr_t attributes = {};
        attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        require_ok(uct_component_query(component, &attributes), "uct_component_query");
        std::vector<uct_md_resource_desc_t> resources(attributes.md_resource_count);
        attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attributes.md_resources = resources.data();
        require_ok(uct_component_query(component, &attributes), "uct_component_query");
        for (const uct_md_resource_desc_t& resource : resources) {
            uct_md_config_t* config;
            require_ok(uct_md_config_read(component, nullptr, nullptr, &config),
                       "uct_md_config_read");
            uct_md_h md;
            const ucs_status_t status = uct_md_open(component, resource.md_name, config, &md);
            uct_config_release(config);
            if (status != UCS_OK) {
                continue;
            }
            if (has(md, asked)) {
                md_ = md;
                component_ = component;
                return;
            }
            uct_md_close(md);
        }
    }

    static bool has(uct_md_h md, const Asked& asked)
    {
        uct_tl_resource_desc_t* resources;
        unsigned count;
        require_ok(uct_md_query_tl_resources(md, &resources, &count), "uct_md_query_tl_resources");
        bool found = false;
        for (unsigned i = 0; i < count; ++i) {
            found |=
                asked.transport == resources[i].tl_name && asked.device == resources[i].dev_name;
        }
        uct_release_tl_resource_list(resources);
        return found;
    }

    uct_md_h md_ = nullptr;
    uct_component_h component_ = nullptr;
};

// Registered memory, and how it is named to the other side.
class Registered {
  public:
    Registered(const Domain& domain, const std::string& kind, size_t size)
        : domain_(domain), memory_(ucptest::memory_kind(kind), size)
    {
        require_ok(
            uct_md_mem_reg(domain.md(), memory_.address(), size, UCT_MD_MEM_ACCESS_ALL, &memh_),
            "uct_md_mem_reg");
        uct_md_attr_t attributes;
        require_ok(uct_md_query(domain.md(), &attributes), "uct_md_query");
        std::vector<char> packed(attributes.rkey_packed_size);
        require_ok(uct_md_mkey_pack(domain.md(), memh_, packed.data()), "uct_md_mkey_pack");
        require_ok(uct_rkey_unpack(domain.component(), packed.data(), &rkey_), "uct_rkey_unpack");
    }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
    ~Registered()
    {
        uct_rkey_release(domain_.component(), &rkey_);
        uct_md_mem_dereg(domain_.md(), memh_);
    }

    void* address() const { return memory_.address(); }
    uint64_t remote() const { return reinterpret_cast<uint64_t>(memory_.address()); }
    uct_mem_h memh() const { return memh_; }
    uct_rkey_t rkey() const { return rkey_.rkey; }

  private:
    const Domain& domain_;
    const Memory memory_;
    uct_mem_h memh_ = nullptr;
    uct_rkey_bundle_t rkey_ = {};
};

// An interface with an endpoint to itself.
class Loop {
  public:
    Loop(const Domain& domain, const Asked& asked, uct_am_callback_t on_am, void* arg)
    {
        require_ok(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async_),
                   "ucs_async_context_create");
        require_ok(uct_worker_create(async_, UCS_THREAD_MODE_SINGLE, &worker_),
                   "uct_worker_create");
        uct_iface_config_t* config;
        require_ok(uct_md_iface_config_read(domain.md(), asked.transport.c_str(), nullptr, nullptr,
                                            &config),
                   "uct_md_iface_config_read");
        uct_iface_params_t params = {};
        params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
        params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        params.mode.device.tl_name = asked.transport.c_str();
        params.mode.device.dev_name = asked.device.c_str();
        const ucs_status_t status = uct_iface_open(domain.md(), worker_, &params, config, &iface_);
        uct_config_release(config);
        require_ok(status, "uct_iface_open");
        uct_iface_progress_enable(iface_, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
        require_ok(uct_iface_set_am_handler(iface_, kId, on_am, arg, 0),
                   "uct_iface_set_am_handler");
        require_ok(uct_iface_query(iface_, &attributes_), "uct_iface_query");
        connect();
    }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;
    ~Loop()
    {
        for (uct_ep_h ep : eps_) {
            uct_ep_destroy(ep);
        }
        uct_iface_close(iface_);
        uct_worker_destroy(worker_);
        ucs_async_context_destroy(async_);
    }

    uct_ep_h ep() const { return eps_.front(); }
    uint64_t flags() const { return attributes_.cap.flags; }
    void progress() { uct_worker_progress(worker_); }

  private:
    void connect()
    {
        std::vector<char> device(attributes_.device_addr_len), iface(attributes_.iface_addr_len);
        auto* device_address = reinterpret_cast<uct_device_addr_t*>(device.data());
        auto* iface_address = reinterpret_cast<uct_iface_addr_t*>(iface.data());
        require_ok(uct_iface_get_device_address(iface_, device_address),
                   "uct_iface_get_device_address");
        uct_ep_params_t params = {};
        params.field_mask = UCT_EP_PARAM_FIELD_IFACE;
        params.iface = iface_;
        if (attributes_.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE) {
            require_ok(uct_iface_get_address(iface_, iface_address), "uct_iface_get_address");
            params.field_mask |= UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
            params.dev_addr = device_address;
            params.iface_addr = iface_address;
            eps_.resize(1);
            require_ok(uct_ep_create(&params, &eps_[0]), "uct_ep_create");
            return;
        }
        eps_.resize(2);
        for (uct_ep_h& ep : eps_) {
            require_ok(uct_ep_create(&params, &ep), "uct_ep_create");
        }
        for (size_t i = 0; i < eps_.size(); ++i) {
            std::vector<char> peer(attributes_.ep_addr_len);
            auto* peer_address = reinterpret_cast<uct_ep_addr_t*>(peer.data());
            require_ok(uct_ep_get_address(eps_[1 - i], peer_address), "uct_ep_get_address");
            require_ok(uct_ep_connect_to_ep(eps_[i], device_address, peer_address),
                       "uct_ep_connect_to_ep");
        }
    }

    ucs_async_context_t* async_ = nullptr;
    uct_worker_h worker_ = nullptr;
    uct_iface_h iface_ = nullptr;
    uct_iface_attr_t attributes_ = {};
    std::vector<uct_ep_h> eps_;
};

class Operations {
  public:
    Operations(const Asked& asked, const std::string& local, const std::string& remote)
        : domain_(asked), local_(domain_, local, kMemory), remote_(domain_, remote, kMemory),
          loop_(domain_, asked, on_am, this), size_(asked.size), operation_(find(asked))
    {
        if (size_ > kMemory || size_ < sizeof(uint64_t) / 2) {
            throw Failure("SIZE is 4 to " + std::to_string(kMemory));
        }
        iov_ = {local_.address(), size_, local_.memh(), 0, 1};
        completion_.func = [](uct_completion_t*) {};
        completion_.count = 1; // of its own: it is never called
        completion_.status = UCS_OK;
    }

    bool post()
    {
        const ssize_t status = (this->*operation_)();
        if (status == UCS_ERR_NO_RESOURCE) {
            return false;
        }
        if (status == UCS_INPROGRESS) {
            ++completion_.count;
        } else if (status < 0) {
            require_ok(static_cast<ucs_status_t>(status), "an operation");
        }
        to_receive_ += is_message_;
        return true;
    }

    void progress() { loop_.progress(); }
    bool complete() const { return completion_.count == 1 && to_receive_ == 0; }

  private:
    using Operation = ssize_t (Operations::*)();
    static constexpr size_t kMemory = size_t{1} << 20;

    Operation find(const Asked& asked)
    {
        static constexpr struct {
            const char *test, *layout;
            uint64_t flag;
            Operation operation;
        } kOperations[] = {{"am", "short", UCT_IFACE_FLAG_AM_SHORT, &Operations::am_short},
                           {"am", "bcopy", UCT_IFACE_FLAG_AM_BCOPY, &Operations::am_bcopy},
                           {"am", "zcopy", UCT_IFACE_FLAG_AM_ZCOPY, &Operations::am_zcopy},
                           {"put", "short", UCT_IFACE_FLAG_PUT_SHORT, &Operations::put_short},
                           {"put", "bcopy", UCT_IFACE_FLAG_PUT_BCOPY, &Operations::put_bcopy},
                           {"put", "zcopy", UCT_IFACE_FLAG_PUT_ZCOPY, &Operations::put_zcopy},
                           {"get", "bcopy", UCT_IFACE_FLAG_GET_BCOPY, &Operations::get_bcopy},
                           {"get", "zcopy", UCT_IFACE_FLAG_GET_ZCOPY, &Operations::get_zcopy},
                           {"add", "-", UCT_IFACE_FLAG_ATOMIC_DEVICE, &Operations::add},
                           {"fadd", "-", UCT_IFACE_FLAG_ATOMIC_DEVICE, &Operations::fadd},
                           {"swap", "-", UCT_IFACE_FLAG_ATOMIC_DEVICE, &Operations::swap},
                           {"cswap", "-", UCT_IFACE_FLAG_ATOMIC_DEVICE, &Operations::cswap}};
        is_message_ = asked.test == "am";
        for (const auto& [test, layout, flag, operation] : kOperations) {
            if (asked.test == test && asked.layout == layout && (loop_.flags() & flag)) {
                return operation;
            }
        }
        throw Failure(asked.transport + " has no " + asked.test + " " + asked.layout);
    }

    static ucs_status_t on_am(void* self, void*, size_t, unsigned)
    {
        --static_cast<Operations*>(self)->to_receive_;
        return UCS_OK;
    }
    static size_t pack(void* target, void* self)
    {
        const auto& operations = *static_cast<Operations*>(self);
        std::memcpy(target, operations.local_.address(), operations.size_);
        return operations.size_;
    }
    static void unpack(void* target, const void* data, size_t length)
    {
        std::memcpy(target, data, length);
    }

    ssize_t am_short()
    {
        return uct_ep_am_short(loop_.ep(), kId, 0, local_.address(),
                               static_cast<unsigned>(size_ - sizeof(uint64_t)));
    }
    ssize_t am_bcopy() { return uct_ep_am_bcopy(loop_.ep(), kId, pack, this, 0); }
    ssize_t am_zcopy()
    {
        return uct_ep_am_zcopy(loop_.ep(), kId, nullptr, 0, &iov_, 1, 0, &completion_);
    }
    ssize_t put_short()
    {
        return uct_ep_put_short(loop_.ep(), local_.address(), static_cast<unsigned>(size_),
                                remote_.remote(), remote_.rkey());
    }
    ssize_t put_bcopy()
    {
        return uct_ep_put_bcopy(loop_.ep(), pack, this, remote_.remote(), remote_.rkey());
    }
    ssize_t put_zcopy()
    {
        return uct_ep_put_zcopy(loop_.ep(), &iov_, 1, remote_.remote(), remote_.rkey(),
                                &completion_);
    }
    ssize_t get_bcopy()
    {
        return uct_ep_get_bcopy(loop_.ep(), unpack, local_.address(), size_, remote_.remote(),
                                remote_.rkey(), &completion_);
    }
    ssize_t get_zcopy()
    {
        return uct_ep_get_zcopy(loop_.ep(), &iov_, 1, remote_.remote(), remote_.rkey(),
                                &completion_);
    }
    ssize_t add()
    {
        return size_ == 8 ? uct_ep_atomic64_post(loop_.ep(), UCT_ATOMIC_OP_ADD, 1, remote_.remote(),
                                                 remote_.rkey())
                          : uct_ep_atomic32_post(loop_.ep(), UCT_ATOMIC_OP_ADD, 1, remote_.remote(),
                                                 remote_.rkey());
    }
    ssize_t fetch(uct_atomic_op_t operation)
    {
        return size_ == 8 ? uct_ep_atomic64_fetch(loop_.ep(), operation, 1,
                                                  static_cast<uint64_t*>(local_.address()),
                                                  remote_.remote(), remote_.rkey(), &completion_)
                          : uct_ep_atomic32_fetch(loop_.ep(), operation, 1,
                                                  static_cast<uint32_t*>(local_.address()),
                                                  remote_.remote(), remote_.rkey(), &completion_);
    }
    ssize_t fadd() { return fetch(UCT_ATOMIC_OP_ADD); }
    ssize_t swap() { return fetch(UCT_ATOMIC_OP_SWAP); }
    ssize_t cswap()
    {
        return size_ == 8
                   ? uct_ep_atomic_cswap64(loop_.ep(), 0, 0, remote_.remote(), remote_.rkey(),
                                           static_cast<uint64_t*>(local_.address()), &completion_)
                   : uct_ep_atomic_cswap32(loop_.ep(), 0, 0, remote_.remote(), remote_.rkey(),
                                           static_cast<uint32_t*>(local_.address()), &completion_);
    }

    const Domain domain_;
    const Registered local_, remote_;
    Loop loop_;
    const size_t size_;
    bool is_message_ = false;
    const Operation operation_;
    uct_iov_t iov_ = {};
    uct_completion_t completion_ = {};
    uint64_t to_receive_ = 0;
};

} // namespace
} // namespace bench

int main(int argc, char** argv)
{
    using namespace bench;
    if (argc != 10) {
        std::fputs(kUsage, stderr);
        return 2;
    }
    try {
        open_gpu_for({argv[6], argv[7]});
        Operations operations({argv[1], argv[2], argv[3], argv[4], std::stoul(argv[5])}, argv[6],
                              argv[7]);
        count_batches(operations, argv[8], argv[9]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "uct_counted: %s\n", error.what());
        return 1;
    }
    return 0;
}
