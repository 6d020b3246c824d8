# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# nixl_agents.py first|second DRAM|VRAM DIRECTORY: one of two NIXL agents over UCX, which tell each other by files in the
# directory where their memory is. The first writes a MiB to the second, and reads it back; each prints "first right" or
# "second right" if every byte is.
import ctypes
import os
import sys
import time

from nixl_cu13._api import nixl_agent, nixl_agent_config

SIZE = 1 << 20
role, kind, directory = sys.argv[1:]
other = "second" if role == "first" else "first"


def tell(name, data):
    path = os.path.join(directory, name)
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


def hear(name):
    path = os.path.join(directory, name)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return file.read()


class HostMemory:
    def __init__(self):
        self.bytes = ctypes.create_string_buffer(SIZE)
        self.address = ctypes.addressof(self.bytes)

    def write(self, data):
        ctypes.memmove(self.address, data, SIZE)

    def read(self):
        return self.bytes.raw


class GpuMemory:
    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(SIZE))
        self.address = address.value

    def call(self, name, *arguments):
        if result := getattr(self.driver, name)(*arguments):
            sys.exit(f"{name}: {result}")

    def write(self, data):
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), data, ctypes.c_size_t(SIZE))

    def read(self):
        data = ctypes.create_string_buffer(SIZE)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.address), ctypes.c_size_t(SIZE))
        return data.raw


def transfer(agent, operation, mine, theirs, peer):
    handle = agent.initialize_xfer(operation, mine, theirs, peer)
    state = agent.transfer(handle)
    while state not in ("DONE", "ERR"):
        state = agent.check_xfer_state(handle)
    agent.release_xfer_handle(handle)
    if state == "ERR":
        sys.exit(f"{operation} failed")


memory = GpuMemory() if kind == "VRAM" else HostMemory()
agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
agent.register_memory([(memory.address, SIZE, 0, "")], kind)
mine = agent.get_xfer_descs([(memory.address, SIZE, 0)], kind)
data = os.urandom(SIZE)
memory.write(data)
tell(role, agent.get_agent_metadata())
tell(role + ".memory", agent.get_serialized_descs(mine))
peer = agent.add_remote_agent(hear(other))
theirs = agent.deserialize_descs(hear(other + ".memory"))
if role == "first":
    transfer(agent, "WRITE", mine, theirs, peer)
    memory.write(bytes(SIZE))
    transfer(agent, "READ", mine, theirs, peer)
    right = memory.read() == data
    tell("data", data)
    hear("seen")
else:
    written = hear("data") # once all of it is there
    right = memory.read() == written
    tell("seen", b"")
print(role, "right" if right else "wrong", flush=True)
