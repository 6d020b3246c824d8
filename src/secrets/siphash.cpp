// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// SipHash as its authors define it: the message is split into words of 8 bytes, and the last word
// is filled up with zeros and the length. Two rounds follow each word, four the end.
#include "secrets/siphash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

namespace gdr::secrets {
namespace {

class State {
  public:
    explicit State(const HashKey& key)
        : v_{key.words[0] ^ 0x736f6d6570736575, key.words[1] ^ 0x646f72616e646f6d,
             key.words[0] ^ 0x6c7967656e657261, key.words[1] ^ 0x7465646279746573}
    {
    }

    void absorb(uint64_t word)
    {
        v_[3] ^= word;
        rounds(2);
        v_[0] ^= word;
    }

    uint64_t finish()
    {
        v_[2] ^= 0xff;
        rounds(4);
        return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
    }

  private:
    // Adds b to a, rotates b and mixes the sum into it.
    static void mix(uint64_t& a, uint64_t& b, int turn)
    {
        a += b;
        b = std::rotl(b, turn) ^ a;
    }

    void rounds(int count)
    {
        for (; count > 0; --count) {
            mix(v_[0], v_[1], 13);
            mix(v_[2], v_[3], 16);
            v_[0] = std::rotl(v_[0], 32);
            mix(v_[2], v_[1], 17);
            mix(v_[0], v_[3], 21);
            v_[2] = std::rotl(v_[2], 32);
        }
    }

    uint64_t v_[4];
};

} // namespace

HashKey random_key()
{
    std::random_device device;
    const auto word = [&] {
        const uint64_t high = device();
        return high << 32 | device();
    };
    return {{word(), word()}};
}

uint64_t siphash(const HashKey& key, const void* message, size_t length)
{
    State state(key);
    const auto* bytes = static_cast<const unsigned char*>(message);
    for (size_t at = 0;; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        std::memcpy(&word, bytes + at, std::min(length - at, sizeof(word)));
        if (length - at < sizeof(word)) {
            state.absorb(word | uint64_t{length} << 56);
            return state.finish();
        }
        state.absorb(word);
    }
}

} // namespace gdr::secrets
