// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The hint is an attribute of the communicator: a pointer into the array of possible names.
#include "mpi/hints/collective_hint.hpp"

#include "log/log.hpp"
#include "mpi/hints/info_value.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

namespace gdr::mpi {

namespace {

constexpr const char* kKey = "gdr_mpi_coll";

Collectives of_process = Collectives::library;

std::atomic<bool> any{false};

bool any_hints()
{
    return any.load(std::memory_order_acquire);
}

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
std::optional<int> duplicate(const Invocation& invocation, const char* const* hint)
{
    const Library& library = invocation.library();
    const Word comm = invocation.handle(0);
    const bool known = hint != nullptr || any_hints();
    const char* const* const own = known ? kept(library, comm) : nullptr;
    if (!known || hint == own) {
        return std::nullopt;
    }
    const OtherHint meanwhile(library, comm, own, hint);
    return meanwhile.result() == 0 ? invocation.make() : meanwhile.result();
}

} // namespace

std::optional<int> set_info(const Invocation& invocation)
{
    const Library& library = invocation.library();
    const char* const* const hint = hint_of(library, invocation.call(), invocation.handle(1));
    const bool duplicates = invocation.call().arguments > 2;
    if (duplicates) {
        return duplicate(invocation, hint);
    }
    const int result = invocation.make();
    return result == 0 && hint != nullptr ? keep(library, invocation.handle(0), hint) : result;
}

void set_collectives(Collectives chosen)
{
    of_process = chosen;
}

Collectives chosen_collectives()
{
    return of_process;
}

bool gpus_may_make_collectives()
{
    return of_process != Collectives::library || any_hints();
}

Collectives collectives_of(const Library& library, Word comm)
{
    const char* const* name = any_hints() ? kept(library, comm) : nullptr;
    return name != nullptr ? static_cast<Collectives>(name - kCollectivesNames) : of_process;
}

} // namespace gdr::mpi
