#!/usr/bin/env python3
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# PyTorch captures CUDA graphs in one thread, in each of CUDA's modes, while mpi4py exchanges CuPy
# arrays in another. Every capture must be good and every byte right. By hand, on a real GPU:
#
#     mpirun -np 2 ucx-gdr run python3 test/mpi/capture.py [CAPTURES]
#
# Needs PyTorch 2.1, CuPy and mpi4py.
import sys
import threading

import cupy
import numpy
import torch
from mpi4py import MPI

MODES = ("global", "thread_local", "relaxed")
SIZES = (8, 4096, 65536, 1 << 20, (3 << 20) + 5)
PLACES = (("gpu", "gpu"), ("host", "gpu"), ("gpu", "host"))

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
peer = 1 - rank
gpu = rank % torch.cuda.device_count()


class Capturing(threading.Thread):
    """Captures, launches and checks so many graphs."""

    def __init__(self, mode, captures):
        super().__init__()
        self.mode, self.wanted, self.good, self.error = mode, captures, 0, None
        self.begun = threading.Event()

    def run(self):
        torch.cuda.set_device(gpu)
        (torch.ones(1000, device=f"cuda:{gpu}") * 2 + 1).sum().item()  # loads the kernels
        try:
            for number in range(self.wanted):
                self.capture(number)
                self.good += 1
        except Exception as error:  # told by the main thread
            self.error = error
        finally:
            self.begun.set()

    def capture(self, number):
        source = torch.full((1000,), number, device=f"cuda:{gpu}")
        target = torch.zeros_like(source)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=self.mode):
            self.begun.set()
            for _ in range(200):
                target.copy_(source * 2 + 1)
        graph.replay()
        torch.cuda.synchronize()
        if not bool((target == 2 * number + 1).all()):
            raise RuntimeError("a graph computed something else")


def pattern(size, sender):
    return (numpy.arange(size) * 7 + 13 * sender + size).astype(numpy.uint8)


def buffers():
    """What is sent and what is received, for every size and place, not yet seen by MPI."""
    for size in SIZES:
        for near, far in PLACES:
            sent, received = pattern(size, rank), numpy.zeros(size, numpy.uint8)
            yield (
                cupy.asarray(sent) if near == "gpu" else sent,
                cupy.asarray(received) if far == "gpu" else received,
            )


def exchange(mode, captures):
    pairs = list(buffers())
    cupy.cuda.Device().synchronize()
    capturing = Capturing(mode, captures)
    capturing.start()
    capturing.begun.wait()
    exchanges = 0
    while comm.allreduce(int(capturing.is_alive())) > 0:
        for out, into in pairs:
            comm.Sendrecv([out, MPI.BYTE], peer, 0, [into, MPI.BYTE], peer, 0)
            exchanges += 1
    capturing.join()
    wrong = sum(
        not numpy.array_equal(cupy.asnumpy(into), pattern(into.size, peer)) for _, into in pairs
    )
    good = capturing.good == captures and wrong == 0
    print(
        f"rank {rank}, {mode}: {capturing.good} of {captures} captures good, {exchanges} exchanges,"
        f" {wrong} of {len(pairs)} buffers wrong"
        + (f": {capturing.error}" if capturing.error else ""),
        flush=True,
    )
    return good


def main():
    captures = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    if comm.Get_size() != 2:
        sys.exit("two ranks are needed")
    torch.cuda.set_device(gpu)
    cupy.cuda.Device(gpu).use()
    good = True
    for mode in MODES:
        good = exchange(mode, captures) and good
    sys.exit(0 if comm.allreduce(int(good), MPI.MIN) else 1)


main()
