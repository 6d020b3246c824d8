#!/usr/bin/env python3
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Every call of mpi4py that takes a buffer, on GPU memory.

"""mpirun -n RANKS ucx-gdr run mpi4py_calls.py [CALL]...: passes CuPy's arrays (where there is no CuPy, bare GPU memory with
__cuda_array_interface__) through every call of mpi4py that takes a buffer: point-to-point, partitioned, collective, non-blocking,
persistent, on neighbours, one-sided, packing, files. Each element is checked. Rank 0 prints a line for each call,
"ok", "FAILED", or "lacks" where mpi4py or the MPI below does not have it, and the sums. Exits with 1 where one failed.
"""

import ctypes
import itertools
import os
import sys
import tempfile
import traceback

import mpi4py

mpi4py.rc.threads = False
from mpi4py import MPI  # noqa: E402: after its settings

try:
    import cupy
except ImportError:
    cupy = None

COUNT = int(os.environ.get("MPI4PY_CALLS_COUNT", "3000"))  # integers in a block
world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
after, before = (rank + 1) % ranks, (rank - 1) % ranks
MPICH = MPI.get_vendor()[0] == "MPICH"


# ---- arrays of integers on a GPU


class Memory:
    """Integers in memory of cuMemAlloc, for as long as it lives."""

    def __init__(self, values):
        self.shape = (len(values),)
        self.address = ctypes.c_uint64()
        content = (ctypes.c_int * len(values))(*values)
        driver("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(ctypes.sizeof(content)))
        driver("cuMemcpyHtoD_v2", self.address, content, ctypes.c_size_t(ctypes.sizeof(content)))

    def __del__(self):
        driver("cuMemFree_v2", self.address)

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": "<i4", "data": (self.address.value, False), "version": 3}

    def tolist(self):
        content = (ctypes.c_int * self.shape[0])()
        driver("cuMemcpyDtoH_v2", content, self.address, ctypes.c_size_t(ctypes.sizeof(content)))
        return list(content)


def driver(function, *arguments):
    result = getattr(libcuda, function)(*arguments)
    if result != 0:
        raise RuntimeError(f"{function}: CUDA error {result}")


def choose_gpu():
    """The GPUs of the host in turn."""
    host = world.Split_type(MPI.COMM_TYPE_SHARED)
    mine = host.Get_rank()
    host.Free()
    if cupy is not None:
        cupy.cuda.Device(mine % cupy.cuda.runtime.getDeviceCount()).use()
        return None
    library = ctypes.CDLL("libcuda.so.1")
    count, context = ctypes.c_int(), ctypes.c_void_p()
    assert library.cuInit(0) == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), mine % count.value) == 0
    assert library.cuCtxSetCurrent(context) == 0
    return library


def gpu(values):
    if cupy is None:
        return Memory(list(values))
    array = cupy.asarray(list(values), dtype=cupy.int32)
    cupy.cuda.get_current_stream().synchronize()  # it may be copied in the stream
    return array


def mark(of_rank, count=None, start=0):
    """What a rank sends: its integers from start on."""
    first = 1000003 * (of_rank + 1) + start
    return range(first, first + (COUNT if count is None else count))


def zeros(count=None):
    return gpu(itertools.repeat(0, COUNT if count is None else count))


def content(array):
    return array.tolist()


def joined(parts):
    return [element for part in parts for element in part]


def summed(parts):
    return [sum(elements) & 0x7FFFFFFF for elements in zip(*parts)]


def small(of_rank, count=None, start=0):
    """Integers whose sums over the ranks fit."""
    return [i % 10007 + of_rank + start for i in range(COUNT if count is None else count)]


# ---- the calls: each case gives arguments and what arrays have to hold afterwards

cases = []  # (name, function that gives [(array, values)])


def case(name):
    return lambda function: cases.append((name, function))


SINCE_3 = {"Send_init", "Ssend_init", "Rsend_init", "Bsend_init", "Recv_init"}
# Open MPI 5 is an MPI 3 that has them.
HAS_PARTITIONED = MPI.Get_version() >= (4, 0) or (MPI.get_vendor()[0] == "Open MPI" and MPI.get_vendor()[1] >= (5, 0, 0))


def method(owner, name):
    """The method; NotImplementedError where mpi4py, or MPI by its version, does not have it."""
    found = getattr(owner, name, None)
    since_4 = name.startswith("Isendrecv") or (name.endswith("_init") and name not in SINCE_3)
    has_it = HAS_PARTITIONED if name in {"Psend_init", "Precv_init"} else not since_4 or MPI.Get_version() >= (4, 0)
    if found is None or not has_it:
        raise NotImplementedError
    return found


