// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A fence between any two operations, wherever they wait: for the connection, for resources, or not
// at all. What was issued before it is complete before what was issued after it begins: by the
// values that both see, and by the flags of the work requests, since an emulated HCA never begins a
// WRITE before the READ ahead of it has its data.
#include "rc_support.hpp"

#include "rc/endpoint.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace rc_test {
namespace {

constexpr uint64_t kInitial = 10;
constexpr uint64_t kPut = 20;

// The work requests that are posted by an interface's endpoints, in order.
class PostedSends {
  public:
    explicit PostedSends(uct_ep_h ep)
        : ep_(gdr::rc::endpoint(ep)), iface_(ep_.iface()), before_(ep_.posted())
    {
        posted_.clear();
        post_ = iface_.poster.post_by(record);
    }
    PostedSends(const PostedSends&) = delete;
    PostedSends& operator=(const PostedSends&) = delete;
    ~PostedSends() { iface_.poster.post_by(post_); }

    // Those in a chain, which the HCA has not been given yet, included.
    size_t count() const { return static_cast<gdr::rc::SequenceNumber>(ep_.posted() - before_); }

    // Whether what work requests [from, to) read has come before the one at to is begun.
    bool fenced(size_t from, size_t to) const
    {
        bool reads = false;
        for (size_t i = from; i <= to; ++i) {
            const ibv_send_wr& wr = posted_[i];
            if (wr.send_flags & IBV_SEND_FENCE) {
                reads = false;
            }
            reads = reads || (i < to && (wr.opcode == IBV_WR_RDMA_READ ||
                                         wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
                                         wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP));
        }
        return !reads;
    }

  private:
    static int record(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused)
    {
        for (const ibv_send_wr* each = wr; each != nullptr; each = each->next) {
            posted_.push_back(*each);
        }
        return post_(qp, wr, refused);
    }

    const gdr::rc::Endpoint& ep_;
    gdr::rc::Iface& iface_;
    const gdr::rc::SequenceNumber before_;
    static inline gdr::verbs::PostSend post_;
    static inline std::vector<ibv_send_wr> posted_;
};

// One operation on a word of the receiver's, and what it is to see and leave.
struct Step {
    const char* name;
    std::function<ucs_status_t(uint64_t* seen, Completion* done)> start;
    std::function<uint64_t(uint64_t word)> leaves;
    bool sees = false;    // the word that was there
    bool message = false; // an active message
    bool several = false; // work requests, each posted when the one before is complete
};

class Fence : public testing::Test {
  protected:
    enum class Way { kEndpoint, kInterface };

    Node sender{{{"TX_QUEUE_LEN", "16"}, {"TX_BUFFERS", "8"}}}, receiver;
    std::vector<Node*> nodes{&sender, &receiver};
    std::unique_ptr<Endpoint> ep = std::make_unique<Endpoint>(sender, receiver);
    uct_ep_h handle = *ep;
    alignas(8) uint64_t word = 0; // the receiver's
    uint64_t put = kPut;          // the sender's
    uint64_t got[2] = {};         // by a zero-copy get
    uint64_t at_message = 0;      // the word when an active message came
    Registered key{receiver, &word, sizeof(word)};
    Registered put_key{sender, &put, sizeof(put)};
    Registered got_key{sender, got, sizeof(got)};
    const uint64_t address = reinterpret_cast<uint64_t>(&word);

    static uint64_t unchanged(uint64_t value) { return value; }
    static uint64_t incremented(uint64_t value) { return value + 1; }
    static uint64_t overwritten(uint64_t) { return kPut; }
    static ucs_status_t posted(ssize_t status)
    {
        return status < 0 ? static_cast<ucs_status_t>(status) : UCS_OK;
    }

