// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the fuzz targets share.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fuzzer/FuzzedDataProvider.h>

namespace fuzz {

// Ends the run as a finding where what has to hold does not.
inline void expect(bool holds, const char* what)
{
    if (!holds) {
        std::fprintf(stderr, "FINDING: %s\n", what);
        std::abort();
    }
}

// So many bytes of the input, zeros where it has fewer, with nothing readable behind them.
inline std::unique_ptr<char[]> exactly(size_t length, FuzzedDataProvider& input)
{
    auto bytes = std::make_unique<char[]>(length);
    input.ConsumeData(bytes.get(), length);
    return bytes;
}

} // namespace fuzz

extern "C" {
int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
}
