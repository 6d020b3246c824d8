# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
"""Prints where the files of this package are."""

import ucx_gdr

for name, meaning in (
    ("command", "ucx-gdr run PROGRAM ..."),
    ("library", "for LD_PRELOAD"),
    ("module", "opened by the library when the process has a UCX"),
    ("emulated_hca", "for LD_PRELOAD, before the library"),
    ("emulated_gpus", "a directory for LD_LIBRARY_PATH"),
):
    print(f"{name:<14} {getattr(ucx_gdr, name)}  ({meaning})")