    std::vector<Step> steps()
    {
        return {
            {.name = "get_bcopy",
             .start =
                 [this](uint64_t* seen, Completion* done) {
                     auto unpack = [](void* to, const void* data, size_t length) {
                         memcpy(to, data, length);
                     };
                     return uct_ep_get_bcopy(handle, unpack, seen, sizeof(word), address,
                                             key.rkey(), done);
                 },
             .leaves = unchanged,
             .sees = true},
            {.name = "get_zcopy",
             .start =
                 [this](uint64_t* seen, Completion* done) {
                     uct_iov_t iov = got_key.piece(seen, sizeof(*seen));
                     return uct_ep_get_zcopy(handle, &iov, 1, address, key.rkey(), done);
                 },
             .leaves = unchanged,
             .sees = true},
            {.name = "atomic32_fetch, of several steps",
             .start =
                 [this](uint64_t* seen, Completion* done) {
                     return uct_ep_atomic32_fetch(handle, UCT_ATOMIC_OP_ADD, 1,
                                                  reinterpret_cast<uint32_t*>(seen), address,
                                                  key.rkey(), done);
                 },
             .leaves = incremented,
             .sees = true,
             .several = true},
            {.name = "atomic64_post, of several steps",
             .start =
                 [this](uint64_t*, Completion*) {
                     return uct_ep_atomic64_post(handle, UCT_ATOMIC_OP_XOR, 1, address, key.rkey());
                 },
             .leaves = [](uint64_t value) { return value ^ 1; },
             .several = true},
            {.name = "atomic64_fetch, native",
             .start =
                 [this](uint64_t* seen, Completion* done) {
                     return uct_ep_atomic64_fetch(handle, UCT_ATOMIC_OP_ADD, 1, seen, address,
                                                  key.rkey(), done);
                 },
             .leaves = incremented,
             .sees = true},
            {.name = "put_short",
             .start =
                 [this](uint64_t*, Completion*) {
                     return uct_ep_put_short(handle, &put, sizeof(put), address, key.rkey());
                 },
             .leaves = overwritten},
            {.name = "put_bcopy",
             .start =
                 [this](uint64_t*, Completion*) {
                     auto pack = [](void* to, void* from) {
                         memcpy(to, from, sizeof(uint64_t));
                         return sizeof(uint64_t);
                     };
                     return posted(uct_ep_put_bcopy(handle, pack, &put, address, key.rkey()));
                 },
             .leaves = overwritten},
            {.name = "put_zcopy",
             .start =
                 [this](uint64_t*, Completion* done) {
                     uct_iov_t iov = put_key.piece(&put, sizeof(put));
                     return uct_ep_put_zcopy(handle, &iov, 1, address, key.rkey(), done);
                 },
             .leaves = overwritten},
            {.name = "am_short",
             .start = [this](uint64_t*,
                             Completion*) { return uct_ep_am_short(handle, 1, 0, nullptr, 0); },
             .leaves = unchanged,
             .message = true},
            {.name = "am_bcopy",
             .start = [this](uint64_t*,
                             Completion*) { return posted(send_bcopy(handle, 1, "message")); },
             .leaves = unchanged,
             .message = true},
        };
    }

    void SetUp() override
    {
        receiver.keep_messages = false;
        receiver.on_message = [this] { at_message = word; };
    }

    void connect()
    {
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(*ep, 0, 0, nullptr, 0); }), UCS_OK);
        ASSERT_EQ(flush(nodes, *ep), UCS_OK);
    }

    void reconnect()
    {
        ep->destroy();
        ep = std::make_unique<Endpoint>(sender, receiver);
        handle = *ep;
    }

    // Takes all work requests or, so that something else lacks, all buffers.
    void use_up(bool buffers)
    {
        std::string text(1000, 'x');
        ucs_status_t status = UCS_OK;
        while (status == UCS_OK) {
            status = buffers ? posted(send_bcopy(handle, 2, text))
                             : uct_ep_put_short(handle, nullptr, 0, address, key.rkey());
        }
        ASSERT_EQ(status, UCS_ERR_NO_RESOURCE);
    }

    // One operation, at once or from the pending queue.
    struct Issued {
        Issued(Fence& test, const Step& operation, unsigned place)
            : step(operation), seen(&test.got[place]), test_(test), request_([this] {
                  ucs_status_t status = step.start(seen, &done);
                  if (status == UCS_ERR_NO_RESOURCE) {
                      return status;
                  }
                  if (status == UCS_OK) {
                      done.count = 0;
                  }
                  posted = true;
                  after = test_.sends->count();
                  return status == UCS_INPROGRESS ? UCS_OK : status;
              })
        {
        }
        void start()
        {
            while (request_.run() == UCS_ERR_NO_RESOURCE &&
                   uct_ep_pending_add(test_.handle, &request_, 0) != UCS_OK) {
            }
        }

        const Step& step;
        uint64_t* seen;
        Completion done;
        bool posted = false;
        size_t after = 0; // work requests, when it was posted

      private:
        Fence& test_;
        Waiting request_;
    };

    void check(const Step& before, const Step& after, Way way, const char* place,
               const std::function<void()>& prepare, bool wait_between)
    {
        SCOPED_TRACE(std::string(before.name) + ", " +
                     (way == Way::kEndpoint ? "ep_fence, " : "iface_fence, ") + after.name + ": " +
                     place);
        word = kInitial;
        got[0] = got[1] = at_message = 0;
        prepare();
        sends.emplace(handle);
        Issued first(*this, before, 0), second(*this, after, 1);
        first.start();
        ASSERT_EQ(way == Way::kEndpoint ? uct_ep_fence(handle, 0)
                                        : uct_iface_fence(sender.iface(), 0),
                  UCS_OK);
        if (wait_between) {
            ASSERT_TRUE(wait_until(nodes, [&] { return first.posted; }));
        }
        second.start();
        ASSERT_TRUE(wait_until(nodes, [&] { return first.done.done() && second.done.done(); }));
        ASSERT_EQ(flush(nodes, handle), UCS_OK);
        finish_posted();
        while (receiver.progress() != 0) {
        }
        if (!before.several) {
            EXPECT_TRUE(sends->fenced(first.after - 1, second.after - 1)) << "no fence";
        }
        sends.reset();
        uint64_t between = before.leaves(kInitial);
        if (before.sees) {
            EXPECT_EQ(got[0], kInitial) << "seen by the first";
        }
        if (after.sees) {
            EXPECT_EQ(got[1], between) << "seen by the second";
        }
        if (after.message) {
            EXPECT_EQ(at_message, between) << "when the message came";
        }
        EXPECT_EQ(word, after.leaves(between)) << "left";
        EXPECT_EQ(first.done.status, UCS_OK);
        EXPECT_EQ(second.done.status, UCS_OK);
    }

    void check_all(const char* place, const std::function<void()>& prepare,
                   bool wait_between = false)
    {
        for (const Step& before : steps()) {
            for (const Step& after : steps()) {
                for (Way way : {Way::kEndpoint, Way::kInterface}) {
                    check(before, after, way, place, prepare, wait_between);
                    if (HasFatalFailure()) {
                        return;
                    }
                }
            }
        }
    }

    std::optional<PostedSends> sends;
};

