// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What every GoogleTest program includes, precompiled (test/Makefile.inc), hence without a guard of
// its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
