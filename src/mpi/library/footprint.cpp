// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Taking types apart by MPI_Type_get_envelope and MPI_Type_get_contents.
#include "mpi/library/footprint.hpp"

#include <algorithm>

namespace gdr::mpi {

namespace {

using Runs = std::vector<Run>;

void append(Runs& runs, const Run& run)
{
    if (run.length == 0 || run.rows == 0)
        return;
    if (!runs.empty()) {
        Run& last = runs.back();
        if (last.rows == 1 && run.rows == 1 &&
            last.offset + static_cast<intptr_t>(last.length) == run.offset) {
            last.length += run.length;
            return;
        }
    }
    runs.push_back(run);
}

// A run that so many times follows itself at this distance, as one; false: it cannot be told so.
bool repeat(Run& run, int64_t count, intptr_t distance)
{
    const auto times = static_cast<size_t>(count);
    if (run.rows == 1 && distance == static_cast<intptr_t>(run.length))
        run.length *= times;
    else if (run.rows == 1)
        run = {run.offset, run.length, distance, times};
    else if (distance == run.stride * static_cast<ptrdiff_t>(run.rows))
        run.rows *= times;
    else
        return false;
    return true;
}

void append_repeated(Runs& runs, const Runs& element, int64_t count, intptr_t extent, intptr_t at)
{
    if (count <= 0 || element.empty())
        return;
    if (element.size() == 1) {
        Run run = element.front();
        run.offset += at;
        if (count == 1 || repeat(run, count, extent)) {
            append(runs, run);
            return;
        }
    }
    for (int64_t i = 0; i < count; ++i) {
        for (Run run : element) {
            run.offset += at + i * extent;
            append(runs, run);
        }
    }
}

// Takes one type apart, and those it is made of.
class Anatomy {
  public:
    explicit Anatomy(const Library& library) : library_(library), made_(library.abi->combiners) {}

    bool exact = true;
    bool plain = true;

    Runs element(Word type)
    {
        Envelope envelope;
        if (!open(type, envelope))
            return whole(type);
        if (is_predefined(envelope.combiner))
            return predefined(type);
        plain = plain && (envelope.combiner == made_.contiguous || envelope.combiner == made_.dup);
        return derived(type, envelope);
    }

    intptr_t extent_of(Word type) const
    {
        intptr_t lower = 0, extent = 0;
        library_.Type_get_extent(type, &lower, &extent);
        return extent;
    }

  private:
    struct Envelope {
        int integers = 0, addresses = 0, types = 0, combiner = 0;
    };
    struct Contents {
        std::vector<int> integers;
        std::vector<intptr_t> addresses;
        std::vector<Word> types;
    };

    bool is_predefined(int combiner) const
    {
        return combiner == made_.named || (combiner >= made_.f90 && combiner < made_.f90 + 3);
    }

    // False where the numbers in it need more than ints.
    bool open(Word type, Envelope& envelope) const
    {
        if (library_.Type_get_envelope_c == nullptr)
            return library_.Type_get_envelope(type, &envelope.integers, &envelope.addresses,
                                              &envelope.types, &envelope.combiner) == 0;
        int64_t integers = 0, addresses = 0, counts = 0, types = 0;
        if (library_.Type_get_envelope_c(type, &integers, &addresses, &counts, &types,
                                         &envelope.combiner) != 0)
            return false;
        envelope.integers = static_cast<int>(integers);
        envelope.addresses = static_cast<int>(addresses);
        envelope.types = static_cast<int>(types);
        return counts == 0;
    }

    // All that lies between the first byte and the last.
    Runs whole(Word type)
    {
        intptr_t lower = 0, extent = 0;
        library_.Type_get_true_extent(type, &lower, &extent);
        exact = plain = false;
        Runs runs;
        append(runs, {lower, static_cast<size_t>(extent), 0, 1});
        return runs;
    }

    Runs predefined(Word type)
    {
        intptr_t lower = 0, extent = 0;
        int size = 0;
        library_.Type_size(type, &size);
        library_.Type_get_true_extent(type, &lower, &extent);
        if (extent != size)
            return whole(type);
        Runs runs;
        append(runs, {lower, static_cast<size_t>(size), 0, 1});
        return runs;
    }

    Contents contents(Word type, const Envelope& envelope) const
    {
        Contents in;
        in.integers.resize(envelope.integers);
        in.addresses.resize(envelope.addresses);
        std::vector<char> handles(envelope.types * library_.abi->handle_size());
        library_.Type_get_contents(type, envelope.integers, envelope.addresses, envelope.types,
                                   in.integers.data(), in.addresses.data(), handles.data());
        for (int i = 0; i < envelope.types; ++i)
            in.types.push_back(library_.abi->handle_at(handles.data(), i));
        return in;
    }

    // MPI has given us references.
    void release(const Contents& in) const
    {
        for (Word type : in.types) {
            Envelope envelope;
            open(type, envelope);
            if (!is_predefined(envelope.combiner))
                library_.Type_free(&type);
        }
    }

