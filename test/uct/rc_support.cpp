// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Interfaces, endpoints, registrations.
#include "rc_support.hpp"

#include "abi/component.hpp"
#include "abi/host.hpp"
#include "rc/component/component.hpp"
#include "rc/component/open_iface.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
ucs_status_t ucs_async_context_create(ucs_async_mode_t mode, ucs_async_context_t** async);
void ucs_async_context_destroy(ucs_async_context_t* async);
}

namespace rc_test {
namespace {

constexpr char kComponent[] = "gdr_rc";
constexpr char kTransport[] = "gdr";

uct_component_h find_component()
{
    static const bool registered = [] {
        if (!gdr::abi::choose_series()) {
            throw std::runtime_error(gdr::abi::why_not());
        }
        gdr::abi::register_component(gdr::rc::component());
        return true;
    }();
    (void)registered;
    uct_component_h* components;
    unsigned count;
    require(uct_query_components(&components, &count), "uct_query_components");
    uct_component_h found = nullptr;
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr = {};
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        require(uct_component_query(components[i], &attr), "uct_component_query");
        if (strcmp(attr.name, kComponent) == 0) {
            found = components[i];
        }
    }
    uct_release_component_list(components);
    if (found == nullptr) {
        throw std::runtime_error("no component gdr_rc");
    }
    return found;
}

} // namespace

Node::Node(const Variables& variables, const std::string& device) : component_(find_component())
{
    uct_md_config_t* config;
    require(uct_md_config_read(component_, nullptr, nullptr, &config), "uct_md_config_read");
    ucs_status_t status =
        uct_md_open(component_, device.substr(0, device.find(':')).c_str(), config, &md_);
    uct_config_release(config);
    require(status, "uct_md_open");
    require(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async_),
            "ucs_async_context_create");
    require(uct_worker_create(async_, UCS_THREAD_MODE_SINGLE, &worker_), "uct_worker_create");
    open_iface(variables, device);
    require(uct_iface_query(iface_, &attributes_), "uct_iface_query");
    uct_iface_progress_enable(iface_, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
        handlers_[id] = {this, id};
        require(uct_iface_set_am_handler(iface_, id, on_am, &handlers_[id], 0),
                "uct_iface_set_am_handler");
    }
}

void Node::open_iface(const Variables& variables, const std::string& device)
{
    uct_iface_config_t* config;
    require(uct_md_iface_config_read(md_, kTransport, nullptr, nullptr, &config),
            "uct_md_iface_config_read");
    for (const auto& [name, value] : variables) {
        require(uct_config_modify(config, name.c_str(), value.c_str()), name.c_str());
    }
    uct_iface_params_t params = {};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                        UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                        UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS | UCT_IFACE_PARAM_FIELD_RX_HEADROOM;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = kTransport;
    params.mode.device.dev_name = device.c_str();
    params.err_handler = on_failure;
    params.err_handler_arg = this;
    params.rx_headroom = 40;
    ucs_status_t status = uct_iface_open(md_, worker_, &params, config, &iface_);
    uct_config_release(config);
    if (status != UCS_OK) { // the destructor does not run
        uct_worker_destroy(worker_);
        ucs_async_context_destroy(async_);
        uct_md_close(md_);
    }
    require(status, "uct_iface_open");
}

ucs_status_t Node::try_to_open(uint64_t open_mode, uint64_t fields, size_t am_alignment,
                               size_t am_align_offset)
{
    uct_iface_config_t* config;
    require(uct_md_iface_config_read(md_, kTransport, nullptr, nullptr, &config),
            "uct_md_iface_config_read");
    uct_iface_params_t params = {};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE | fields;
    params.open_mode = open_mode;
    params.mode.device.tl_name = kTransport;
    params.mode.device.dev_name = kDevice.c_str();
    params.am_alignment = am_alignment;
    params.am_align_offset = am_align_offset;
    uct_iface_h iface;
    ucs_status_t status = gdr::rc::iface_open(md_, worker_, &params, config, &iface);
    uct_config_release(config);
    if (status == UCS_OK) {
        uct_iface_close(iface);
    }
    return status;
}

Node::~Node()
{
    for (void* desc : held) {
        uct_iface_release_desc(desc);
    }
    uct_iface_close(iface_);
    uct_worker_destroy(worker_);
    ucs_async_context_destroy(async_);
    uct_md_close(md_);
}

Address Node::address() const
{
    Address address{std::vector<char>(attributes_.device_addr_len),
                    std::vector<char>(attributes_.iface_addr_len)};
    require(uct_iface_get_device_address(
                iface_, reinterpret_cast<uct_device_addr_t*>(address.device.data())),
            "uct_iface_get_device_address");
    require(
        uct_iface_get_address(iface_, reinterpret_cast<uct_iface_addr_t*>(address.iface.data())),
        "uct_iface_get_address");
    return address;
}

bool Node::reaches(const Address& address) const
{
    return uct_iface_is_reachable(
               iface_, reinterpret_cast<const uct_device_addr_t*>(address.device.data()),
               reinterpret_cast<const uct_iface_addr_t*>(address.iface.data())) != 0;
}

ucs_status_t Node::on_am(void* arg, void* data, size_t length, unsigned flags)
{
    auto* handler = static_cast<Handler*>(arg);
    Node& node = *handler->node;
    ++node.received_count;
    if (node.keep_messages) {
        node.received.push_back({handler->id, std::string(static_cast<char*>(data), length)});
    }
    if (node.on_message) {
        node.on_message();
    }
    if (node.hold_buffers && (flags & UCT_CB_PARAM_FLAG_DESC)) {
        node.held.push_back(static_cast<char*>(data) - 40); // rx_headroom
        return UCS_INPROGRESS;
    }
    return UCS_OK;
}

