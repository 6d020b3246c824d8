// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Poisson's equation by Jacobi's method on GPUs (poisson.hpp), all sweeps in one CUDA graph with
// the messages between them: rank 0 and the others launch once, and their threads sleep until the
// end. MPI carries the addresses, and the solution, which rank 0 compares with what one CPU
// computes. Exits with 0 if they agree.
//
//   mpicxx -std=c++20 -O2 -I$CUDA_HOME/include sweeps.cpp -o sweeps -lucx-gdr -lucp -lucs -ldl
//   mpirun -n 4 ucx-gdr run ./sweeps [N] [SWEEPS]
#include "poisson.hpp"
#include "ucp.hpp"

#include <ctime>

namespace {

using poisson::Block;

class Solver {
  public:
    Solver(const poisson::Problem& problem)
        : block_(problem.block()), sweep_(block_, problem.source()),
          a_(std::vector<double>(block_.size())), b_(std::vector<double>(block_.size())),
          worker_(ucp::create_worker()), context_(worker_)
    {
        if (problem.above() != MPI_PROC_NULL) {
            above_ = ucp::connect(worker_, problem.above());
        }
        if (problem.below() != MPI_PROC_NULL) {
            below_ = ucp::connect(worker_, problem.below());
        }
        GPU_CALL(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
    }
    ~Solver() { GPU_CALL(cuGraphExecDestroy, graph_); }
    Solver(const Solver&) = delete;
    Solver& operator=(const Solver&) = delete;

    // All the program has to say, once.
    void capture(int sweeps)
    {
        GPU_CALL(cuStreamBeginCapture, stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        for (int i = 0; i < sweeps; ++i) {
            sweep_.enqueue(in_->data(), out_->data(), stream_);
            exchange_borders(out_->data());
            std::swap(in_, out_);
        }
        CUgraph graph;
        GPU_CALL(cuStreamEndCapture, stream_, &graph);
        GPU_CALL(cuGraphInstantiateWithFlags, &graph_, graph, 0ull);
        GPU_CALL(cuGraphDestroy, graph);
    }

    // One launch; the calling thread sleeps until its end.
    void run()
    {
        CUevent end;
        GPU_CALL(cuEventCreate, &end, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
        GPU_CALL(cuGraphLaunch, graph_, stream_);
        GPU_CALL(cuEventRecord, end, stream_);
        GPU_CALL(cuEventSynchronize, end);
        GPU_CALL(cuEventDestroy, end);
    }

    std::vector<double> solution() const { return in_->get(block_.size()); }
    bool by_kernel() const { return sweep_.by_kernel(); }

  private:
    // The rows at the block's borders go to the neighbours, theirs come in beside them, and the
    // stream goes on when all of that is done.
    void exchange_borders(double* data)
    {
        const ucp::Point point(context_, stream_);
        const ugdr_op_param_t there = point.param();
        const size_t bytes = block_.stride() * sizeof(double);
        std::vector<ugdr_request_h> requests;
        const auto exchange = [&](ucp_ep_h ep, double* own, ucp_tag_t to, double* theirs,
                                  ucp_tag_t from) {
            if (ep == nullptr) {
                return;
            }
            ugdr_request_h received, sent;
            ucp::check(
                ugdr_tag_recv(context_, theirs, bytes, from, ~ucp_tag_t{0}, &there, &received),
                "ugdr_tag_recv");
            ucp::check(ugdr_tag_send(context_, ep, own, bytes, to, &there, &sent), "ugdr_tag_send");
            requests.insert(requests.end(), {received, sent});
        };
        constexpr ucp_tag_t up = 1, down = 2;
        double* first = data + block_.stride();
        double* last = data + block_.rows * block_.stride();
        exchange(above_, first, up, data, down);
        exchange(below_, last, down, last + block_.stride(), up);
        ucp::check(ugdr_stream_wait(context_, stream_, requests.data(), requests.size()),
                   "ugdr_stream_wait");
        for (ugdr_request_h request : requests) {
            ugdr_request_free(request);
        }
    }

    const Block block_;
    poisson::StreamSweep sweep_;
    gpu::Buffer<double> a_, b_;
    gpu::Buffer<double>*in_ = &a_, *out_ = &b_;
    const ucp_worker_h worker_;
    const ucp::Context context_;
    ucp_ep_h above_ = nullptr, below_ = nullptr;
    CUstream stream_ = nullptr;
    CUgraphExec graph_ = nullptr;
};

double thread_seconds()
{
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    const poisson::Problem problem(argc > 1 ? std::atoi(argv[1]) : 256);
    const int sweeps = poisson::times(argc, argv, 100, "sweeps [N] [SWEEPS]");
    gpu::choose();

    int status;
    {
        Solver solver(problem);
        solver.capture(sweeps);
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime(), busy = thread_seconds();
        solver.run();
        const double seconds = MPI_Wtime() - start, own = thread_seconds() - busy;
        std::printf("rank %d: %.3f of %.3f ms on the CPU\n", problem.rank, 1e3 * own,
                    1e3 * seconds);
        status = problem.judge(solver.solution(), sweeps, seconds,
                               solver.by_kernel() ? "by kernel, in one launch"
                                                  : "by CPU, in one launch");
        MPI_Barrier(MPI_COMM_WORLD); // nobody leaves while others send
    }
    MPI_Finalize();
    return status;
}
