// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Poisson's equation -(u_xx + u_yy) = 1 on the unit square, u = 0 on its border, by conjugate
// gradients on GPUs: N x N inner points, in blocks of rows, one a rank. In every iteration the
// ranks exchange the rows at their borders, out of GPU memory into GPU memory, and add up two dot
// products by MPI_Allreduce of a number in GPU memory, where kernels read it: no result comes to
// the host but the residual, every tenth iteration. At the end rank 0 gathers the solution and
// computes its residual. Exits with 0 if it is as small as was asked for.
//
//   mpicxx -std=c++20 -O2 -I$CUDA_HOME/include cg.cpp -o cg -ldl
//   mpirun -n 4 ucx-gdr run ./cg [N] [ITERATIONS AT MOST]
//
// A GPU computes by kernels, given as PTX, so that no CUDA compiler is needed. The emulated driver
// runs no such kernels: there the same arithmetic is done by the CPU, on copies.
#include <cmath>
#include <string>
#include <utility>

#include "poisson.hpp"

namespace {

constexpr double kTolerance = 1e-10; // of the residual, relative to the right side

using poisson::Block;
using Vector = gpu::Buffer<double>;

// out becomes 4 in less in's neighbours, of the inner points.
void apply_by_cpu(const Block& block, const double* in, double* out)
{
    for (unsigned row = 1; row <= block.rows; ++row) {
        for (unsigned column = 1; column <= block.columns; ++column) {
            const size_t at = row * block.stride() + column;
            const double vertical = in[at - block.stride()] + in[at + block.stride()];
            const double horizontal = in[at - 1] + in[at + 1];
            out[at] = 4 * in[at] - (vertical + horizontal);
        }
    }
}

// apply: a thread for each column, a row of thread blocks for each row. dot: one block of 256
// threads. combine: z = x + sign * (numerator / denominator) * y, a thread for each element.
std::string kernels()
{
    return std::string(poisson::kPtxVersion) +
           R"(
.visible .entry apply(.param .u32 columns, .param .u64 in, .param .u64 out)
)" + poisson::kPtxNeighbours +
           R"(    ld.global.f64 %f4, [%here];
    add.rn.f64 %f0, %f0, %f1;
    add.rn.f64 %f2, %f2, %f3;
    add.rn.f64 %f0, %f0, %f2;
    mul.rn.f64 %f4, %f4, 0d4010000000000000;
    sub.rn.f64 %f0, %f4, %f0;

    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    add.u64 %here, %out, %at;
    st.global.f64 [%here], %f0;
    ret;
}

.visible .entry dot(.param .u64 count, .param .u64 x, .param .u64 y, .param .u64 result)
{
    .shared .align 8 .f64 parts[256];
    .reg .pred %p;
    .reg .u32 %thread, %half, %mine, %other;
    .reg .u64 %i, %count, %x, %y, %at;
    .reg .f64 %sum, %f0, %f1;

    ld.param.u64 %count, [count];
    ld.param.u64 %x, [x];
    cvta.to.global.u64 %x, %x;
    ld.param.u64 %y, [y];
    cvta.to.global.u64 %y, %y;
    mov.u32 %thread, %tid.x;
    cvt.u64.u32 %i, %thread;
    mov.f64 %sum, 0d0000000000000000;
NEXT:
    setp.ge.u64 %p, %i, %count;
    @%p bra ADD;
    shl.b64 %at, %i, 3;
    add.u64 %at, %at, %x;
    ld.global.f64 %f0, [%at];
    shl.b64 %at, %i, 3;
    add.u64 %at, %at, %y;
    ld.global.f64 %f1, [%at];
    fma.rn.f64 %sum, %f0, %f1, %sum;
    add.u64 %i, %i, 256;
    bra NEXT;
ADD:
    mov.u32 %mine, parts;
    mad.lo.u32 %mine, %thread, 8, %mine;
    st.shared.f64 [%mine], %sum;
    mov.u32 %half, 128;
HALVE:
    bar.sync 0;
    setp.ge.u32 %p, %thread, %half;
    @%p bra HALVED;
    mad.lo.u32 %other, %half, 8, %mine;
    ld.shared.f64 %f0, [%other];
    add.rn.f64 %sum, %sum, %f0;
    st.shared.f64 [%mine], %sum;
HALVED:
    shr.u32 %half, %half, 1;
    setp.ne.u32 %p, %half, 0;
    @%p bra HALVE;

    setp.ne.u32 %p, %thread, 0;
    @%p ret;
    ld.param.u64 %at, [result];
    cvta.to.global.u64 %at, %at;
    st.global.f64 [%at], %sum;
    ret;
}

