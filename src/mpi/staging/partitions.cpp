// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Several threads may use the same request at once, even while another waits for it. So the request
// is found in a table of its own, from which none is taken out.
#include "mpi/staging/partitions.hpp"

#include "mpi/interface/apply.hpp"
#include "mpi/interface/failure.hpp"
#include "mpi/staging/pieces.hpp"
#include "mpi/staging/requests.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace gdr::mpi {

namespace {

enum { kBuffer, kNumber, kCount, kType }; // arguments of MPI_Psend_init and MPI_Precv_init

std::atomic<size_t> number{0}; // of all partitioned requests

struct Table {
    std::mutex mutex;
    std::unordered_map<Word, std::weak_ptr<Partitions>> by_request;

    void put(Word request, const std::shared_ptr<Partitions>& partitions)
    {
        const std::lock_guard lock(mutex);
        std::erase_if(by_request, [](const auto& known) { return known.second.expired(); });
        by_request.insert_or_assign(request, partitions);
    }
    std::shared_ptr<Partitions> find(Word request)
    {
        const std::lock_guard lock(mutex);
        const auto known = by_request.find(request);
        return known == by_request.end() ? nullptr : known->second.lock();
    }
};

Table& table()
{
    static auto& instance = *new Table; // static destructors may still call MPI
    return instance;
}

void tell_ready(const Call& call, Partitions& partitions, const Word* words)
{
    switch (call.kind) {
    case Kind::ready:
        partitions.ready(static_cast<int>(words[0]));
        break;
    case Kind::ready_range:
        for (int i = static_cast<int>(words[0]); i <= static_cast<int>(words[1]); ++i) {
            partitions.ready(i);
        }
        break;
    case Kind::ready_list:
        for (int i = 0; words[1] != 0 && i < static_cast<int>(words[0]); ++i) {
            partitions.ready(reinterpret_cast<const int*>(words[1])[i]);
        }
        break;
    default:
        break;
    }
}

} // namespace

Partitions::Partitions(const cuda::Driver& driver, const cuda::Pointer& memory,
                       const Arguments& arguments, Footprint whole, std::vector<Footprint> parts)
    : shadow_(driver, memory, arguments.pointer(kBuffer), std::move(whole)),
      parts_(std::move(parts)), sends_(arguments.call().send.exists()), awaited_(parts_.size())
{
    ++number;
}

Partitions::~Partitions()
{
    --number;
}

// Bytes that are not received must keep their old contents.
void Partitions::begin(RowCopies& copies)
{
    if (sends_) {
        return;
    }
    shadow_.fetch(copies);
    const std::lock_guard lock(mutex_);
    awaited_.assign(parts_.size(), true);
}

void Partitions::end()
{
    const std::lock_guard lock(mutex_);
    EachStep steps;
    for (size_t i = 0; i < parts_.size(); ++i) {
        steps.attempt([&] { put_back(i); });
    }
    steps.end();
}

void Partitions::ready(int partition)
{
    if (partition >= 0 && static_cast<size_t>(partition) < parts_.size()) {
        shadow_.fetch(parts_[static_cast<size_t>(partition)]);
    }
}

void Partitions::arrived(int partition)
{
    const std::lock_guard lock(mutex_);
    if (partition >= 0 && static_cast<size_t>(partition) < parts_.size()) {
        put_back(static_cast<size_t>(partition));
    }
}

void Partitions::put_back(size_t partition)
{
    if (!awaited_[partition]) {
        return;
    }
    shadow_.put_back(parts_[partition]);
    awaited_[partition] = false;
}

const std::atomic<size_t>& number_of_partitions()
{
    return number;
}

int init_partitions(const cuda::Driver& driver, const Arguments& arguments,
                    gdr_mpi_function* function)
{
    const Library& library = arguments.library();
    const Call& call = arguments.call();
    Word* const words = arguments.words();
    const Word type = arguments.handle(kType);
    const auto count = static_cast<int64_t>(words[kCount]); // MPI_Count
    const int64_t parts = std::max(0, arguments.integer(kNumber));
    if (type == library.datatype_null || count < 0) {
        return apply(function, call, words);
    }
    intptr_t lower = 0, extent = 0;
    library.Type_get_extent(type, &lower, &extent);
    Footprint whole;
    whole.add(library, type, parts * count, 0);
    KnownDeviceMemory known(driver);
    if (arguments.pointer(kBuffer) == nullptr && !in_one_memory(pieces_of(known, nullptr, whole))) {
        throw std::runtime_error(kSeveralMemories);
    }
    const cuda::Pointer* const memory =
        whole.empty() ? nullptr
                      : known.find(static_cast<char*>(arguments.pointer(kBuffer)) + whole.low());
    if (memory == nullptr) {
        return apply(function, call, words);
    }
    std::vector<Footprint> footprints(static_cast<size_t>(parts));
    for (int64_t i = 0; i < parts; ++i) {
        footprints[static_cast<size_t>(i)].add(library, type, count, i * count * extent);
    }
    auto partitions = std::make_shared<Partitions>(driver, *memory, arguments, std::move(whole),
                                                   std::move(footprints));
    Operation operation(PartitionedShadow{partitions}, !partitions->sends());
    words[kBuffer] = partitions->address();
    const int result = apply(function, call, words);
    if (result != 0) {
        return result;
    }
    try {
        const Word request =
            library.abi->handle_at(reinterpret_cast<void*>(words[call.request]), 0);
        table().put(request, partitions);
        add_request(library, request, std::move(operation), true, true);
    } catch (const std::exception& error) { // MPI must not be called twice
        return fail(library, call, words, error);
    }
    return result;
}

int call_with_partitions(const Library& library, const Call& call, gdr_mpi_function* function,
                         Word* words)
{
    const auto partitions = table().find(library.abi->handle(words[call.request]));
    if (!partitions) {
        return apply(function, call, words);
    }
    try {
        if (partitions->sends()) {
            tell_ready(call, *partitions, words);
        }
        const int result = apply(function, call, words);
        if (call.kind == Kind::arrived && result == 0 &&
            *reinterpret_cast<const int*>(words[2]) != 0) {
            partitions->arrived(static_cast<int>(words[1]));
        }
        return result;
    } catch (const std::exception& error) {
        return fail(library, call, words, error);
    }
}

} // namespace gdr::mpi
