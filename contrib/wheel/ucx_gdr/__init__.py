# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
"""GPUDirect RDMA for the UCX you already have: where the files of this package are."""

import os
import sys
from pathlib import Path

_root = Path(__file__).resolve().parent

command = _root / "bin/ucx-gdr"
library = _root / "lib/libuct_gdr.so.0"
module = _root / "lib/ucx-gdr/gdr_module.so"
emulated_hca = _root / "lib/ucx-gdr/libsofthca.so"
emulated_gpus = _root / "lib/ucx-gdr/softcuda"


def run_command():
    """Becomes the ucx-gdr command: what pip installs under that name."""
    os.execv("/bin/sh", ["sh", str(command), *sys.argv[1:]])
