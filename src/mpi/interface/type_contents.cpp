// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/type_contents.hpp"

namespace gdr::mpi {

namespace {

struct Envelope {
    int64_t integers = 0, addresses = 0, counts = 0, types = 0;
    int combiner = 0;

    Envelope(const Library& library, Word type)
    {
        if (library.Type_get_envelope_c != nullptr) {
            library.Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner);
            return;
        }
        int small_integers = 0, small_addresses = 0, small_types = 0;
        library.Type_get_envelope(type, &small_integers, &small_addresses, &small_types, &combiner);
        integers = small_integers;
        addresses = small_addresses;
        types = small_types;
    }
};

bool is_predefined(const Combiners& made, int combiner)
{
    return combiner == made.named || (combiner >= made.f90 && combiner < made.f90 + 3);
}

} // namespace

bool is_predefined(const Library& library, Word type)
{
    return is_predefined(library.abi->combiners, Envelope(library, type).combiner);
}

TypeContents::TypeContents(const Library& library, Word type) : library_(library)
{
    const Envelope envelope(library, type);
    combiner_ = envelope.combiner;
    if (predefined()) {
        return;
    }
    std::vector<int> integers(static_cast<size_t>(envelope.integers));
    std::vector<int64_t> counts(static_cast<size_t>(envelope.counts));
    std::vector<char> handles(static_cast<size_t>(envelope.types) * library.abi->handle_size());
    addresses_.resize(static_cast<size_t>(envelope.addresses));
    if (counts.empty()) {
        library.Type_get_contents(
            type, static_cast<int>(envelope.integers), static_cast<int>(envelope.addresses),
            static_cast<int>(envelope.types), integers.data(), addresses_.data(), handles.data());
    } else {
        library.Type_get_contents_c(type, envelope.integers, envelope.addresses, envelope.counts,
                                    envelope.types, integers.data(), addresses_.data(),
                                    counts.data(), handles.data());
    }
    integers_.assign(integers.begin(), integers.end());
    if (!counts.empty()) {
        take_large(counts);
    }
    for (int64_t i = 0; i < envelope.types; ++i) {
        types_.push_back(library.abi->handle_at(handles.data(), static_cast<size_t>(i)));
    }
}

// MPI has given us references.
TypeContents::~TypeContents()
{
    for (Word type : types_) {
        if (!is_predefined(library_.abi->combiners, Envelope(library_, type).combiner)) {
            library_.Type_free(&type);
        }
    }
}

bool TypeContents::predefined() const
{
    return is_predefined(library_.abi->combiners, combiner_);
}

// Moves the counts to the places that they have in the small form: among the integers or the
// addresses.
void TypeContents::take_large(const std::vector<int64_t>& counts)
{
    const Combiners& made = library_.abi->combiners;
    if (combiner_ == made.subarray || combiner_ == made.darray) {
        const auto sizes = integers_.begin() + (combiner_ == made.subarray ? 1 : 3);
        integers_.insert(sizes, counts.begin(), counts.end());
        return;
    }
    int64_t displacements = 0;
    if (combiner_ == made.hvector) {
        displacements = 1;
    } else if (combiner_ == made.hindexed || combiner_ == made.hindexed_block ||
               combiner_ == made.structure) {
        displacements = counts.front();
    }
    integers_.assign(counts.begin(), counts.end() - displacements);
    addresses_.assign(counts.end() - displacements, counts.end());
}

} // namespace gdr::mpi
