// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The kernels of initiated_bench, for GPUs.
#include "initiators.hpp"

extern "C" __attribute__((global)) void bench_put_many(bench::Initiating with)
{
    bench::put_many(with);
}

extern "C" __attribute__((global)) void bench_put_and_quiet(bench::Initiating with)
{
    bench::put_and_quiet(with);
}

extern "C" __attribute__((global)) void bench_ping(bench::Initiating with)
{
    bench::exchange(with, true);
}

extern "C" __attribute__((global)) void bench_pong(bench::Initiating with)
{
    bench::exchange(with, false);
}

extern "C" __attribute__((global)) void bench_compute(bench::Computing with)
{
    bench::compute(with);
}
