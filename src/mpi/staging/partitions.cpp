// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Several threads may use the same request at once, even while another waits for it. So the request
// is found in a table of its own, from which none is taken out.
#include "mpi/staging/partitions.hpp"

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

// nullptr: not one of ours.
std::shared_ptr<Partitions> partitions_of(const Invocation& invocation)
{
    return table().find(invocation.handle(invocation.call().request));
}

// Those of a request that sends; nullptr: none.
std::shared_ptr<Partitions> sent_partitions(const Invocation& invocation)
{
    auto partitions = partitions_of(invocation);
    return partitions && partitions->sends() ? partitions : nullptr;
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

std::optional<int> init_partitions(const Invocation& invocation)
{
    const Library& library = invocation.library();
    const cuda::Driver& driver = *invocation.driver();
    const Word type = invocation.handle(kType);
    const auto count = static_cast<int64_t>(invocation.words()[kCount]); // MPI_Count
    const int64_t parts = std::max(0, invocation.integer(kNumber));
    if (type == library.datatype_null || count < 0) {
        return std::nullopt;
    }
    intptr_t lower = 0, extent = 0;
    library.Type_get_extent(type, &lower, &extent);
    Footprint whole;
    whole.add(library, type, parts * count, 0);
    KnownDeviceMemory known(driver);
    if (invocation.pointer(kBuffer) == nullptr &&
        !in_one_memory(pieces_of(known, nullptr, whole))) {
        throw std::runtime_error(kSeveralMemories);
    }
    const cuda::Pointer* const memory =
        whole.empty() ? nullptr
                      : known.find(static_cast<char*>(invocation.pointer(kBuffer)) + whole.low());
    if (memory == nullptr) {
        return std::nullopt;
    }
    std::vector<Footprint> footprints(static_cast<size_t>(parts));
    for (int64_t i = 0; i < parts; ++i) {
        footprints[static_cast<size_t>(i)].add(library, type, count, i * count * extent);
    }
    auto partitions = std::make_shared<Partitions>(driver, *memory, invocation, std::move(whole),
                                                   std::move(footprints));
    Operation operation(PartitionedShadow{partitions}, !partitions->sends());
    invocation.words()[kBuffer] = partitions->address();
    const int result = invocation.make();
    if (result != 0) {
        return result;
    }
    const Word request = library.abi->handle_at(invocation.pointer(invocation.call().request), 0);
    table().put(request, partitions);
    add_request(library, request, std::move(operation), true, true);
    return result;
}

std::optional<int> ready(const Invocation& invocation)
{
    if (const auto partitions = sent_partitions(invocation)) {
        partitions->ready(invocation.integer(0));
    }
    return std::nullopt;
}

std::optional<int> ready_range(const Invocation& invocation)
{
    if (const auto partitions = sent_partitions(invocation)) {
        for (int i = invocation.integer(0); i <= invocation.integer(1); ++i) {
            partitions->ready(i);
        }
    }
    return std::nullopt;
}

std::optional<int> ready_list(const Invocation& invocation)
{
    const auto* const list = static_cast<const int*>(invocation.pointer(1));
    const auto partitions = list != nullptr ? sent_partitions(invocation) : nullptr;
    if (partitions) {
        for (int i = 0; i < invocation.integer(0); ++i) {
            partitions->ready(list[i]);
        }
    }
    return std::nullopt;
}

std::optional<int> arrived(const Invocation& invocation)
{
    const auto partitions = partitions_of(invocation);
    if (!partitions) {
        return std::nullopt;
    }
    const int result = invocation.make();
    if (result == 0 && *static_cast<const int*>(invocation.pointer(2)) != 0) {
        partitions->arrived(invocation.integer(1));
    }
    return result;
}

} // namespace gdr::mpi
