// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What gzip writes, where this build has zlib.
#pragma once

#include "config.h"

#ifdef HAVE_ZLIB
#include <string>

#include <gtest/gtest.h>
#include <zlib.h>

namespace doctor_test {

inline std::string packed(std::string text, int level = Z_DEFAULT_COMPRESSION)
{
    constexpr int kGzip = 16 + MAX_WBITS;
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string result(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(text.data());
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(result.data());
    stream.avail_out = static_cast<uInt>(result.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    result.resize(stream.total_out);
    deflateEnd(&stream);
    return result;
}

} // namespace doctor_test
#endif