.visible .entry combine(.param .u64 count, .param .f64 sign, .param .u64 numerator,
                        .param .u64 denominator, .param .u64 x, .param .u64 y, .param .u64 z)
{
    .reg .pred %beyond;
    .reg .u32 %r<3>;
    .reg .u64 %i, %count, %at;
    .reg .f64 %f<4>;

    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.wide.u32 %i, %r0, %r1, 0;
    cvt.u64.u32 %at, %r2;
    add.u64 %i, %i, %at;
    ld.param.u64 %count, [count];
    setp.ge.u64 %beyond, %i, %count;
    @%beyond ret;
    shl.b64 %i, %i, 3;                  // bytes

    ld.param.u64 %at, [numerator];
    cvta.to.global.u64 %at, %at;
    ld.global.f64 %f0, [%at];
    ld.param.u64 %at, [denominator];
    cvta.to.global.u64 %at, %at;
    ld.global.f64 %f1, [%at];
    div.rn.f64 %f0, %f0, %f1;
    ld.param.f64 %f1, [sign];
    mul.rn.f64 %f0, %f0, %f1;

    ld.param.u64 %at, [x];
    cvta.to.global.u64 %at, %at;
    add.u64 %at, %at, %i;
    ld.global.f64 %f1, [%at];
    ld.param.u64 %at, [y];
    cvta.to.global.u64 %at, %at;
    add.u64 %at, %at, %i;
    ld.global.f64 %f2, [%at];
    fma.rn.f64 %f3, %f0, %f2, %f1;
    ld.param.u64 %at, [z];
    cvta.to.global.u64 %at, %at;
    add.u64 %at, %at, %i;
    st.global.f64 [%at], %f3;
    ret;
}
)";
}

// Arithmetic on a rank's vectors. Complete when it returns: what it wrote may be sent.
class Arithmetic {
  public:
    explicit Arithmetic(const Block& block) : block_(block)
    {
        CUmodule module;
        const CUresult result = GPU_TRY(cuModuleLoadData, &module, kernels().c_str());
        if (result == CUDA_ERROR_NOT_SUPPORTED) {
            return;
        }
        gpu::check(result, "cuModuleLoadData");
        GPU_CALL(cuModuleGetFunction, &apply_, module, "apply");
        GPU_CALL(cuModuleGetFunction, &dot_, module, "dot");
        GPU_CALL(cuModuleGetFunction, &combine_, module, "combine");
    }

    bool by_kernels() const { return apply_ != nullptr; }

    void apply(Vector& in, Vector& out) const
    {
        if (by_kernels()) {
            unsigned columns = block_.columns;
            double *from = in.data(), *to = out.data();
            void* arguments[] = {&columns, &from, &to};
            launch(apply_, blocks_of(columns), block_.rows, arguments);
        } else {
            std::vector<double> result = out.get(block_.size());
            apply_by_cpu(block_, in.get(block_.size()).data(), result.data());
            out.set(result);
        }
    }

    // Of this rank's rows alone.
    void dot(Vector& x, Vector& y, Vector& result) const
    {
        if (by_kernels()) {
            size_t count = block_.inner();
            double *a = inner(x), *b = inner(y), *to = result.data();
            void* arguments[] = {&count, &a, &b, &to};
            launch(dot_, 1, 1, arguments);
        } else {
            const std::vector<double> a = x.get(block_.size()), b = y.get(block_.size());
            double sum = 0;
            for (size_t i = block_.stride(); i < block_.stride() + block_.inner(); ++i) {
                sum += a[i] * b[i];
            }
            result.set({sum});
        }
    }

    // z = x + sign * (numerator / denominator) * y; z may be one of them.
    void combine(Vector& z, Vector& x, double sign, Vector& numerator, Vector& denominator,
                 Vector& y) const
    {
        if (by_kernels()) {
            size_t count = block_.inner();
            double *over = numerator.data(), *under = denominator.data();
            double *a = inner(x), *b = inner(y), *to = inner(z);
            void* arguments[] = {&count, &sign, &over, &under, &a, &b, &to};
            launch(combine_, blocks_of(count), 1, arguments);
        } else {
            const double factor = sign * numerator.get(1)[0] / denominator.get(1)[0];
            const std::vector<double> a = x.get(block_.size()), b = y.get(block_.size());
            std::vector<double> result = z.get(block_.size());
            for (size_t i = block_.stride(); i < block_.stride() + block_.inner(); ++i) {
                result[i] = a[i] + factor * b[i];
            }
            z.set(result);
        }
    }

