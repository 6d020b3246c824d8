// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The hint is an attribute of the communicator: a pointer into the array of possible names.
#include "mpi/hints/collective_hint.hpp"

#include "log/log.hpp"
#include "mpi/hints/info_value.hpp"
#include "mpi/interface/apply.hpp"

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

// Empty: MPI has no keyval to give; its error handler has been called.
std::optional<int> attribute(const Library& library)
{
    static const std::optional<int> keyval = [&library]() -> std::optional<int> {
        int made = 0;
        if (library.Comm_create_keyval(copy, nothing_to_free, &made, nullptr) != 0) {
            return std::nullopt;
        }
        return made;
    }();
    return keyval;
}

// name nullptr: removes the hint.
int keep(const Library& library, Word comm, const char* const* name)
{
    const auto keyval = attribute(library);
    if (!keyval) {
        return library.abi->error_other;
    }
    if (name == nullptr) {
        return library.Comm_delete_attr(comm, *keyval);
    }
    if (name != kCollectivesNames) {
        any.store(true, std::memory_order_release);
    }
    return library.Comm_set_attr(comm, *keyval, const_cast<const char**>(name));
}

// What keep() has kept; nullptr: nothing.
const char* const* kept(const Library& library, Word comm)
{
    const auto keyval = attribute(library);
    void* hint = nullptr;
    int found = 0;
    if (!keyval || library.Comm_get_attr(comm, *keyval, &hint, &found) != 0 || found == 0) {
        return nullptr;
    }
    return static_cast<const char* const*>(hint);
}

// The hint in the call's info; nullptr: none. An unknown hint causes a warning.
const char* const* hint_of(const Library& library, const Call& call, Word info)
{
    if (info == library.info_null) {
        return nullptr;
    }
    const InfoValue value(library, info, kKey);
    if (!value.found()) {
        return nullptr;
    }
    const std::string_view hint = value.text();
    const std::span names(kCollectivesNames, std::size(kCollectivesNames) - 1);
    const auto known = std::ranges::find(names, hint);
    if (known != names.end()) {
        return &*known;
    }
    gdr_log(warn, "MPI_%s: %s=%s is ignored: it can be stage, gpu or nccl", call.name, kKey,
            hint.data());
    return nullptr;
}

// Gives a communicator another hint for a while. The destructor restores it, even if an error
// handler throws.
class OtherHint {
  public:
    OtherHint(const Library& library, Word comm, const char* const* own, const char* const* other)
        : library_(library), comm_(comm), own_(own), result_(keep(library, comm, other))
    {
    }
    OtherHint(const OtherHint&) = delete;
    OtherHint& operator=(const OtherHint&) = delete;
    ~OtherHint() { keep(library_, comm_, own_); }

    int result() const { return result_; } // what MPI returned

  private:
    const Library& library_;
    const Word comm_;
    const char* const* const own_;
    const int result_;
};

// MPI copies the attributes that the communicator has at the time of the call, and the non-blocking
// call makes the new communicator only later. So the old communicator has the new one's hint
// meanwhile. The new communicator gets its hints from its info alone.
int duplicate(const Library& library, const Call& call, gdr_mpi_function* function, Word* words,
              const char* const* hint)
{
    const Word comm = library.abi->handle(words[0]);
    const bool known = comm != library.comm_null && (hint != nullptr || any_collective_hints());
    const char* const* const own = known ? kept(library, comm) : nullptr;
    if (!known || hint == own) {
        return apply(function, call, words);
    }
    const OtherHint meanwhile(library, comm, own, hint);
    return meanwhile.result() == 0 ? apply(function, call, words) : meanwhile.result();
}

} // namespace

int set_info(const Library& library, const Call& call, gdr_mpi_function* function, Word* words)
{
    const char* const* const hint = hint_of(library, call, library.abi->handle(words[1]));
    const bool duplicates = call.arguments > 2;
    if (duplicates) {
        return duplicate(library, call, function, words, hint);
    }
    const int result = apply(function, call, words);
    return result == 0 && hint != nullptr ? keep(library, library.abi->handle(words[0]), hint)
                                          : result;
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
