// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A UCP context with one worker.
#include "worker.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <poll.h>
#include <sched.h>

#include "failure.hpp"
#include "report.hpp"

namespace ucptest {

namespace {

// Read with the prefix UCPTEST_PREFIX, and then given UCPTEST_CONFIG, a variable and its value.
ucp_config_t* configuration()
{
    ucp_config_t* config = nullptr;
    require_ok(ucp_config_read(std::getenv("UCPTEST_PREFIX"), nullptr, &config), "ucp_config_read");
    if (const char* given = std::getenv("UCPTEST_CONFIG")) {
        const std::string text = given;
        const size_t equals = text.find('=');
        require(equals != text.npos, "UCPTEST_CONFIG is no NAME=VALUE");
        require_ok(ucp_config_modify(config, text.substr(0, equals).c_str(),
                                     text.substr(equals + 1).c_str()),
                   "ucp_config_modify");
    }
    return config;
}

} // namespace

Worker::Worker(uint64_t features, bool wakeup)
{
    ucp_config_t* config = configuration();
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features | (wakeup ? UCP_FEATURE_WAKEUP : 0);
    const ucs_status_t status = ucp_init(&params, config, &context_);
    ucp_config_release(config);
    require_ok(status, "ucp_init");

    ucp_worker_params_t worker_params = {};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    require_ok(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
    if (wakeup) {
        require_ok(ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd");
    }
}

Worker::~Worker()
{
    if (worker_ != nullptr) {
        ucp_worker_destroy(worker_);
    }
    if (context_ != nullptr) {
        ucp_cleanup(context_);
    }
}

std::vector<uint8_t> Worker::address() const
{
    ucp_address_t* address = nullptr;
    size_t length = 0;
    require_ok(ucp_worker_get_address(worker_, &address, &length), "ucp_worker_get_address");
    const auto* bytes = reinterpret_cast<const uint8_t*>(address);
    std::vector<uint8_t> copy(bytes, bytes + length);
    ucp_worker_release_address(worker_, address);
    return copy;
}

void Worker::sleep(std::span<const int> fds, std::chrono::milliseconds limit)
{
    const ucs_status_t status = ucp_worker_arm(worker_);
    if (status == UCS_ERR_BUSY) {
        return;
    }
    require_ok(status, "ucp_worker_arm");
    std::vector<pollfd> polled{{event_fd_, POLLIN, 0}};
    for (int fd : fds) {
        polled.push_back({fd, POLLIN, 0});
    }
    poll(polled.data(), polled.size(), static_cast<int>(limit.count()) + 1);
}

bool Worker::wait_for(const std::function<bool()>& done, std::chrono::milliseconds limit,
                      std::span<const int> fds)
{
    const auto until = Clock::now() + limit;
    unsigned idle = 0;
    while (!done()) {
        if (ucp_worker_progress(worker_) != 0) {
            idle = 0;
            continue;
        }
        if (done()) {
            break;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        if (left.count() <= 0) {
            return false;
        }
        if (event_fd_ >= 0) {
            sleep(fds, left);
        } else if (++idle % 64 == 0) {
            sched_yield(); // there may be more ranks than processors
        }
    }
    return true;
}

void Worker::handle_am(unsigned id, ucp_am_recv_callback_t callback, void* arg, uint32_t flags)
{
    ucp_am_handler_param_t param = {};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = id;
    param.flags = flags;
    param.cb = callback;
    param.arg = arg;
    require_ok(ucp_worker_set_am_recv_handler(worker_, &param), "ucp_worker_set_am_recv_handler");
}

void Worker::wait(const std::function<bool()>& done, const std::string& what,
                  std::span<const int> fds)
{
    if (!wait_for(done, std::chrono::seconds(deadline_s()), fds)) {
        throw Failure(format("timed out after %u s: %s", deadline_s(), what.c_str()));
    }
}

} // namespace ucptest
