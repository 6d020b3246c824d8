// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The results of a GoogleTest program in TAP, which Automake's driver reads, beside GoogleTest's
// own lines.
#pragma once

// Takes GoogleTest's arguments, runs the tests, and returns the exit status. A program that has a
// main() of its own calls it there; others are linked with tap_main.cpp.
int run_tests(int& argc, char** argv);