ucs_status_t Node::on_failure(void* arg, uct_ep_h ep, ucs_status_t status)
{
    static_cast<Node*>(arg)->failures.emplace_back(ep, status);
    return UCS_OK;
}

Endpoint::Endpoint(Node& from, const Address& to, Connect when)
{
    uct_ep_params_t params = {};
    params.field_mask =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = from.iface();
    params.dev_addr = reinterpret_cast<const uct_device_addr_t*>(to.device.data());
    params.iface_addr = reinterpret_cast<const uct_iface_addr_t*>(to.iface.data());
    require(uct_ep_create(&params, &ep_), "uct_ep_create");
    if (when == Connect::at_once) {
        (void)uct_ep_check(ep_, 0, nullptr); // whose failure comes as the endpoint's
    }
}

void Endpoint::destroy()
{
    if (uct_ep_h ep = std::exchange(ep_, nullptr); ep != nullptr) {
        uct_ep_destroy(ep);
    }
}

Registered::Registered(Node& node, void* address, size_t length, unsigned access) : node_(node)
{
    require(uct_md_mem_reg(node.md(), address, length, access, &memh_), "uct_md_mem_reg");
    uct_md_attr_t attributes = {};
    require(uct_md_query(node.md(), &attributes), "uct_md_query");
    std::vector<char> packed(attributes.rkey_packed_size);
    require(uct_md_mkey_pack(node.md(), memh_, packed.data()), "uct_md_mkey_pack");
    require(uct_rkey_unpack(node.component(), packed.data(), &bundle_), "uct_rkey_unpack");
}

// The memory may be gone afterwards: nothing that was posted shall write to it.
Registered::~Registered()
{
    finish_posted();
    uct_rkey_release(node_.component(), &bundle_);
    uct_md_mem_dereg(node_.md(), memh_);
}

uct_iov_t Registered::piece(void* address, size_t length) const
{
    uct_iov_t iov = {};
    iov.buffer = address;
    iov.length = length;
    iov.memh = memh_;
    iov.count = 1;
    return iov;
}

bool wait_until(const std::vector<Node*>& nodes, const std::function<bool()>& done, double seconds)
{
    auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!done()) {
        for (Node* node : nodes) {
            node->progress();
        }
        if (std::chrono::steady_clock::now() > deadline) {
            return done();
        }
    }
    return true;
}

ucs_status_t retry(const std::vector<Node*>& nodes, const std::function<ucs_status_t()>& operation)
{
    ucs_status_t status = UCS_ERR_NO_RESOURCE;
    wait_until(nodes, [&] { return (status = operation()) != UCS_ERR_NO_RESOURCE; });
    return status;
}

ucs_status_t flush(const std::vector<Node*>& nodes, uct_ep_h ep)
{
    ucs_status_t status = UCS_ERR_NO_RESOURCE;
    wait_until(nodes, [&] {
        status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, nullptr);
        return status != UCS_ERR_NO_RESOURCE && status != UCS_INPROGRESS;
    });
    return status;
}

void copy(void* to, const void* from, size_t length)
{
    copy_test::Current current(copy_test::primary_context(0));
    if (length > 0) {
        require(cuMemcpy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                         length),
                "cuMemcpy");
    }
}

std::string pattern(size_t length, unsigned seed)
{
    std::string data(length, '\0');
    uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
    for (char& byte : data) {
        state = state * 6364136223846793005 + 1442695040888963407;
        byte = static_cast<char>(state >> 56);
    }
    return data;
}

ssize_t send_bcopy(uct_ep_h ep, uint8_t id, const std::string& data)
{
    auto pack = [](void* destination, void* arg) {
        auto& source = *static_cast<const std::string*>(arg);
        memcpy(destination, source.data(), source.size());
        return source.size();
    };
    return uct_ep_am_bcopy(ep, id, pack, const_cast<std::string*>(&data), 0);
}

struct softhca_counters hca_counters()
{
    static const auto read = reinterpret_cast<void (*)(struct softhca_counters*)>(
        dlsym(RTLD_DEFAULT, "softhca_counters"));
    struct softhca_counters counters;
    read(&counters);
    return counters;
}

long queue_pairs()
{
    const struct softhca_counters now = hca_counters();
    return static_cast<long>(now.queue_pairs - now.queue_pairs_destroyed);
}

Outcome run_self(const Variables& environment, const std::vector<std::string>& arguments,
                 long locked_memory_limit)
{
    int ends[2];
    if (pipe(ends) != 0) {
        throw std::runtime_error("pipe");
    }
    std::vector<char*> argv{const_cast<char*>("rc_test")};
    for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        for (const auto& [name, value] : environment) {
            setenv(name.c_str(), value.c_str(), 1);
        }
        if (locked_memory_limit >= 0) {
            auto bytes = static_cast<rlim_t>(locked_memory_limit);
            rlimit limit{bytes, bytes};
            setrlimit(RLIMIT_MEMLOCK, &limit);
        }
        execv("/proc/self/exe", argv.data());
        _exit(127);
    }
    close(ends[1]);
    Outcome outcome{};
    char text[4096];
    for (ssize_t length; (length = read(ends[0], text, sizeof(text))) > 0;) {
        outcome.text.append(text, static_cast<size_t>(length));
    }
    close(ends[0]);
    waitpid(child, &outcome.status, 0);
    return outcome;
}

} // namespace rc_test
