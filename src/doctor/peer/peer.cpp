// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The transfers.
#include "doctor/peer/peer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

#include <sched.h>

namespace gdr::peer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(30); // for one transfer
constexpr ucp_tag_t kTag = 1;
constexpr size_t kUnderWay = 8;
constexpr unsigned kPatienceOfPolling = 1000; // calls
const ucp_request_param_t kPlain{};

double seconds_since(Clock::time_point begin)
{
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

} // namespace

Peer::Peer()
{
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    ucp_.ucp_get_version(&major, &minor, &release);
    ucp_config_t* config = nullptr;
    ucp_.check(ucp_.ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
    const ucs_status_t opened = ucp_.ucp_init_version(major, minor, &params, config, &context_);
    ucp_.ucp_config_release(config);
    ucp_.check(opened, "ucp_init");
    ucp_worker_params_t worker_params{};
    ucp_.check(ucp_.ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
}

Peer::~Peer()
{
    forget_remote();
    forget_memory();
    // It destroys the endpoint. The other side may be gone, and nothing is under way.
    ucp_.ucp_worker_destroy(worker_);
    ucp_.ucp_cleanup(context_);
}

std::string Peer::address() const
{
    ucp_address_t* address = nullptr;
    size_t length = 0;
    ucp_.check(ucp_.ucp_worker_get_address(worker_, &address, &length), "ucp_worker_get_address");
    std::string bytes(reinterpret_cast<const char*>(address), length);
    ucp_.ucp_worker_release_address(worker_, address);
    return bytes;
}

void Peer::progress()
{
    idle_ = ucp_.ucp_worker_progress(worker_) == 0 ? idle_ + 1 : 0;
    if (is_idle()) {
        sched_yield();
    }
}

bool Peer::is_idle() const
{
    return idle_ >= kPatienceOfPolling;
}

void Peer::connect(const std::string& address)
{
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    ucp_.check(ucp_.ucp_ep_create(worker_, &params, &endpoint_), "ucp_ep_create");
}

Memory& Peer::take_memory(const std::string& kind, size_t length, const std::string& gpu)
{
    forget_remote();
    forget_memory();
    memory_ = std::make_unique<Memory>(kind, length, gpu);
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory_->address();
    params.length = memory_->length();
    ucp_.check(ucp_.ucp_mem_map(context_, &params, &handle_), "ucp_mem_map");
    return *memory_;
}

Memory& Peer::memory()
{
    if (memory_ == nullptr) {
        throw std::runtime_error("no memory was taken");
    }
    return *memory_;
}

std::string Peer::packed_key() const
{
    void* buffer = nullptr;
    size_t length = 0;
    ucp_.check(ucp_.ucp_rkey_pack(context_, handle_, &buffer, &length), "ucp_rkey_pack");
    std::string key(static_cast<const char*>(buffer), length);
    ucp_.ucp_rkey_buffer_release(buffer);
    return key;
}

void Peer::take_remote(uint64_t address, const std::string& packed_key)
{
    forget_remote();
    remote_ = address;
    ucp_.check(ucp_.ucp_ep_rkey_unpack(endpoint_, packed_key.data(), &remote_key_),
               "ucp_ep_rkey_unpack");
}

void Peer::put(size_t length)
{
    finish(ucp_.ucp_put_nbx(endpoint_, memory().address(), length, remote_, remote_key_, &kPlain),
           "ucp_put");
    flush();
}

void Peer::get(size_t length)
{
    finish(ucp_.ucp_get_nbx(endpoint_, memory().address(), length, remote_, remote_key_, &kPlain),
           "ucp_get");
}

void Peer::send(size_t length)
{
    finish(ucp_.ucp_tag_send_nbx(endpoint_, memory().address(), length, kTag, &kPlain),
           "ucp_tag_send");
}

void Peer::receive(size_t length)
{
    finish(ucp_.ucp_tag_recv_nbx(worker_, memory().address(), length, kTag, ~ucp_tag_t{0}, &kPlain),
           "ucp_tag_recv");
}

double Peer::ping(size_t length, size_t count)
{
    send(length); // the first message connects
    receive(length);
    const auto begin = Clock::now();
    for (size_t i = 0; i < count; ++i) {
        send(length);
        receive(length);
    }
    return seconds_since(begin) / static_cast<double>(2 * count);
}

void Peer::pong(size_t length, size_t count)
{
    for (size_t i = 0; i <= count; ++i) {
        receive(length);
        send(length);
    }
}

double Peer::stream(double seconds)
{
    const auto first = Clock::now();
    put(memory().length());
    const double alone = seconds_since(first);
    if (alone >= seconds) {
        return static_cast<double>(memory().length()) / alone;
    }
    // Those under way at the end take no longer than that once more.
    const size_t most = std::min(kUnderWay, static_cast<size_t>(seconds / alone));
    const auto begin = Clock::now();
    std::array<ucs_status_ptr_t, kUnderWay> under_way{};
    size_t puts = 0;
    do {
        ucs_status_ptr_t& slot = under_way[puts++ % most];
        finish(slot, "ucp_put");
        slot = nullptr;
        slot = ucp_.ucp_put_nbx(endpoint_, memory().address(), memory().length(), remote_,
                                remote_key_, &kPlain);
    } while (seconds_since(begin) < seconds);
    for (ucs_status_ptr_t& slot : under_way) {
        finish(slot, "ucp_put");
    }
    flush();
    return static_cast<double>(puts * memory().length()) / seconds_since(begin);
}

void Peer::finish(ucs_status_ptr_t request, const char* call)
{
    if (!UCS_PTR_IS_PTR(request)) {
        ucp_.check(UCS_PTR_RAW_STATUS(request), call);
        return;
    }
    ucs_status_t status = UCS_INPROGRESS;
    for (const auto begin = Clock::now(); status == UCS_INPROGRESS;) {
        progress();
        status = ucp_.ucp_request_check_status(request);
        if (status == UCS_INPROGRESS && Clock::now() - begin > kPatience) {
            throw std::runtime_error(std::string(call) + " does not end");
        }
    }
    ucp_.ucp_request_free(request);
    ucp_.check(status, call);
}

void Peer::flush()
{
    finish(ucp_.ucp_ep_flush_nbx(endpoint_, &kPlain), "ucp_ep_flush");
}

void Peer::forget_remote()
{
    if (remote_key_ != nullptr) {
        ucp_.ucp_rkey_destroy(remote_key_);
        remote_key_ = nullptr;
    }
}

void Peer::forget_memory()
{
    if (handle_ != nullptr) {
        ucp_.ucp_mem_unmap(context_, handle_);
        handle_ = nullptr;
    }
    memory_.reset();
}

} // namespace gdr::peer
