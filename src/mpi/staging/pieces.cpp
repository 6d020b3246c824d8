// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/pieces.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace gdr::mpi {

namespace {

constexpr uintptr_t kPage = 4096; // a page is host memory as a whole, or not at all

class Cutting {
  public:
    Cutting(KnownDeviceMemory& memory, const void* buffer)
        : memory_(memory), buffer_(reinterpret_cast<uintptr_t>(buffer))
    {
    }

    std::vector<Piece> pieces;

    // Adds a row.
    void add(intptr_t offset, size_t length)
    {
        while (length > 0) {
            const uintptr_t at = buffer_ + static_cast<uintptr_t>(offset);
            size_t part = length;
            if (const cuda::Pointer* device = device_memory(at)) {
                part = std::min(length, static_cast<size_t>(device->end() - at));
                append({{offset, part, 0, 1}, device->device, device->base});
            } else {
                if (device_memory(at + length - 1) != nullptr) {
                    part = std::min(length, static_cast<size_t>(kPage - at % kPage));
                }
                append({{offset, part, 0, 1}, -1, 0});
            }
            offset += static_cast<intptr_t>(part);
            length -= part;
        }
    }

  private:
    // nullptr: host memory.
    const cuda::Pointer* device_memory(uintptr_t at)
    {
        if (at / kPage == host_page_) {
            return nullptr;
        }
        const cuda::Pointer* const found = memory_.find(reinterpret_cast<const void*>(at));
        if (found == nullptr) {
            host_page_ = at / kPage;
        }
        return found;
    }

    void append(const Piece& piece)
    {
        if (pieces.empty() || pieces.back().memory != piece.memory ||
            !append_row(pieces.back().run, piece.run)) {
            pieces.push_back(piece);
        }
    }

    static bool append_row(Run& rows, const Run& row)
    {
        const intptr_t distance = row.offset - rows.last_row();
        if (rows.rows == 1 && distance == static_cast<intptr_t>(rows.length)) {
            rows.length += row.length;
            return true;
        }
        if (row.length != rows.length || (rows.rows > 1 && distance != rows.stride)) {
            return false;
        }
        rows.stride = distance;
        ++rows.rows;
        return true;
    }

    KnownDeviceMemory& memory_;
    uintptr_t buffer_;
    uintptr_t host_page_ = 0;
};

} // namespace

std::vector<Piece> pieces_of(KnownDeviceMemory& memory, const void* buffer,
                             const Footprint& footprint)
{
    Cutting cutting(memory, buffer);
    for (const Run& run : footprint.runs()) {
        for (size_t row = 0; row < run.rows; ++row) {
            cutting.add(run.offset + run.stride * static_cast<ptrdiff_t>(row), run.length);
        }
    }
    return std::move(cutting.pieces);
}

bool in_one_memory(const std::vector<Piece>& pieces)
{
    return std::ranges::adjacent_find(pieces, std::ranges::not_equal_to(), &Piece::memory) ==
           pieces.end();
}

} // namespace gdr::mpi
