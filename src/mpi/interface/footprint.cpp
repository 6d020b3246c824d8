// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/footprint.hpp"

#include "mpi/interface/anatomy.hpp"

#include <algorithm>

namespace gdr::mpi {

namespace {

// The first bytes of an element with this displacement.
Runs first_of(const Runs& element, intptr_t displacement, size_t bytes)
{
    Runs first;
    for (Run run : element) {
        run.offset += displacement;
        const size_t rows = std::min(run.rows, bytes / run.length);
        append(first, {run.offset, run.length, run.stride, rows});
        bytes -= rows * run.length;
        if (rows == run.rows) {
            continue;
        }
        const auto behind = run.stride * static_cast<ptrdiff_t>(rows);
        append(first, {run.offset + behind, bytes, 0, 1});
        break;
    }
    return first;
}

} // namespace

uint64_t Elements::element_bytes() const
{
    uint64_t bytes = 0;
    for (const Run& run : runs) {
        bytes += run.length * run.rows;
    }
    return bytes;
}

bool Elements::in_one_piece() const
{
    return runs.size() == 1 && runs[0].in_one_piece() &&
           (count == 1 || extent == static_cast<intptr_t>(element_bytes()));
}

intptr_t Elements::low() const
{
    intptr_t low = INTPTR_MAX;
    for (const Run& run : runs) {
        low = std::min({low, run.offset, run.last_row()});
    }
    return low + std::min<intptr_t>(0, extent * (count - 1));
}

intptr_t Elements::high() const
{
    intptr_t high = INTPTR_MIN;
    for (const Run& run : runs) {
        high = std::max(high,
                        std::max(run.offset, run.last_row()) + static_cast<intptr_t>(run.length));
    }
    return high + std::max<intptr_t>(0, extent * (count - 1));
}

void Footprint::add(const Library& library, Word type, int64_t count, intptr_t displacement)
{
    if (count <= 0 || type == library.datatype_null) {
        return;
    }
    Anatomy anatomy = anatomy_of(library, type);
    plain_ = plain_ && anatomy.plain;
    gap_in_pair_ = gap_in_pair_ || anatomy.gap_in_pair;
    if (anatomy.runs.empty()) {
        return;
    }
    for (Run& run : anatomy.runs) {
        run.offset += displacement;
    }
    add(Elements{std::move(anatomy.runs), count, anatomy.extent});
}

void Footprint::add_bytes(intptr_t first, int64_t length)
{
    if (length > 0) {
        add(Elements{Runs({first, static_cast<size_t>(length), 0, 1}), 1, 0});
    }
}

void Footprint::add(Elements&& elements)
{
    low_ = std::min(low_, elements.low());
    high_ = std::max(high_, elements.high());
    bytes_ += elements.element_bytes() * static_cast<size_t>(elements.count);
    parts_.push_back(std::move(elements));
}

void Footprint::add(const Footprint& other)
{
    for (const Elements& part : other.parts_) {
        add(Elements(part));
    }
    plain_ = plain_ && other.plain_;
    gap_in_pair_ = gap_in_pair_ || other.gap_in_pair_;
}

Runs Footprint::runs() const
{
    if (parts_.size() == 1 && parts_[0].in_one_piece()) {
        return Runs({low_, bytes_, 0, 1});
    }
    Runs runs;
    for (const Elements& part : parts_) {
        append_repeated(runs, part.runs, part.count, part.extent, 0);
    }
    return runs;
}

Footprint Footprint::first(size_t bytes) const
{
    Footprint first;
    for (const Elements& part : parts_) {
        const size_t size = part.element_bytes();
        const auto whole = std::min(part.count, static_cast<int64_t>(bytes / size));
        if (whole > 0) {
            first.add(Elements{part.runs, whole, part.extent});
        }
        bytes -= static_cast<size_t>(whole) * size;
        if (whole == part.count) {
            continue;
        }
        if (bytes > 0) {
            first.add(Elements{first_of(part.runs, whole * part.extent, bytes), 1, 0});
        }
        break;
    }
    return first;
}

bool Footprint::plain() const
{
    return plain_ && (parts_.empty() || (parts_.size() == 1 && parts_[0].in_one_piece()));
}

} // namespace gdr::mpi