def persistently(request, times=2):
    for _ in range(times):
        request.Start()
        request.Wait()
    request.Free()


# Around the ring: a receive waits there already, but for the calls with Probe.


def send_ring(name, send):
    def run():
        out, into = gpu(mark(rank)), zeros()
        request = world.Irecv(into, before, 7)
        world.Barrier()  # for Rsend
        send(name, out)
        request.Wait()
        return [(into, mark(before))]

    cases.append((name, run))


def blocking(name, out):
    method(world, name)(out, after, 7)


def nonblocking(name, out):
    method(world, name)(out, after, 7).Wait()


def persistent_send(name, out):
    request = method(world, name)(out, after, 7)
    request.Start()
    request.Wait()
    request.Free()


def buffered(send):
    def run(name, out):
        room = zeros(COUNT + MPI.BSEND_OVERHEAD)
        MPI.Attach_buffer(room)
        try:
            send(name, out)
        finally:
            MPI.Detach_buffer()

    return run


for kind in ("Send", "Ssend", "Rsend"):
    send_ring(kind, blocking)
    send_ring(("I" + kind).replace("IS", "Is").replace("IR", "Ir"), nonblocking)
    send_ring(kind + "_init", persistent_send)
send_ring("Bsend", buffered(blocking))
send_ring("Ibsend", buffered(nonblocking))
send_ring("Bsend_init", buffered(persistent_send))


def receive_ring(name, receive):
    def run():
        out, into = gpu(mark(rank)), zeros()
        request = world.Isend(out, after, 7)
        receive(into)
        request.Wait()
        return [(into, mark(before))]

    cases.append((name, run))


receive_ring("Recv", lambda into: world.Recv(into, before, 7))
receive_ring("Irecv", lambda into: world.Irecv(into, before, 7).Wait())
receive_ring("Probe", lambda into: (world.Probe(before, 7), world.Recv(into, before, 7)))
receive_ring("Mprobe and Recv", lambda into: world.Mprobe(before, 7).Recv(into))
receive_ring("Mprobe and Irecv", lambda into: world.Mprobe(before, 7).Irecv(into).Wait())


@case("Recv_init")
def receive_persistently():
    out, into = gpu(mark(rank)), zeros()
    request = world.Recv_init(into, before, 7)
    for _ in range(2):
        request.Start()
        world.Send(out, after, 7) if rank % 2 else world.Isend(out, after, 7).Wait()
        request.Wait()
    request.Free()
    return [(into, mark(before))]


@case("Startall and Waitall")
def start_all():
    out, into = gpu(mark(rank)), zeros()
    requests = [world.Recv_init(into, before, 7), world.Send_init(out, after, 7)]
    for _ in range(2):
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
    for request in requests:
        request.Free()
    return [(into, mark(before))]


def send_and_receive(name, finish):
    def run():
        out, into = gpu(mark(rank)), zeros()
        finish(method(world, name)(out, after, 7, into, before, 7))
        return [(into, mark(before))]

    cases.append((name, run))


def replace(name, finish):
    def run():
        both = gpu(mark(rank))
        finish(method(world, name)(both, after, 7, before, 7))
        return [(both, mark(before))]

    cases.append((name, run))


send_and_receive("Sendrecv", lambda _: None)
send_and_receive("Isendrecv", lambda request: request.Wait())
replace("Sendrecv_replace", lambda _: None)
replace("Isendrecv_replace", lambda request: request.Wait())


# In partitions that become ready in another order.

PARTITIONS = 4


def partitioned(ready, wait=lambda receive, into: []):
    out, into = gpu(mark(rank, PARTITIONS * COUNT)), zeros(PARTITIONS * COUNT)
    receive = method(world, "Precv_init")(into, PARTITIONS, before, 7)
    send = method(world, "Psend_init")(out, PARTITIONS, after, 7)
    seen = []
    for _ in range(2):
        MPI.Prequest.Startall([receive, send])
        ready(send)
        seen = seen or wait(receive, into)
        MPI.Request.Waitall([receive, send])
    receive.Free()
    send.Free()
    return [(into, mark(before, PARTITIONS * COUNT)), *seen]


def each_ready(send):
    for partition in reversed(range(PARTITIONS)):
        send.Pready(partition)


