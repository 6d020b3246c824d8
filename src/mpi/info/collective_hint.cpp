// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The hint is an attribute of the communicator: a pointer into the names that it can have.
#include "mpi/info/collective_hint.hpp"

#include "abi/host.hpp"
#include "mpi/info/info_value.hpp"
#include "mpi/library/apply.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

namespace gdr::mpi {

namespace {

constexpr const char* kKey = "gdr_mpi_coll";

std::atomic<bool> any{false};

int copy(Word, int, void*, void* hint, void* copied_hint, int* copied)
{
    *static_cast<void**>(copied_hint) = hint;
    *copied = 1;
    return 0;
}

int nothing_to_free(Word, int, void*, void*)
{
    return 0;
}

// Empty: MPI gives none, which its error handler was told.
std::optional<int> attribute(const Library& library)
{
    static const std::optional<int> keyval = [&library]() -> std::optional<int> {
        int made = 0;
        if (library.Comm_create_keyval(copy, nothing_to_free, &made, nullptr) != 0)
            return std::nullopt;
        return made;
    }();
    return keyval;
}

int keep(const Library& library, Word comm, const char* const* name)
{
    const auto keyval = attribute(library);
    if (!keyval)
        return library.abi->error_other;
    if (name != kCollectivesNames)
        any.store(true, std::memory_order_release);
    return library.Comm_set_attr(comm, *keyval, const_cast<const char**>(name));
}

// What keep() has kept; nullptr: nothing.
const char* const* kept(const Library& library, Word comm)
{
    const auto keyval = attribute(library);
    void* hint = nullptr;
    int found = 0;
    if (!keyval || library.Comm_get_attr(comm, *keyval, &hint, &found) != 0 || found == 0)
        return nullptr;
    return static_cast<const char* const*>(hint);
}

// What MPI_Comm_dup_with_info has copied with the attributes: hints are those of its info alone.
int forget(const Library& library, Word comm)
{
    if (!any_collective_hints() || kept(library, comm) == nullptr)
        return 0;
    return library.Comm_delete_attr(comm, *attribute(library));
}

} // namespace

int set_info(const Library& library, const Call& call, gdr_mpi_function* function, Word* words)
{
    const int result = apply(function, call, words);
    if (result != 0)
        return result;
    const bool duplicates = call.arguments == 3;
    const Word comm = duplicates ? library.abi->handle_at(reinterpret_cast<void*>(words[2]), 0)
                                 : library.abi->handle(words[0]);
    const Word info = library.abi->handle(words[1]);
    if (info == library.info_null)
        return duplicates ? forget(library, comm) : 0;
    const InfoValue value(library, info, kKey);
    if (value.result() != 0)
        return value.result();
    if (!value.found())
        return duplicates ? forget(library, comm) : 0;
    const std::string_view hint = value.text();
    const std::span names(kCollectivesNames, std::size(kCollectivesNames) - 1);
    const auto known = std::ranges::find(names, hint);
    if (known == names.end()) {
        gdr_log(warn, "MPI_%s: %s=%s is ignored: it can be stage, gpu or nccl", call.name, kKey,
                hint.data());
        return 0;
    }
    return keep(library, comm, &*known);
}

bool any_collective_hints()
{
    return any.load(std::memory_order_acquire);
}

Collectives hinted_collectives(const Library& library, Word comm, Collectives otherwise)
{
    const char* const* name = kept(library, comm);
    return name != nullptr ? static_cast<Collectives>(name - kCollectivesNames) : otherwise;
}

} // namespace gdr::mpi
