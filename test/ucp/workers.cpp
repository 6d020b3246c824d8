// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_workers N: N workers of one context, of which each sends a message to the next one.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include "support/failure.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

constexpr ucp_tag_t kTag = 5;
constexpr size_t kLength = 1000;

class Workers {
  public:
    explicit Workers(unsigned count)
    {
        ucp_params_t params = {};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_TAG;
        ucp_config_t* config = nullptr;
        require_ok(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
        require_ok(ucp_init(&params, config, &context_), "ucp_init");
        ucp_config_release(config);
        for (unsigned i = 0; i < count; ++i) {
            const ucp_worker_params_t defaults = {};
            ucp_worker_h worker = nullptr;
            require_ok(ucp_worker_create(context_, &defaults, &worker),
                       "ucp_worker_create of worker " + std::to_string(i));
            workers_.push_back(worker);
        }
    }
    ~Workers()
    {
        for (ucp_worker_h worker : workers_) {
            ucp_worker_destroy(worker);
        }
        ucp_cleanup(context_);
    }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    void send_around()
    {
        for (size_t i = 0; i < workers_.size(); ++i) {
            send(workers_[i], workers_[(i + 1) % workers_.size()], static_cast<char>('a' + i));
        }
    }

  private:
    void send(ucp_worker_h from, ucp_worker_h to, char value)
    {
        ucp_address_t* address = nullptr;
        size_t length = 0;
        require_ok(ucp_worker_get_address(to, &address, &length), "ucp_worker_get_address");
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = address;
        ucp_ep_h ep = nullptr;
        require_ok(ucp_ep_create(from, &params, &ep), "ucp_ep_create");
        ucp_worker_release_address(to, address);
        std::array<char, kLength> sent, received{};
        sent.fill(value);
        const ucp_request_param_t none = {};
        wait(ucp_tag_send_nbx(ep, sent.data(), sent.size(), kTag, &none), "ucp_tag_send_nbx");
        wait(ucp_tag_recv_nbx(to, received.data(), received.size(), kTag, ~ucp_tag_t{0}, &none),
             "ucp_tag_recv_nbx");
        require(received == sent, "a message is wrong");
        wait(ucp_ep_close_nbx(ep, &none), "ucp_ep_close_nbx");
    }

    void wait(ucs_status_ptr_t request, const std::string& call)
    {
        if (!UCS_PTR_IS_PTR(request)) {
            return require_ok(UCS_PTR_RAW_STATUS(request), call);
        }
        const auto until = Clock::now() + std::chrono::seconds(deadline_s());
        while (ucp_request_check_status(request) == UCS_INPROGRESS && Clock::now() < until) {
            for (ucp_worker_h worker : workers_) {
                ucp_worker_progress(worker);
            }
        }
        require_ok(ucp_request_check_status(request), call);
        ucp_request_free(request);
    }

    ucp_context_h context_ = nullptr;
    std::vector<ucp_worker_h> workers_;
};

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    const unsigned count = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 2;
    ucptest::Report report("workers");
    report.begin(std::to_string(count) + " workers", 4 * ucptest::deadline_s());
    try {
        ucptest::Workers(count).send_around();
    } catch (const ucptest::Failure& failure) {
        report.failed(failure.what());
    }
    report.end();
    return report.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