  private:
    static constexpr unsigned kThreads = 256; // as dot has it

    static unsigned blocks_of(size_t count)
    {
        return static_cast<unsigned>((count + kThreads - 1) / kThreads);
    }
    double* inner(Vector& vector) const { return vector.data() + block_.stride(); }

    static void launch(CUfunction kernel, unsigned blocks, unsigned rows, void** arguments)
    {
        GPU_CALL(cuLaunchKernel, kernel, blocks, rows, 1, kThreads, 1, 1, 0, nullptr, arguments,
                 nullptr);
        GPU_CALL(cuCtxSynchronize);
    }

    const Block block_;
    CUfunction apply_ = nullptr, dot_ = nullptr, combine_ = nullptr;
};

void add_up(Vector& number)
{
    MPI_Allreduce(MPI_IN_PLACE, number.data(), 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

// The right side's inner points are all of this value.
std::vector<double> right_side(const Block& block, double value)
{
    std::vector<double> result(block.size());
    for (unsigned row = 1; row <= block.rows; ++row) {
        for (unsigned column = 1; column <= block.columns; ++column) {
            result[row * block.stride() + column] = value;
        }
    }
    return result;
}

double norm(const std::vector<double>& values)
{
    double sum = 0;
    for (double value : values) {
        sum += value * value;
    }
    return std::sqrt(sum);
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    const poisson::Problem problem(argc > 1 ? std::atoi(argv[1]) : 256);
    const int most = poisson::times(argc, argv, 10 * problem.n, "cg [N] [ITERATIONS AT MOST]");
    gpu::choose();

    const Block block = problem.block();
    const Arithmetic gpu(block);
    Vector solution(std::vector<double>(block.size())), product(std::vector<double>(block.size()));
    Vector residual(right_side(block, problem.source())),
        direction(right_side(block, problem.source()));
    Vector scalars[] = {Vector(1), Vector(1), Vector(1)};
    Vector *squared = &scalars[0], *squared_before = &scalars[1], &curvature = scalars[2];
    gpu.dot(residual, residual, *squared);
    add_up(*squared);
    const double first = squared->get(1)[0];

    int iterations = 0;
    double seconds = -MPI_Wtime();
    for (bool done = false; !done && iterations < most; ++iterations) {
        poisson::exchange_borders(block, direction.data(), problem.above(), problem.below());
        gpu.apply(direction, product);
        gpu.dot(direction, product, curvature);
        add_up(curvature);
        gpu.combine(solution, solution, 1, *squared, curvature, direction);
        gpu.combine(residual, residual, -1, *squared, curvature, product);
        std::swap(squared, squared_before);
        gpu.dot(residual, residual, *squared);
        add_up(*squared);
        gpu.combine(direction, residual, 1, *squared, *squared_before, direction);
        constexpr double kSafety = 0.1; // what is computed on the way differs from the residual
        if (iterations % 10 == 9) {
            done = squared->get(1)[0] <= std::pow(kSafety * kTolerance, 2) * first;
        }
    }
    seconds += MPI_Wtime();

    // The inner rows: sent from GPU memory, received in host memory.
    if (problem.rank > 0) {
        MPI_Send(solution.data() + block.stride(), static_cast<int>(block.inner()), MPI_DOUBLE, 0,
                 2, MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    const auto columns = static_cast<unsigned>(problem.n);
    const Block square{columns, columns};
    std::vector<double> all = solution.get(block.size());
    all.resize(square.size());
    for (int r = 1; r < problem.ranks; ++r) {
        MPI_Recv(&all[(problem.first_row(r) + 1) * square.stride()],
                 static_cast<int>(problem.block_of(r).inner()), MPI_DOUBLE, r, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    MPI_Finalize();

    for (size_t i = square.size() - square.stride(); i < square.size(); ++i) {
        all[i] = 0; // the border below
    }
    const std::vector<double> right = right_side(square, problem.source());
    std::vector<double> difference(square.size());
    apply_by_cpu(square, all.data(), difference.data());
    for (size_t i = 0; i < difference.size(); ++i) {
        difference[i] -= right[i];
    }
    const double relative = norm(difference) / norm(right);
    std::printf("%d x %d points by %s on %d ranks: %d iterations, %.3f ms each\n", problem.n,
                problem.n, gpu.by_kernels() ? "kernels" : "CPU", problem.ranks, iterations,
                1e3 * seconds / iterations);
    std::printf("residual, relative to the right side: %g%s\n", relative,
                relative <= kTolerance ? "" : ": too few iterations, it has not converged");
    return relative <= kTolerance ? 0 : 1;
}