def each_arrived(receive, into):
    """What is there of each partition when it has arrived for the first time."""
    seen = []
    for partition in range(PARTITIONS):
        while not receive.Parrived(partition):
            pass
        start = partition * COUNT
        seen.append((content(into)[start : start + COUNT], mark(before, COUNT, start)))
    return seen


case("Psend_init, Precv_init and Pready")(lambda: partitioned(each_ready))
case("Pready_range")(lambda: partitioned(lambda send: (send.Pready_range(2, 3), send.Pready_range(0, 1))))
case("Pready_list")(lambda: partitioned(lambda send: send.Pready_list([3, 0, 2, 1])))
case("Parrived")(lambda: partitioned(each_ready, each_arrived))


@case("Send of a vector")
def vector():
    kind = MPI.INT.Create_vector(COUNT, 1, 2).Commit()
    out, into = gpu(mark(rank, 2 * COUNT)), zeros(2 * COUNT)
    world.Sendrecv([out, 1, kind], after, 7, [into, 1, kind], before, 7)
    kind.Free()
    return [(into, [value if i % 2 == 0 else 0 for i, value in enumerate(mark(before, 2 * COUNT))])]


# Collective calls: the blocking one, the non-blocking one and the persistent one get the same.


def collective(name, prepare, comm=lambda: world):
    small_name = "I" + name[0].lower() + name[1:]

    def run(call):
        def checked():
            on = comm()
            arguments, expected = prepare()
            call(on, arguments)
            if on != world:
                on.Free()
            return expected

        return checked

    cases.append((name, run(lambda on, arguments: method(on, name)(*arguments))))
    cases.append((small_name, run(lambda on, arguments: method(on, small_name)(*arguments).Wait())))
    cases.append((name + "_init", run(lambda on, arguments: persistently(method(on, name + "_init")(*arguments)))))


def bcast():
    both = gpu(mark(rank)) if rank == ranks - 1 else zeros()
    return (both, ranks - 1), [(both, mark(ranks - 1))]


