// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP operations of a process with itself, for callgrind: see counted.hpp.
#include "counted.hpp"

#include "../ucp/support/failure.hpp"
#include "../ucp/support/memory.hpp"
#include "../ucp/support/remote_memory.hpp"
#include "../ucp/support/worker.hpp"

#include <memory>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

namespace bench {
namespace {

using namespace ucptest;

constexpr const char* kUsage =
    "usage: ucp_counted TEST SIZE LOCAL REMOTE COUNT BATCH\n"
    "TEST: tag, am, put, get, fadd, cswap. LOCAL, REMOTE: kinds of memory: host, cuda. COUNT\n"
    "operations are counted, BATCH of them are posted before the first poll.\n";

class Operations {
  public:
    Operations(const std::string& test, size_t size, const std::string& local,
               const std::string& remote)
        : worker_(UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 |
                      UCP_FEATURE_AMO64,
                  false),
          local_(memory_kind(local), kMemory), remote_(memory_kind(remote), kMemory),
          exposed_(worker_, remote_), size_(size), operation_(find(test))
    {
        if (size > kMemory) {
            throw Failure("SIZE is at most " + std::to_string(kMemory));
        }
        worker_.handle_am(kId, on_am, this);
        const std::vector<uint8_t> address = worker_.address();
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        require_ok(ucp_ep_create(worker_.handle(), &params, &ep_), "ucp_ep_create");
        peer_ = std::make_unique<RemoteMemory>(ep_, exposed_.packed());
        param_.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param_.datatype = ucp_dt_make_contig(1);
        requests_.reserve(4096);
    }
    Operations(const Operations&) = delete;
    Operations& operator=(const Operations&) = delete;
    ~Operations()
    {
        peer_.reset();
        const ucp_request_param_t param = {};
        start(ucp_ep_close_nbx(ep_, &param));
        wait("the end of the endpoint");
    }

    // Operations that are posted before it is connected are queued.
    void connect()
    {
        const ucp_request_param_t param = {};
        start(ucp_ep_flush_nbx(ep_, &param));
        wait("the connection");
    }

    bool post()
    {
        (this->*operation_)();
        return true;
    }

    void progress()
    {
        ucp_worker_progress(worker_.handle());
        while (!requests_.empty() && ucp_request_check_status(requests_.back()) != UCS_INPROGRESS) {
            require_ok(ucp_request_check_status(requests_.back()), "an operation");
            ucp_request_free(requests_.back());
            requests_.pop_back();
        }
    }
    bool complete() const { return requests_.empty() && to_receive_ == 0; }

  private:
    using Operation = void (Operations::*)();
    static constexpr size_t kMemory = size_t{1} << 20;
    static constexpr unsigned kId = 5;
    static constexpr ucp_tag_t kTag = 1;

    Operation find(const std::string& test)
    {
        static constexpr struct {
            const char* test;
            Operation operation;
        } kOperations[] = {{"tag", &Operations::tag},   {"am", &Operations::am},
                           {"put", &Operations::put},   {"get", &Operations::get},
                           {"fadd", &Operations::fadd}, {"cswap", &Operations::cswap}};
        for (const auto& [name, operation] : kOperations) {
            if (test == name) {
                return operation;
            }
        }
        throw Failure("there is no " + test);
    }

    void start(ucs_status_ptr_t request)
    {
        if (UCS_PTR_IS_ERR(request)) {
            require_ok(UCS_PTR_STATUS(request), "an operation");
        }
        if (request != nullptr) {
            requests_.push_back(request);
        }
    }

    static ucs_status_t on_am(void* self, const void*, size_t, void* data, size_t length,
                              const ucp_am_recv_param_t* param)
    {
        auto& operations = *static_cast<Operations*>(self);
        --operations.to_receive_;
        if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
            operations.start(ucp_am_recv_data_nbx(operations.worker_.handle(), data,
                                                  operations.remote_.address(), length,
                                                  &operations.param_));
            return UCS_INPROGRESS;
        }
        return UCS_OK;
    }

    void wait(const char* what)
    {
        worker_.wait(
            [&] {
                progress();
                return complete();
            },
            what);
    }

    void tag()
    {
        start(ucp_tag_recv_nbx(worker_.handle(), remote_.address(), size_, kTag, ~0ULL, &param_));
        start(ucp_tag_send_nbx(ep_, local_.address(), size_, kTag, &param_));
    }
    void am()
    {
        ++to_receive_;
        start(ucp_am_send_nbx(ep_, kId, nullptr, 0, local_.address(), size_, &param_));
    }
    void put()
    {
        start(ucp_put_nbx(ep_, local_.address(), size_, peer_->address(0), peer_->rkey(), &param_));
    }
    void get()
    {
        start(ucp_get_nbx(ep_, local_.address(), size_, peer_->address(0), peer_->rkey(), &param_));
    }
    void atomic(ucp_atomic_op_t operation)
    {
        ucp_request_param_t param = {};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.datatype = ucp_dt_make_contig(size_);
        param.reply_buffer = local_.address();
        start(ucp_atomic_op_nbx(ep_, operation, &operand_, 1, peer_->address(0), peer_->rkey(),
                                &param));
    }
    void fadd() { atomic(UCP_ATOMIC_OP_ADD); }
    void cswap() { atomic(UCP_ATOMIC_OP_CSWAP); }

    Worker worker_;
    const Memory local_, remote_;
    ExposedMemory exposed_;
    ucp_ep_h ep_ = nullptr;
    std::unique_ptr<RemoteMemory> peer_;
    const size_t size_;
    const Operation operation_;
    ucp_request_param_t param_ = {};
    uint64_t operand_ = 1;
    uint64_t to_receive_ = 0;
    std::vector<void*> requests_;
};

} // namespace
} // namespace bench

int main(int argc, char** argv)
{
    using namespace bench;
    if (argc != 7) {
        std::fputs(kUsage, stderr);
        return 2;
    }
    try {
        open_gpu_for({argv[3], argv[4]});
        Operations operations(argv[1], std::stoul(argv[2]), argv[3], argv[4]);
        operations.connect();
        count_batches(operations, argv[5], argv[6]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ucp_counted: %s\n", error.what());
        return 1;
    }
    return 0;
}
