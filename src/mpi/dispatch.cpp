// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/dispatch.hpp"

#include "cuda/driver.hpp"
#include "mpi/collectives/collective_call.hpp"
#include "mpi/collectives/predefined_reductions.hpp"
#include "mpi/gpu/passed_on.hpp"
#include "mpi/gpu/window_memory.hpp"
#include "mpi/hints/collective_hint.hpp"
#include "mpi/hints/memory_kinds.hpp"
#include "mpi/interface/failure.hpp"
#include "mpi/interface/invocation.hpp"
#include "mpi/staging/attached_buffers.hpp"
#include "mpi/staging/epochs.hpp"
#include "mpi/staging/partitions.hpp"
#include "mpi/staging/requests.hpp"
#include "mpi/staging/staged_call.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>

namespace gdr::mpi {

namespace {

enum class Driver { needed, or_none };

struct Row {
    Kind kind;
    Handler* handler;
    Driver driver = Driver::needed;
};

constexpr Row kHandlers[] = {
    {Kind::collective, make_collective, Driver::or_none},
    {Kind::message, stage_call},
    {Kind::epoch, stage_call},
    {Kind::synchronise, synchronise},
    {Kind::partitioned, init_partitions},
    {Kind::ready, ready},
    {Kind::ready_range, ready_range},
    {Kind::ready_list, ready_list},
    {Kind::arrived, arrived},
    {Kind::attach, attach_buffer},
    {Kind::detach, detach_buffer},
    {Kind::window, make_window},
    {Kind::unstaged, pass_on},
    {Kind::wait, complete_requests},
    {Kind::test, complete_requests},
    {Kind::status, complete_requests},
    {Kind::waitall, complete_requests},
    {Kind::testall, complete_requests},
    {Kind::waitany, complete_requests},
    {Kind::testany, complete_requests},
    {Kind::some, complete_requests},
    {Kind::start, start_requests},
    {Kind::startall, start_requests},
    {Kind::free, free_request},
    {Kind::get_info, get_info},
    {Kind::set_info, set_info},
    {Kind::set_name, set_name, Driver::or_none},
};

constexpr bool each_kind_has_its_row()
{
    size_t next = 0;
    return std::ranges::all_of(
        kHandlers, [&](const Row& row) { return static_cast<size_t>(row.kind) == next++; });
}
static_assert(each_kind_has_its_row() && std::size(kHandlers) == kKinds);

// Without a driver, as in a forked child, the layer has to do only with collectives of the GPUs:
// this rank votes on them.
bool concerns(const Row& row, const cuda::Driver* driver)
{
    return driver != nullptr ||
           (row.driver == Driver::or_none && chosen_collectives() != Collectives::library);
}

} // namespace

int dispatch(const Call& call, gdr_mpi_function* function, Word* words)
{
    const Row& row = kHandlers[static_cast<size_t>(call.kind)];
    const cuda::Driver* const driver = cuda::open_driver();
    const Library* const library = concerns(row, driver) ? library_of(function) : nullptr;
    if (library != nullptr) {
        const Invocation invocation(driver, *library, call, function, words);
        try {
            const std::optional<int> result =
                invocation.no_comm() ? std::nullopt : row.handler(invocation);
            if (result) {
                return *result;
            }
        } catch (const std::exception& error) {
            return fail(*library, call, words, error);
        }
    }
    return apply(function, call, words);
}

} // namespace gdr::mpi
