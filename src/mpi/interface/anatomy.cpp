// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/anatomy.hpp"

#include "mpi/interface/type_contents.hpp"
#include "mpi/interface/type_map.hpp"

#include <algorithm>
#include <utility>

namespace gdr::mpi {

namespace {

// Takes a type apart, and the types that it is made of.
class Dissection {
  public:
    explicit Dissection(const Library& library) : library_(library), made_(library.abi->combiners)
    {
    }

    bool plain = true;
    bool gap_in_pair = false;
    bool named = true; // predefined by MPI

    Runs element(Word type)
    {
        const TypeContents in(library_, type);
        const int how = in.combiner();
        named = named && how == made_.named;
        if (in.predefined()) {
            return predefined(type);
        }
        plain = plain && (how == made_.contiguous || how == made_.dup);
        if (how == made_.structure) {
            return structure(in);
        }
        if (how == made_.dup || how == made_.resized) {
            return element(in.types()[0]);
        }
        if (how == made_.contiguous || how == made_.vector || how == made_.hvector) {
            return blocks_at_one_distance(how, in);
        }
        if (how == made_.indexed || how == made_.hindexed || how == made_.indexed_block ||
            how == made_.hindexed_block) {
            return blocks_anywhere(how, in);
        }
        if (how == made_.subarray) {
            return subarray(in);
        }
        if (how == made_.darray) {
            return distributed_array(in);
        }
        return runs_by_packing(library_, type);
    }

    intptr_t extent_of(Word type) const
    {
        intptr_t lower = 0, extent = 0;
        library_.Type_get_extent(type, &lower, &extent);
        return extent;
    }

  private:
    Runs predefined(Word type)
    {
        intptr_t lower = 0, extent = 0;
        int size = 0;
        library_.Type_size(type, &size);
        library_.Type_get_true_extent(type, &lower, &extent);
        if (extent != size) {
            plain = false;
            gap_in_pair = true;
            return runs_by_packing(library_, type);
        }
        Runs runs;
        append(runs, {lower, static_cast<size_t>(size), 0, 1});
        return runs;
    }

    Runs structure(const TypeContents& in)
    {
        Runs runs;
        for (size_t i = 0; i < in.types().size(); ++i) {
            append_repeated(runs, element(in.types()[i]), in.integers()[i + 1],
                            extent_of(in.types()[i]), in.addresses()[i]);
        }
        return runs;
    }

    Runs blocks_at_one_distance(int how, const TypeContents& in)
    {
        const Runs old = element(in.types()[0]);
        const intptr_t extent = extent_of(in.types()[0]);
        const std::vector<int64_t>& numbers = in.integers();
        Runs runs;
        if (how == made_.contiguous) {
            append_repeated(runs, old, numbers[0], extent, 0);
            return runs;
        }
        Runs block;
        append_repeated(block, old, numbers[1], extent, 0);
        append_repeated(runs, block, numbers[0],
                        how == made_.vector ? numbers[2] * extent : in.addresses()[0], 0);
        return runs;
    }

    Runs blocks_anywhere(int how, const TypeContents& in)
    {
        const Runs old = element(in.types()[0]);
        const intptr_t extent = extent_of(in.types()[0]);
        const std::vector<int64_t>& numbers = in.integers();
        const auto count = static_cast<size_t>(numbers[0]);
        const bool equal = how == made_.indexed_block || how == made_.hindexed_block;
        const bool in_bytes = how == made_.hindexed || how == made_.hindexed_block;
        const size_t first = equal ? 2 : 1 + count; // displacement, if not an address
        Runs runs;
        for (size_t i = 0; i < count; ++i) {
            append_repeated(runs, old, numbers[equal ? 1 : 1 + i], extent,
                            in_bytes ? in.addresses()[i] : numbers[first + i] * extent);
        }
        return runs;
    }

