# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# For a Spack repository of one's own (Spack 1.0 or later): packages/ucx_gdr/package.py, with
# ucx-gdr-VERSION.tar.xz of "make dist" in the directory in which spack is run:
# spack install --no-checksum ucx-gdr

import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class UcxGdr(AutotoolsPackage):
    """GPUDirect RDMA for a UCX that was built without CUDA."""

    url = "file://{0}/ucx-gdr-0.1.0.tar.xz".format(os.getcwd())
    manual_download = True

    license("BSD-3-Clause")

    version("0.1.0")

    variant("emulation", default=False, description="Emulated HCA and GPUs, which ucx-gdr run takes where none are")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("gmake", type="build")
    depends_on("llvm@14: +clang targets=nvptx", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cli11@2.1:", type="build")
    depends_on("nlohmann-json@3.9:", type="build")
    depends_on("ucx@1.13:")
    depends_on("rdma-core")
    depends_on("zlib-api")
    depends_on("cuda@11.7:", type="build")  # headers; its libcuda is the driver's, opened at run time

    conflicts("%gcc@:11", msg="C++20 is needed")

    def configure_args(self):
        return ["--with-cuda=" + self.spec["cuda"].prefix, *self.enable_or_disable("emulation")]

    # As the module file that is installed has it.
    def setup_run_environment(self, env):
        env.prepend_path("LD_PRELOAD", join_path(self.prefix.lib, "libgdr_mpi.so.0"))
        env.prepend_path("LD_PRELOAD", join_path(self.prefix.lib, "libuct_gdr.so.0"))
        env.set("UCX_GDR_TLS", "gdr,sm,self")
        env.set("OMPI_MCA_pml", "ucx")
        env.set("OMPI_MCA_osc", "ucx,sm")
        env.set("OMPI_MCA_opal_common_ucx_tls", "any")
        env.set("OMPI_MCA_opal_common_ucx_devices", "any")
