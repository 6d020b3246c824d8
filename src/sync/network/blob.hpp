// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Bytes that an application carries from one process to another: a header that tells what they are,
// and values behind each other. Both sides are of one byte order.
#pragma once

#include "sync/ucx/refusal.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace gdr::sync {

enum class BlobKind : uint16_t { peer = 1, memory = 2, transfer = 3 };

struct BlobHeader {
    static constexpr uint64_t kMagic = 0x7264'672d'7863'7501; // also tells the byte order
    static constexpr uint16_t kVersion = 3;

    uint64_t magic;
    uint16_t version;
    BlobKind kind;
    uint32_t length; // of all
};

class BlobWriter {
  public:
    explicit BlobWriter(BlobKind kind)
    {
        add(BlobHeader{BlobHeader::kMagic, BlobHeader::kVersion, kind, 0});
    }

    void add(const void* data, size_t length)
    {
        const auto* const first = static_cast<const uint8_t*>(data);
        bytes_.insert(bytes_.end(), first, first + length);
    }
    template <typename Value>
    void add(const Value& value)
    {
        static_assert(std::is_trivially_copyable_v<Value>);
        add(&value, sizeof(value));
    }
    // Its length goes before it.
    void add_counted(const void* data, size_t length)
    {
        add(static_cast<uint32_t>(length));
        add(data, length);
    }

    std::vector<uint8_t> finished()
    {
        const auto length = static_cast<uint32_t>(bytes_.size());
        std::memcpy(bytes_.data() + offsetof(BlobHeader, length), &length, sizeof(length));
        return std::move(bytes_);
    }

  private:
    std::vector<uint8_t> bytes_;
};

// Throws Refusal where something is missing.
class BlobReader {
  public:
    // function: which got the blob.
    BlobReader(const char* function, const void* blob, size_t length, BlobKind kind)
        : function_(function), at_(static_cast<const uint8_t*>(blob)), left_(length)
    {
        const char* const what = kind == BlobKind::peer     ? "a peer"
                                 : kind == BlobKind::memory ? "memory"
                                                            : "a transfer";
        if (blob == nullptr) {
            refuse(UCS_ERR_INVALID_PARAM, "the blob is NULL");
        }
        const auto header = take<BlobHeader>();
        if (header.magic != BlobHeader::kMagic) {
            refuse(UCS_ERR_INVALID_PARAM,
                   std::string("these bytes are no blob of ") + what + " of libucx-gdr");
        }
        if (header.version != BlobHeader::kVersion) {
            refuse(UCS_ERR_UNSUPPORTED, "the blob is of another version of libucx-gdr");
        }
        if (header.kind != kind) {
            refuse(UCS_ERR_INVALID_PARAM, std::string("this is no blob of ") + what);
        }
        if (header.length != length) {
            refuse(UCS_ERR_INVALID_PARAM, "the blob has " + std::to_string(header.length) +
                                              " bytes, not " + std::to_string(length));
        }
    }

    template <typename Value>
    Value take()
    {
        static_assert(std::is_trivially_copyable_v<Value>);
        Value value;
        std::memcpy(&value, take(sizeof(value)), sizeof(value));
        return value;
    }

    struct Piece {
        const void* data;
        size_t length;
    };
    Piece take_counted()
    {
        const auto length = take<uint32_t>();
        return {take(length), length};
    }

    // So many values.
    template <typename Value>
    std::vector<Value> take_values(size_t count)
    {
        std::vector<Value> values;
        for (size_t i = 0; i < count; ++i) {
            values.push_back(take<Value>());
        }
        return values;
    }

    [[noreturn]] void refuse(ucs_status_t status, const std::string& cause) const
    {
        throw Refusal(status, std::string(function_) + ": " + cause);
    }

  private:
    const uint8_t* take(size_t length)
    {
        if (length > left_) {
            refuse(UCS_ERR_INVALID_PARAM, "the blob is cut off");
        }
        const uint8_t* const taken = at_;
        at_ += length;
        left_ -= length;
        return taken;
    }

    const char* const function_;
    const uint8_t* at_;
    size_t left_;
};

} // namespace gdr::sync
