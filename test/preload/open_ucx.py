# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# A program that opens each UCX of its arguments by its files, locally, as a Python package does with the UCX that it
# brings: libucs, libuct and libucp, separated by commas. Prints whether gdr's components are in it, and ends well
# when a UCP context can be made. With --settings as the first argument it prints UCP's configuration too.
import ctypes
import os
import sys


class ComponentAttr(ctypes.Structure):  # uct_component_attr_t, with room
    _fields_ = [("field_mask", ctypes.c_uint64), ("name", ctypes.c_char * 16), ("rest", ctypes.c_uint64 * 16)]


class Params(ctypes.Structure):  # ucp_params_t, with room
    _fields_ = [("field_mask", ctypes.c_uint64), ("features", ctypes.c_uint64), ("rest", ctypes.c_uint64 * 32)]


def components(uct):
    found = ctypes.POINTER(ctypes.c_void_p)()
    count = ctypes.c_uint()
    assert uct.uct_query_components(ctypes.byref(found), ctypes.byref(count)) == 0
    for i in range(count.value):
        attr = ComponentAttr(field_mask=1)
        assert uct.uct_component_query(ctypes.c_void_p(found[i]), ctypes.byref(attr)) == 0
        yield attr.name.decode()


def use(files):
    ucs, uct, ucp = (ctypes.CDLL(file, mode=os.RTLD_LOCAL | os.RTLD_NOW) for file in files.split(","))
    config = ctypes.c_void_p()
    assert ucp.ucp_config_read(None, None, ctypes.byref(config)) == 0
    if sys.argv[1] == "--settings":
        stdout = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout")
        ucp.ucp_config_print(config, stdout, None, 1)  # UCS_CONFIG_PRINT_CONFIG
    major, minor, release = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    ucp.ucp_get_version(ctypes.byref(major), ctypes.byref(minor), ctypes.byref(release))
    context = ctypes.c_void_p()
    params = Params(field_mask=1, features=1)  # tag matching
    status = ucp.ucp_init_version(major.value, minor.value, ctypes.byref(params), config, ctypes.byref(context))
    assert status == 0, status
    print(" ".join(name for name in components(uct) if name.startswith("gdr")) or "none", flush=True)
    ucp.ucp_cleanup(context)


for argument in sys.argv[1:]:
    if argument != "--settings":
        use(argument)
