// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "tap.hpp"

int main(int argc, char** argv)
{
    return run_tests(argc, argv);
}
