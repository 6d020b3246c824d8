// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The program, which starts itself again on the emulated HCA.
#include "../emu/preload.hpp"
#include "../tap.hpp"

#include <gtest/gtest.h>

int main(int argc, char** argv)
{
    setenv("SOFTHCA_DEVICES", "2", 1);
    setenv("UCX_PROTO_ENABLE", "y", 1); // the interface as it is without the needs of protocols v1
    run_on_emulated_hca(argv);
    return run_tests(argc, argv);
}
