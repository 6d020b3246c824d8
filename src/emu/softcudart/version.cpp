// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Compiled once for each soname: the only part in which they differ.
#include "emu/softcudart/api.hpp"

const int softcudart::kVersion = SOFTCUDART_VERSION;
