// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/gathered_shadow.hpp"

#include "stats/statistics.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gdr::mpi {

namespace {

size_t bytes_of(const std::vector<Piece>& pieces)
{
    size_t bytes = 0;
    for (const Piece& piece : pieces) {
        bytes += piece.run.length * piece.run.rows;
    }
    return bytes;
}

// -1 stands for host memory.
std::vector<CUdevice> devices_of(const std::vector<Piece>& pieces)
{
    std::vector<CUdevice> devices;
    for (const Piece& piece : pieces) {
        if (std::ranges::find(devices, piece.device) == devices.end()) {
            devices.push_back(piece.device);
        }
    }
    return devices;
}

} // namespace

GatheredShadow::GatheredShadow(const cuda::Driver& driver, const Arguments& arguments,
                               const Group& group, const Side& side, std::vector<Piece> pieces)
    : driver_(&driver), buffer_(static_cast<char*>(arguments.pointer(side.buffer))),
      pieces_(std::move(pieces)), devices_(devices_of(pieces_)),
      memory_(driver, *std::ranges::max_element(devices_), bytes_of(pieces_)),
      told_(arguments, group, side)
{
    arguments.words()[side.buffer] = reinterpret_cast<Word>(memory_.data());
}

void GatheredShadow::put_back() const
{
    RowCopies copies(*driver_, Direction::to_device);
    copy(copies);
    copies.wait();
}

void GatheredShadow::copy(RowCopies& copies) const
{
    for (const CUdevice device : devices_) {
        if (device < 0) {
            copy_by_cpu(copies.direction());
        } else {
            copy_on(device, copies);
        }
    }
    stats::statistics().add({.mpi_staged_bytes = bytes_of(pieces_)});
}

// use(run, packed) for each piece in that memory.
template <typename Use>
void GatheredShadow::for_each_piece_in(CUdevice device, Use use) const
{
    char* packed = memory_.data();
    for (const Piece& piece : pieces_) {
        if (piece.device == device) {
            use(piece.run, packed);
        }
        packed += piece.run.length * piece.run.rows;
    }
}

void GatheredShadow::copy_on(CUdevice device, RowCopies& copies) const
{
    for_each_piece_in(device, [&](const Run& run, char* packed) {
        copies.issue_packed(device, run, buffer_, packed);
    });
}

void GatheredShadow::copy_by_cpu(Direction direction) const
{
    for_each_piece_in(-1, [&](const Run& run, char* packed) {
        char* place = buffer_ + run.offset;
        for (size_t row = 0; row < run.rows; ++row, place += run.stride, packed += run.length) {
            if (direction == Direction::to_device) {
                std::memcpy(place, packed, run.length);
            } else {
                std::memcpy(packed, place, run.length);
            }
        }
    });
}

} // namespace gdr::mpi