    // Starts with the dimension that varies fastest.
    Runs subarray(const TypeContents& in)
    {
        const std::vector<int64_t>& numbers = in.integers();
        const auto dimensions = static_cast<size_t>(numbers[0]);
        const int64_t* sizes = &numbers[1];
        const int64_t* parts = sizes + dimensions;
        const int64_t* starts = parts + dimensions;
        const bool last_is_fastest = numbers.back() == library_.abi->order_c;
        Runs runs = element(in.types()[0]);
        intptr_t extent = extent_of(in.types()[0]);
        for (size_t i = 0; i < dimensions; ++i) {
            const size_t at = last_is_fastest ? dimensions - 1 - i : i;
            Runs wider;
            append_repeated(wider, runs, parts[at], extent, starts[at] * extent);
            runs = std::move(wider);
            extent *= sizes[at];
        }
        return runs;
    }

    // Each dimension deals its blocks to its processes in turn.
    Runs distributed_array(const TypeContents& in)
    {
        const std::vector<int64_t>& numbers = in.integers();
        const auto dimensions = static_cast<size_t>(numbers[2]);
        const int64_t* sizes = &numbers[3];
        const int64_t* kinds = sizes + dimensions;
        const int64_t* blocks = kinds + dimensions;
        const int64_t* processes = blocks + dimensions;
        const bool last_is_fastest = numbers.back() == library_.abi->order_c;
        std::vector<int64_t> places(dimensions); // of the process; the last one varies fastest
        for (size_t i = dimensions, rank = static_cast<size_t>(numbers[1]); i-- > 0;) {
            places[i] = static_cast<int64_t>(rank) % processes[i];
            rank /= static_cast<size_t>(processes[i]);
        }
        Runs runs = element(in.types()[0]);
        intptr_t extent = extent_of(in.types()[0]);
        for (size_t i = 0; i < dimensions; ++i) {
            const size_t at = last_is_fastest ? dimensions - 1 - i : i;
            const int64_t block = block_length(kinds[at], blocks[at], sizes[at], processes[at]);
            runs = dealt(runs, extent, sizes[at], block, processes[at], places[at]);
            extent *= sizes[at];
        }
        return runs;
    }

    int64_t block_length(int64_t kind, int64_t asked, int64_t size, int64_t processes) const
    {
        const Distributions& distributions = library_.abi->distributions;
        if (kind == distributions.none) {
            return size;
        }
        if (asked != distributions.default_argument) {
            return asked;
        }
        return kind == distributions.cyclic ? 1 : (size + processes - 1) / processes;
    }

    static Runs dealt(const Runs& old, intptr_t extent, int64_t size, int64_t block,
                      int64_t processes, int64_t place)
    {
        const int64_t first = place * block, next = processes * block;
        const int64_t whole = size < first + block ? 0 : 1 + (size - first - block) / next;
        const int64_t rest = first + whole * next;
        Runs one, runs;
        append_repeated(one, old, block, extent, 0);
        append_repeated(runs, one, whole, next * extent, first * extent);
        append_repeated(runs, old, std::min(block, size - rest), extent, rest * extent);
        return runs;
    }

    const Library& library_;
    const Combiners& made_;
};

// The last type that the thread has used that is predefined and has no gap: its handle is never
// reused.
struct Named {
    Word type;
    Run bytes; // no rows: no type yet
    intptr_t extent;
};
thread_local constinit Named latest{};

} // namespace

Anatomy anatomy_of(const Library& library, Word type)
{
    if (type == latest.type && latest.bytes.rows != 0) {
        return {Runs(latest.bytes), latest.extent, true, false};
    }
    Dissection dissection(library);
    Runs runs = dissection.element(type);
    const intptr_t extent = dissection.extent_of(type);
    if (dissection.named && dissection.plain && runs.size() == 1) {
        latest = {type, runs.front(), extent};
    }
    return {std::move(runs), extent, dissection.plain, dissection.gap_in_pair};
}

} // namespace gdr::mpi
