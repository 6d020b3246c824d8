// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A command to an open device: what the program and libmlx5 say in it, and what they are answered.
// Each structure has a part of libibverbs' and one of libmlx5's; libraries of other releases have
// shorter or longer ones, so what is missing reads as zero and what has no room is left out.
#pragma once

#include "emu/softmlx5/context.hpp"

#include <algorithm>
#include <cstring>

namespace softmlx5 {

struct Command {
    struct In {
        const void* start = nullptr;
        std::size_t length = 0;
    };
    struct Out {
        void* start = nullptr;
        std::size_t length = 0;
    };
    In in, driver_in;
    Out out, driver_out;

    template <class Request>
    Request request() const
    {
        return read<Request>(in);
    }
    template <class Request>
    Request driver_request() const
    {
        return read<Request>(driver_in);
    }
    template <class Response>
    void answer(const Response& response)
    {
        write(out, response);
    }
    template <class Response>
    void driver_answer(const Response& response)
    {
        write(driver_out, response);
    }

  private:
    template <class Request>
    static Request read(const In& from)
    {
        Request request = {};
        if (from.length != 0) {
            std::memcpy(static_cast<void*>(&request), from.start,
                        std::min(from.length, sizeof request));
        }
        return request;
    }
    template <class Response>
    static void write(const Out& to, const Response& response)
    {
        if (to.length != 0) {
            std::memcpy(to.start, &response, std::min(to.length, sizeof response));
        }
    }
};

// The commands, by what they are about. Each returns 0 or an errno; the caller has the adapter's
// lock.
int get_context(Context& context, Command& command);
int query_device(Context& context, Command& command);
int query_device_ex(Context& context, Command& command);
int query_port(Context& context, Command& command);

int alloc_pd(Context& context, Command& command);
int dealloc_pd(Context& context, Command& command);
int reg_mr(Context& context, Command& command);
int rereg_mr(Context& context, Command& command);
int dereg_mr(Context& context, Command& command);
int alloc_mw(Context& context, Command& command);
int dealloc_mw(Context& context, Command& command);

int create_ah(Context& context, Command& command);
int destroy_ah(Context& context, Command& command);

int create_comp_channel(Context& context, Command& command);
int create_cq(Context& context, Command& command);
int create_cq_ex(Context& context, Command& command);
int resize_cq(Context& context, Command& command);
int destroy_cq(Context& context, Command& command);

int create_srq(Context& context, Command& command);
int create_xsrq(Context& context, Command& command);
int modify_srq(Context& context, Command& command);
int query_srq(Context& context, Command& command);
int destroy_srq(Context& context, Command& command);

int create_qp(Context& context, Command& command);
int create_qp_ex(Context& context, Command& command);
int modify_qp(Context& context, Command& command);
int modify_qp_ex(Context& context, Command& command);
int query_qp(Context& context, Command& command);
int destroy_qp(Context& context, Command& command);
int attach_mcast(Context& context, Command& command);
int detach_mcast(Context& context, Command& command);

// What the commands about objects come to, of the verbs and of DEVX: 0 or an errno.
int make_cq(Context& context, const CqRequest& request, std::shared_ptr<CompletionChannel> channel,
            std::shared_ptr<AsyncChannel> async, std::uint32_t vector, Cq*& made);
int make_srq(Context& context, Pd& pd, const SrqRequest& request, Srq*& made);
int make_qp(Context& context, const QpRequest& request, Qp*& made);
// The events are those that the program has read.
int remove_cq(Context& context, std::uint32_t handle, ib_uverbs_destroy_cq_resp& events);
int remove_srq(Context& context, std::uint32_t handle, ib_uverbs_destroy_srq_resp& events);
int remove_qp(Context& context, std::uint32_t handle, ib_uverbs_destroy_qp_resp& events);

// Whether the adapter reaches the memory of a queue and of its record, as a thread of the process:
// 0 or an errno. What lies on a GPU it does not.
int check_queue(std::uint64_t queue, std::size_t bytes, std::uint64_t record);
int check_ring(std::uint64_t ring, std::size_t bytes); // without a record

// The completion channel with this descriptor; null: there is none.
std::shared_ptr<CompletionChannel> find_channel(int fd);
void keep_channel(std::shared_ptr<CompletionChannel> channel);

} // namespace softmlx5
