// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// SipHash-2-4, a keyed hash of short messages. Without the key nobody can tell the hash of a
// message from random bits. J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF",
// 2012.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdr::secrets {

struct [[gnu::packed]] HashKey {
    uint64_t words[2]; // the key's bytes, little-endian
};

// Takes the key from the system's random numbers.
HashKey random_key();

uint64_t siphash(const HashKey& key, const void* message, size_t length);

} // namespace gdr::secrets
