// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The queues of an interface on a ConnectX: a completion queue, the shared receive queue and the
// send queues that complete there. Entries are written and read without libmlx5's help, which
// spares half of the instructions of a message; libmlx5 makes and destroys the objects. The
// functions have the signatures of libibverbs', and find the object in the context of the
// completion queue or of the shared receive queue.
//
// One thread at a time calls any of this.
#pragma once

#include "mlx5/completion_queue.hpp"
#include "mlx5/send_queue.hpp"
#include "mlx5/shared_receive_queue.hpp"

#include <memory>
#include <optional>
#include <vector>

#include <infiniband/verbs.h>

namespace gdr::mlx5 {

class Queues {
  public:
    // Takes the completion queue over. Throws verbs::Error.
    explicit Queues(ibv_cq* cq);
    Queues(const Queues&) = delete;
    Queues& operator=(const Queues&) = delete;

    // Takes over the only shared receive queue, to which nothing was posted. Throws verbs::Error.
    void add(ibv_srq* srq);

    // Takes over the send queue of a queue pair that has sent nothing. own_register: no other
    // thread writes to the doorbell register that libmlx5 has given it. Throws verbs::Error.
    void add(ibv_qp* qp, bool own_register);
    // Completions of what it has sent are not told any more.
    void remove(uint32_t qp_number);

    // ibv_post_send, ibv_post_srq_recv (one piece each), ibv_poll_cq.
    static int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused);
    static int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** refused);
    static int poll_cq(ibv_cq* cq, int most, ibv_wc* completions);

    // ibv_req_notify_cq; events: of the completion queue, since the last call.
    void arm(unsigned events) { cq_.arm(events); }

  private:
    // Numbers of queue pairs have 24 bits: a table of pages.
    static constexpr unsigned kPageBits = 12;
    struct Page {
        std::unique_ptr<SendQueue> queues[1 << kPageBits];

        std::unique_ptr<SendQueue>& of(uint32_t qp_number)
        {
            return queues[qp_number & ((1 << kPageBits) - 1)];
        }
    };

    SendQueue* find(uint32_t qp_number) const
    {
        Page* page = pages_[qp_number >> kPageBits].get();
        return page != nullptr ? page->of(qp_number).get() : nullptr;
    }
    void read_received(const mlx5_cqe64& entry, ibv_wc& completion);
    bool read(const mlx5_cqe64& entry, ibv_wc& completion);
    bool read_other(const mlx5_cqe64& entry, unsigned kind, uint16_t place, ibv_wc& completion);

    CompletionQueue cq_;
    std::optional<SharedReceiveQueue> srq_;
    std::vector<std::unique_ptr<Page>> pages_;
};

} // namespace gdr::mlx5
