#!/usr/bin/env python3
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
"""Arrays of several sizes there and back with UCXX (pip install ucxx-cu13), every byte checked.

Each side in a process of its own, the server first:

    UCX_TLS=gdr,cuda_copy,tcp ucx-gdr run python echo_ucxx.py server PORT numpy
    UCX_TLS=gdr,cuda_copy,tcp ucx-gdr run python echo_ucxx.py client PORT numpy [HOST]

cupy instead of numpy takes GPU memory. UCXX wants "cuda" in UCX_TLS for that; tcp makes the connection.
UCXPY_PROGRESS_MODE chooses how UCXX makes progress (thread, blocking, polling).
"""
import asyncio
import importlib
import sys

import ucxx
import ucxx.utils

role, port, module = sys.argv[1], int(sys.argv[2]), sys.argv[3]
arrays = importlib.import_module(module)
sizes = [1, 8, 1024, 4097, 65536, 1 << 20, 8 << 20] * 3


def finish_on_gpu():
    if module == "cupy":
        arrays.cuda.get_current_stream().synchronize()


async def answer(endpoint, done):
    for size in sizes:
        array = arrays.empty(size, dtype=arrays.uint8)
        finish_on_gpu()
        await endpoint.recv(array)
        array ^= 0x5A
        finish_on_gpu()
        await endpoint.send(array)
    await endpoint.recv(arrays.empty(1, dtype=arrays.uint8))
    await endpoint.close()
    done.set()


async def serve():
    done = asyncio.Event()

    async def connected(endpoint):
        await answer(endpoint, done)

    listener = ucxx.create_listener(connected, port)
    print("listening", flush=True)
    await done.wait()
    listener.close()


async def ask(host):
    endpoint = await ucxx.create_endpoint(host, port)
    for number, size in enumerate(sizes):
        there = (arrays.arange(size) * 7 + number).astype(arrays.uint8)
        back = arrays.zeros(size, dtype=arrays.uint8)
        finish_on_gpu()
        await endpoint.send(there)
        await endpoint.recv(back)
        if not bool((back == (there ^ 0x5A)).all()):
            sys.exit(f"{size} bytes came back wrong")
    last = arrays.zeros(1, dtype=arrays.uint8)
    finish_on_gpu()
    await endpoint.send(last)
    await endpoint.close()
    print("all bytes right")


host = sys.argv[4] if len(sys.argv) > 4 else ucxx.utils.get_address()
asyncio.run(serve() if role == "server" else ask(host))