TEST_F(Fence, NothingWaits)
{
    connect();
    check_all("nothing waits", [] {});
}

TEST_F(Fence, BothWaitForTheConnection)
{
    check_all("both wait for the connection", [this] { reconnect(); });
}

TEST_F(Fence, BothWaitForWorkRequests)
{
    connect();
    check_all("both wait for work requests", [this] { use_up(false); });
}

TEST_F(Fence, TheFirstWaitsForBuffers)
{
    connect();
    check_all("the first waits for buffers", [this] { use_up(true); });
}

TEST_F(Fence, TheFirstWaitsForTheConnection)
{
    check_all(
        "the first waits for the connection", [this] { reconnect(); }, true);
}

TEST_F(Fence, TheFirstWaitsForWorkRequests)
{
    connect();
    check_all(
        "the first waits for work requests", [this] { use_up(false); }, true);
}

// A waiting request that fences what it has posted itself, ahead of others that wait.
TEST_F(Fence, OfAWaitingRequest)
{
    connect();
    Completion done;
    size_t after_get = 0, after_put = 0;
    uct_iov_t iov = got_key.piece(got, sizeof(got[0]));
    Waiting fencing([&] {
        if (after_get == 0) {
            ucs_status_t status = uct_ep_get_zcopy(handle, &iov, 1, address, key.rkey(), &done);
            if (status != UCS_INPROGRESS) {
                return status;
            }
            after_get = sends->count();
            EXPECT_EQ(uct_ep_fence(handle, 0), UCS_OK);
        }
        ucs_status_t status = uct_ep_put_short(handle, &put, sizeof(put), address, key.rkey());
        after_put = sends->count();
        return status;
    });
    Waiting next([&] { return uct_ep_am_short(handle, 1, 0, nullptr, 0); });
    use_up(false);
    sends.emplace(handle);
    ASSERT_EQ(uct_ep_pending_add(handle, &fencing, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(handle, &next, 0), UCS_OK);
    ASSERT_TRUE(wait_until(nodes, [&] { return done.done() && after_put != 0; }));
    EXPECT_TRUE(sends->fenced(after_get - 1, after_put - 1));
    EXPECT_EQ(flush(nodes, handle), UCS_OK);
}

// Requests that are given back leave the fences among them behind.
TEST_F(Fence, OfPurgedRequests)
{
    connect();
    Completion done;
    size_t after_get = 0;
    uct_iov_t iov = got_key.piece(got, sizeof(got[0]));
    Waiting get([&] {
        ucs_status_t status = uct_ep_get_zcopy(handle, &iov, 1, address, key.rkey(), &done);
        after_get = sends->count();
        return status == UCS_INPROGRESS ? UCS_OK : status;
    });
    Waiting never([] { return UCS_ERR_NO_RESOURCE; });
    use_up(false);
    sends.emplace(handle);
    ASSERT_EQ(uct_ep_pending_add(handle, &get, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(handle, &never, 0), UCS_OK);
    ASSERT_EQ(uct_ep_fence(handle, 0), UCS_OK);
    ASSERT_TRUE(wait_until(nodes, [&] { return after_get != 0; }));
    uct_ep_pending_purge(
        handle, [](uct_pending_req_t*, void*) {}, nullptr);
    ASSERT_EQ(
        retry(nodes,
              [&] { return uct_ep_put_short(handle, &put, sizeof(put), address, key.rkey()); }),
        UCS_OK);
    EXPECT_TRUE(sends->fenced(after_get - 1, sends->count() - 1));
    EXPECT_EQ(flush(nodes, handle), UCS_OK);
}

} // namespace
} // namespace rc_test
