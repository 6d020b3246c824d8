// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "doctor/gzip.hpp"

#include "config.h"

#ifdef HAVE_ZLIB
#include <array>

#include <zlib.h>
#endif

namespace gdr::doctor {

std::string unpacked(std::string content)
{
    if (!content.starts_with("\x1f\x8b")) {
        return content;
    }
#ifdef HAVE_ZLIB
    constexpr int kGzip = 16 + MAX_WBITS;
    constexpr size_t kMost = 16 << 20; // the configuration of a kernel has some 200 KiB
    z_stream stream{};
    if (inflateInit2(&stream, kGzip) != Z_OK) {
        return {};
    }
    stream.next_in = reinterpret_cast<Bytef*>(content.data());
    stream.avail_in = static_cast<uInt>(content.size());
    std::string text;
    int status = Z_OK;
    while (status == Z_OK && text.size() < kMost) {
        std::array<char, 65536> piece;
        stream.next_out = reinterpret_cast<Bytef*>(piece.data());
        stream.avail_out = piece.size();
        status = inflate(&stream, Z_NO_FLUSH);
        text.append(piece.data(), piece.size() - stream.avail_out);
    }
    inflateEnd(&stream);
    return status == Z_STREAM_END ? text : "";
#else
    return {};
#endif
}

} // namespace gdr::doctor