# Blocks of v and w calls: rank r's have r + 1 rows, each starts a row after the one before.
ROW = max(1, COUNT // 16)
counts = [ROW * (r + 1) for r in range(ranks)]
places = list(itertools.accumulate([0] + [count + ROW for count in counts[:-1]]))
ALL = places[-1] + counts[-1]


def spread(parts):
    """The parts at their places, 0 between them."""
    values = [0] * ALL
    for place, part in zip(places, parts):
        values[place : place + len(part)] = part
    return values


def root_only(array):
    return array if rank == 0 else None


def gather():
    out, into = gpu(mark(rank)), zeros(COUNT * ranks)
    return (out, root_only(into), 0), [(into, joined(mark(r) for r in range(ranks)) if rank == 0 else [0] * COUNT * ranks)]


def gatherv():
    out, into = gpu(mark(rank, counts[rank])), zeros(ALL)
    filled = spread([mark(r, counts[r]) for r in range(ranks)])
    return (out, root_only([into, counts, places, MPI.INT]), 0), [(into, filled if rank == 0 else [0] * ALL)]


def scatter():
    out, into = gpu(mark(0, COUNT * ranks)), zeros()
    return (root_only(out), into, 0), [(into, mark(0, COUNT, rank * COUNT))]


def scatterv():
    out, into = gpu(spread([mark(0, counts[r], r) for r in range(ranks)])), zeros(counts[rank])
    return (root_only([out, counts, places, MPI.INT]), into, 0), [(into, mark(0, counts[rank], rank))]


def allgather():
    out, into = gpu(mark(rank)), zeros(COUNT * ranks)
    return (out, into), [(into, joined(mark(r) for r in range(ranks)))]


def allgatherv():
    out, into = gpu(mark(rank, counts[rank])), zeros(ALL)
    return (out, [into, counts, places, MPI.INT]), [(into, spread([mark(r, counts[r]) for r in range(ranks)]))]


def alltoall():
    out, into = gpu(mark(rank, COUNT * ranks)), zeros(COUNT * ranks)
    return (out, into), [(into, joined(mark(r, COUNT, rank * COUNT) for r in range(ranks)))]


def alltoallv():  # counts[r] integers to r, counts[rank] from each
    even = [counts[rank]] * ranks
    out = gpu(spread([mark(rank, counts[r], r) for r in range(ranks)]))
    into = zeros(counts[rank] * ranks)
    return ([out, counts, places, MPI.INT], [into, even, [counts[rank] * r for r in range(ranks)], MPI.INT]), [
        (into, joined(mark(r, counts[rank], rank) for r in range(ranks)))
    ]


def alltoallw():
    even, types = [counts[rank]] * ranks, [MPI.INT] * ranks
    out = gpu(spread([mark(rank, counts[r], r) for r in range(ranks)]))
    into = zeros(counts[rank] * ranks)
    sides = [out, counts, [4 * at for at in places], types], [into, even, [4 * counts[rank] * r for r in range(ranks)], types]
    return sides, [(into, joined(mark(r, counts[rank], rank) for r in range(ranks)))]


def reduce():
    out, into = gpu(small(rank)), zeros()
    return (out, root_only(into), MPI.SUM, 0), [(into, summed(small(r) for r in range(ranks)) if rank == 0 else [0] * COUNT)]


def allreduce():
    out, into = gpu(small(rank)), zeros()
    return (out, into, MPI.SUM), [(into, summed(small(r) for r in range(ranks)))]


def allreduce_by_user():
    def add(first, second, _):
        a, b = memoryview(first).cast("i"), memoryview(second).cast("i")
        for i, value in enumerate(a):
            b[i] += value

    out, into = gpu(small(rank)), zeros()
    operation = MPI.Op.Create(add, commute=True)
    world.Allreduce(out, into, operation)
    operation.Free()
    return [(into, summed(small(r) for r in range(ranks)))]


def scan():
    out, into = gpu(small(rank)), zeros()
    return (out, into, MPI.SUM), [(into, summed(small(r) for r in range(rank + 1)))]


def exscan():
    out, into = gpu(small(rank)), zeros()
    return (out, into, MPI.SUM), ([(into, summed(small(r) for r in range(rank)))] if rank else [])


def reduce_scatter_block():
    out, into = gpu(small(rank, COUNT * ranks)), zeros()
    mine = summed(small(r, COUNT * ranks) for r in range(ranks))[rank * COUNT : (rank + 1) * COUNT]
    return (out, into, MPI.SUM), [(into, mine)]


def reduce_scatter():
    out, into = gpu(small(rank, sum(counts))), zeros(counts[rank])
    start = sum(counts[:rank])
    mine = summed(small(r, sum(counts)) for r in range(ranks))[start : start + counts[rank]]
    return (out, into, counts, MPI.SUM), [(into, mine)]


for function in (bcast, gather, gatherv, scatter, scatterv, allgather, allgatherv, alltoall, alltoallv, alltoallw,
                 reduce, allreduce, scan, exscan, reduce_scatter_block, reduce_scatter):  # fmt: skip
    collective(function.__name__.capitalize(), function)
cases.append(("Allreduce with an operation in Python", allreduce_by_user))


@case("Allreduce in place")
def allreduce_in_place():
    both = gpu(small(rank))
    world.Allreduce(MPI.IN_PLACE, both, MPI.SUM)
    return [(both, summed(small(r) for r in range(ranks)))]


@case("Allgather in place")
def allgather_in_place():
    both = gpu([0] * COUNT * rank + list(mark(rank)) + [0] * COUNT * (ranks - rank - 1))
    world.Allgather(MPI.IN_PLACE, both)
    return [(both, joined(mark(r) for r in range(ranks)))]


# On a ring of neighbours, the one before first.


def ring():
    return world.Create_cart([ranks], periods=[True])


def neighbor_allgather():
    out, into = gpu(mark(rank)), zeros(2 * COUNT)
    return (out, into), [(into, joined([mark(before), mark(after)]))]


def neighbor_allgatherv():
    out, into = gpu(mark(rank)), zeros(3 * COUNT)
    return (out, [into, [COUNT] * 2, [0, 2 * COUNT], MPI.INT]), [
        (into, joined([mark(before), [0] * COUNT, mark(after)]))
    ]


# To the one before: the first block; a ring of one or two has the same rank on both sides, whose blocks cross.
FROM_BEFORE, FROM_AFTER = (COUNT, 0)


def neighbor_alltoall():
    out, into = gpu(mark(rank, 2 * COUNT)), zeros(2 * COUNT)
    return (out, into), [(into, joined([mark(before, COUNT, FROM_BEFORE), mark(after, COUNT, FROM_AFTER)]))]


def neighbor_alltoallv():
    out, into = gpu(mark(rank, 2 * COUNT)), zeros(3 * COUNT)
    sides = [out, [COUNT] * 2, [0, COUNT], MPI.INT], [into, [COUNT] * 2, [0, 2 * COUNT], MPI.INT]
    return sides, [
        (into, joined([mark(before, COUNT, FROM_BEFORE), [0] * COUNT, mark(after, COUNT, FROM_AFTER)]))
    ]


def neighbor_alltoallw():
    out, into = gpu(mark(rank, 2 * COUNT)), zeros(3 * COUNT)
    types = [MPI.INT] * 2
    sides = [out, [COUNT] * 2, [0, 4 * COUNT], types], [into, [COUNT] * 2, [0, 8 * COUNT], types]
    return sides, [
        (into, joined([mark(before, COUNT, FROM_BEFORE), [0] * COUNT, mark(after, COUNT, FROM_AFTER)]))
    ]


# With fewer than three ranks libraries differ in which of a pair's two blocks is whose.
if ranks > 2:
    for function in (neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv, neighbor_alltoallw):
        collective(function.__name__.capitalize(), function, ring)


# One-sided: the next rank's window, in GPU memory (with MPICH in host memory where the target's CPU applies an
# operation).


class Window:
    def __init__(self, values, applied=False):
        self.on_host = applied and MPICH
        if self.on_host:
            self.memory = (ctypes.c_int * len(values))(*values)
        else:
            self.memory = gpu(values)
        self.window = MPI.Win.Create(self.memory, 4, MPI.INFO_NULL, world)
        self.window.Lock_all()

    def close(self):
        self.window.Unlock_all()
        world.Barrier()
        values = list(self.memory) if self.on_host else content(self.memory)
        self.window.Free()
        return values


def one_sided(name, act, applied=False):
    """act(window, out, into) gives what into and the own window have to hold."""

    def run():
        out, into = gpu(small(rank, None, 5)), zeros()
        window = Window(small(rank), applied)
        method(window.window, name)
        world.Barrier()
        expected_into, expected_window = act(window.window, out, into)
        window.window.Flush_all()
        found = window.close()
        return [(into, expected_into), (found, expected_window)]

    cases.append((name, run))


NOTHING = [0] * COUNT


def put(window, out, _):
    window.Put(out, after)
    return NOTHING, small(before, None, 5)


def rput(window, out, _):
    window.Rput(out, after).Wait()
    return NOTHING, small(before, None, 5)


def get(window, _, into):
    window.Get(into, after)
    window.Flush(after)
    return small(after), small(rank)


def rget(window, _, into):
    window.Rget(into, after).Wait()
    return small(after), small(rank)


def applied_once():
    return summed([small(rank), small(before, None, 5)])


def accumulate(window, out, _):
    window.Accumulate(out, after, op=MPI.SUM)
    return NOTHING, applied_once()


def raccumulate(window, out, _):
    window.Raccumulate(out, after, op=MPI.SUM).Wait()
    return NOTHING, applied_once()


def get_accumulate(window, out, into):
    window.Get_accumulate(out, into, after, op=MPI.SUM)
    window.Flush(after)
    return small(after), applied_once()


def rget_accumulate(window, out, into):
    window.Rget_accumulate(out, into, after, op=MPI.SUM).Wait()
    return small(after), applied_once()


def fetch_and_op(window, out, into):
    window.Fetch_and_op([out, 1, MPI.INT], [into, 1, MPI.INT], after, 0, MPI.SUM)
    window.Flush(after)
    return small(after)[:1] + NOTHING[1:], applied_once()[:1] + small(rank)[1:]


def compare_and_swap(window, out, into):
    expected = gpu(small(after)[:1])
    window.Compare_and_swap([out, 1, MPI.INT], [expected, 1, MPI.INT], [into, 1, MPI.INT], after, 0)
    window.Flush(after)
    return small(after)[:1] + NOTHING[1:], small(before, None, 5)[:1] + small(rank)[1:]


for function in (put, rput, get, rget):
    one_sided(function.__name__.capitalize(), function)
for function in (accumulate, raccumulate, get_accumulate, rget_accumulate, fetch_and_op, compare_and_swap):
    one_sided(function.__name__.capitalize(), function, applied=True)


# Packing, and reducing in one rank.


@case("Pack and Unpack")
def pack():
    out, packed, into = gpu(mark(rank)), zeros(COUNT + 100), zeros()
    MPI.INT.Pack(out, packed, 0, world)
    MPI.INT.Unpack(packed, 0, into, world)
    return [(into, mark(rank))]


@case("Pack_external and Unpack_external")
def pack_external():
    out, packed, into = gpu(mark(rank)), zeros(), zeros()
    MPI.INT.Pack_external("external32", out, packed, 0)
    MPI.INT.Unpack_external("external32", packed, 0, into)
    swapped = [int.from_bytes(value.to_bytes(4, "big"), "little", signed=True) for value in mark(rank)]
    return [(packed, swapped), (into, mark(rank))]


@case("Reduce_local")
def reduce_local():
    first, second = gpu(small(1)), gpu(small(2))
    MPI.SUM.Reduce_local(first, second)
    return [(second, summed([small(1), small(2)]))]


# Files: each rank writes a block and reads it, or, where the order is not given, somebody's.

BYTES = 4 * COUNT


class File:
    def __enter__(self):
        self.name = world.bcast(tempfile.mktemp(prefix="mpi4py_calls.") if rank == 0 else None)
        self.file = MPI.File.Open(world, self.name, MPI.MODE_CREATE | MPI.MODE_RDWR)
        return self.file

    def __exit__(self, *_):
        self.file.Close()
        if rank == 0:
            os.unlink(self.name)


def complete(result):
    if isinstance(result, MPI.Request):
        result.Wait()


def in_file(name, begin_end=False):
    """A call that writes, and its counterpart that reads."""
    read_name = name.replace("Write", "Read").replace("write", "read")
    shared = "shared" in name or "ordered" in name

    def call(file, which, array, offset):
        if begin_end:
            method(file, which + "_begin")(*offset, array)
            method(file, which + "_end")(array)
        else:
            complete(method(file, which)(*offset, array))

    def run():
        out, into = gpu(mark(rank)), zeros()
        offset = [rank * BYTES] if "_at" in name else []
        with File() as file:
            for which, array in ((name, out), (read_name, into)):
                if shared:
                    file.Seek_shared(0)
                elif not offset:
                    file.Seek(rank * BYTES)
                call(file, which, array, offset)
                file.Sync()
                world.Barrier()
        if "shared" not in name:
            return [(into, mark(rank))]
        first = content(into)[0]
        writers = world.allgather(first // 1000003 - 1)
        return [(writers if rank else sorted(writers), writers if rank else list(range(ranks))), (into, mark(first // 1000003 - 1))]

    ends = "_begin and _end" if begin_end else ""
    cases.append((f"{name}{ends} and {read_name}{ends}", run))


for name in ("", "_at", "_all", "_at_all", "_shared"):
    in_file("Write" + name)
    in_file("Iwrite" + name)
in_file("Write_ordered")
for name in ("_all", "_at_all", "_ordered"):
    in_file("Write" + name, begin_end=True)


# ---- all of them

def lacking(error):
    return isinstance(error, NotImplementedError) or (
        isinstance(error, MPI.Exception) and error.Get_error_class() == MPI.ERR_UNSUPPORTED_OPERATION
    )


def outcome(run):
    """ "ok", "lacks", or what is wrong."""
    try:
        checks = run()
    except (NotImplementedError, MPI.Exception) as error:
        if lacking(error):
            return "lacks"
        traceback.print_exc()
        return f"rank {rank}: {error}"
    for array, expected in checks:
        found = array if isinstance(array, list) else content(array)
        expected = list(expected)
        if found != expected:
            at = next((i for i, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), -1)
            return f"rank {rank}: element {at} of {len(found)} is {found[at]}, not {expected[at]}"
    return "ok"


def main():
    chosen = [(name, run) for name, run in cases if not sys.argv[1:] or name in sys.argv[1:]]
    sums = {"ok": 0, "lacks": 0, "FAILED": 0}
    for name, run in chosen:
        outcomes = set(world.allgather(outcome(run)))
        result = outcomes.pop() if len(outcomes) == 1 and outcomes <= {"ok", "lacks"} else "FAILED"
        sums[result] += 1
        if rank == 0:
            print(f"{result}: {name}" + "".join(f"\n    {each}" for each in sorted(outcomes) if each != "ok"), flush=True)
    if rank == 0:
        arrays = f"CuPy {cupy.__version__}" if cupy else "__cuda_array_interface__"
        print(f"{sums['ok']} ok, {sums['FAILED']} failed, {sums['lacks']} lacking; {ranks} ranks, {arrays}, "
              f"mpi4py {mpi4py.__version__}, {MPI.Get_library_version().split(',')[0]}")  # fmt: skip
    return 1 if sums["FAILED"] else 0


libcuda = choose_gpu()
if __name__ == "__main__":
    sys.exit(main())