    Runs derived(Word type, const Envelope& envelope)
    {
        const int how = envelope.combiner;
        const bool known = how == made_.dup || how == made_.contiguous || how == made_.vector ||
                           how == made_.hvector || how == made_.indexed || how == made_.hindexed ||
                           how == made_.indexed_block || how == made_.hindexed_block ||
                           how == made_.structure || how == made_.subarray || how == made_.resized;
        if (!known)
            return whole(type);
        const Contents in = contents(type, envelope);
        Runs runs = how == made_.structure ? structure(in) : of_one_type(how, in);
        release(in);
        return runs;
    }

    Runs structure(const Contents& in)
    {
        Runs runs;
        for (int i = 0; i < in.integers[0]; ++i)
            append_repeated(runs, element(in.types[i]), in.integers[i + 1], extent_of(in.types[i]),
                            in.addresses[i]);
        return runs;
    }

    Runs of_one_type(int how, const Contents& in)
    {
        const Runs old = element(in.types[0]);
        const intptr_t extent = extent_of(in.types[0]);
        if (how == made_.dup || how == made_.resized)
            return old;
        if (how == made_.subarray)
            return subarray(in, old, extent);
        const int count = in.integers[0];
        Runs runs;
        if (how == made_.contiguous) {
            append_repeated(runs, old, count, extent, 0);
        } else if (how == made_.vector || how == made_.hvector) {
            Runs block;
            append_repeated(block, old, in.integers[1], extent, 0);
            append_repeated(runs, block, count,
                            how == made_.vector ? in.integers[2] * extent : in.addresses[0], 0);
        } else {
            const bool equal = how == made_.indexed_block || how == made_.hindexed_block;
            const bool in_bytes = how == made_.hindexed || how == made_.hindexed_block;
            const int first = equal ? 2 : 1 + count; // displacement, unless that is an address
            for (int i = 0; i < count; ++i)
                append_repeated(runs, old, in.integers[equal ? 1 : 1 + i], extent,
                                in_bytes ? in.addresses[i] : in.integers[first + i] * extent);
        }
        return runs;
    }

    // From the dimension that varies fastest.
    Runs subarray(const Contents& in, const Runs& old, intptr_t extent)
    {
        const int dimensions = in.integers[0];
        const int* sizes = &in.integers[1];
        const int* parts = sizes + dimensions;
        const int* starts = parts + dimensions;
        const bool last_is_fastest = in.integers[1 + 3 * dimensions] == library_.abi->order_c;
        Runs runs = old;
        for (int i = 0; i < dimensions; ++i) {
            const int at = last_is_fastest ? dimensions - 1 - i : i;
            Runs wider;
            append_repeated(wider, runs, parts[at], extent, starts[at] * extent);
            runs = std::move(wider);
            extent *= sizes[at];
        }
        return runs;
    }

    const Library& library_;
    const Combiners& made_;
};

} // namespace

uint64_t Elements::element_bytes() const
{
    uint64_t bytes = 0;
    for (const Run& run : runs)
        bytes += run.length * run.rows;
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
    for (const Run& run : runs)
        low = std::min({low, run.offset, run.last_row()});
    return low + std::min<intptr_t>(0, extent * (count - 1));
}

intptr_t Elements::high() const
{
    intptr_t high = INTPTR_MIN;
    for (const Run& run : runs)
        high = std::max(high,
                        std::max(run.offset, run.last_row()) + static_cast<intptr_t>(run.length));
    return high + std::max<intptr_t>(0, extent * (count - 1));
}

void Footprint::add(const Library& library, Word type, int64_t count, intptr_t displacement)
{
    if (count <= 0 || type == library.datatype_null)
        return;
    Anatomy anatomy(library);
    Runs element = anatomy.element(type);
    exact_ = exact_ && anatomy.exact;
    plain_ = plain_ && anatomy.plain;
    if (element.empty())
        return;
    for (Run& run : element)
        run.offset += displacement;
    parts_.push_back({std::move(element), count, anatomy.extent_of(type)});
}

void Footprint::add_bytes(intptr_t first, int64_t length)
{
    if (length > 0)
        parts_.push_back({{{first, static_cast<size_t>(length), 0, 1}}, 1, 0});
}

void Footprint::add(const Footprint& other)
{
    parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
    exact_ = exact_ && other.exact_;
    plain_ = plain_ && other.plain_;
}

Runs Footprint::runs() const
{
    Runs runs;
    for (const Elements& part : parts_)
        append_repeated(runs, part.runs, part.count, part.extent, 0);
    return runs;
}

bool Footprint::plain() const
{
    return plain_ && (parts_.empty() || (parts_.size() == 1 && parts_[0].in_one_piece()));
}

intptr_t Footprint::low() const
{
    intptr_t low = INTPTR_MAX;
    for (const Elements& part : parts_)
        low = std::min(low, part.low());
    return low;
}

intptr_t Footprint::high() const
{
    intptr_t high = INTPTR_MIN;
    for (const Elements& part : parts_)
        high = std::max(high, part.high());
    return high;
}

size_t Footprint::bytes() const
{
    size_t bytes = 0;
    for (const Elements& part : parts_)
        bytes += part.element_bytes() * static_cast<size_t>(part.count);
    return bytes;
}

} // namespace gdr::mpi
