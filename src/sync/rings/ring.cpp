// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/rings/ring.hpp"

#include "sync/ucx-gdr/ugdr_initiate.cuh"

#include <algorithm>
#include <utility>

namespace gdr::sync {
namespace {

using Kind = Transfer::Kind;

static_assert(ugdr_detail::kPut == unsigned(Kind::put) &&
              ugdr_detail::kPutSignalSet == unsigned(Kind::put_signal_set) &&
              ugdr_detail::kPutSignalAdd == unsigned(Kind::put_signal_add) &&
              ugdr_detail::kPutValue == unsigned(Kind::put_value) &&
              ugdr_detail::kGet == unsigned(Kind::get) &&
              ugdr_detail::kAdd == unsigned(Kind::add) &&
              ugdr_detail::kFetchAdd == unsigned(Kind::fetch_add));
static_assert(sizeof(Entry) == ugdr_detail::kEntryWords * sizeof(uint64_t));
static_assert(sizeof(Completed) == ugdr_detail::kCompletedWords * sizeof(uint64_t));
static_assert(Completed::kStatusBits == ugdr_detail::kStatusBits);

// What each kind is called, and has.
struct Traits {
    const char* name;
    bool local, signal;
    bool word;  // the remote part is a word
    bool reads; // to local memory
};
constexpr std::array<Traits, 7> kTraits{{
    {"ugdr_dev_put", true, false, false, false},
    {"ugdr_dev_put_signal", true, true, false, false},
    {"ugdr_dev_put_signal", true, true, false, false},
    {"ugdr_dev_put_value", false, false, false, false},
    {"ugdr_dev_get", true, false, false, true},
    {"ugdr_dev_atomic_add", false, false, true, false},
    {"ugdr_dev_atomic_fetch_add", true, false, true, true},
}};

constexpr uint64_t kWord = sizeof(uint64_t);

const Traits& traits_of(Kind kind)
{
    return kTraits[static_cast<size_t>(kind)];
}

// Why the part is none of the memory; empty if it is one.
std::string outside(const char* which, uint64_t memory, uint64_t offset, uint64_t length)
{
    if (is_within(memory, offset, length)) {
        return {};
    }
    return std::to_string(length) + " bytes at " + std::to_string(offset) + " are not within the " +
           which + " memory of " + std::to_string(memory) + " bytes";
}

// A word has to be within, and aligned.
std::string no_word(const char* which, uint64_t address, uint64_t memory, uint64_t offset)
{
    std::string cause = outside(which, memory, offset, kWord);
    if (cause.empty() && (address + offset) % kWord != 0) {
        cause = std::string("the ") + which + " word at " + std::to_string(offset) +
                " is not aligned to 8 bytes";
    }
    return cause;
}

} // namespace

Ring::Ring(const Place& place, Memories& memories, RemoteMemories& remote_memories,
           RingEvents& events)
    : place_(place), memories_(memories), remote_memories_(remote_memories), events_(events),
      flights_(size_t{1} << place.log_entries)
{
    posted_.reserve(kAtOnce);
    busy_.reserve(flights_.size());
}

unsigned Ring::progress()
{
    unsigned events = post_some();
    for (Lane* lane : posted_) {
        lane->submit();
    }
    posted_.clear();
    events += poll();
    tell_of_completed();
    return events;
}

// ---- entries

bool Ring::is_new(uint64_t ticket) const
{
    const uint64_t lap = ~(ticket >> place_.log_entries) & 1;
    return (place_.entries[index(ticket)].words[0].load(std::memory_order_acquire) & 1) == lap;
}

// The entry of the next ticket; false if it is not there, or not all of it.
bool Ring::read(Words& words) const
{
    const uint64_t ticket = taken_.load(std::memory_order_relaxed);
    if (!is_new(ticket)) {
        return false;
    }
    const Entry& entry = place_.entries[index(ticket)];
    __builtin_prefetch(&place_.entries[index(ticket + kAhead)]); // no cache has what a GPU wrote
    const uint64_t lap = ~(ticket >> place_.log_entries) & 1;
    const uint64_t taken = entry.words.back().load(std::memory_order_acquire);
    bool all = (taken & 1) == lap;
    for (size_t i = 0; i < words.size(); ++i) {
        const uint64_t word = entry.words[i].load(std::memory_order_acquire);
        all = all && (word & 1) == lap;
        words[i] = word >> 1 | (taken >> (i + 1)) << 63;
    }
    return all;
}

// Checks the entry and has its memories in use. From then on next_ is to be posted, or it is over.
void Ring::take(const Words& words)
{
    const uint64_t ticket = taken_.load(std::memory_order_relaxed);
    Flight& flight = flights_[index(ticket)];
    flight = {};
    ucs_status_t status = UCS_ERR_INVALID_PARAM;
    const std::string cause = check(words, flight, status);
    taken_.store(ticket + 1, std::memory_order_relaxed);
    if (!cause.empty()) {
        lane_ = nullptr;
        fail(ticket, status, std::string(traits_of(flight.kind).name) + ": " + cause);
    }
}

// Fills next_ and lane_. Returns why the operation is impossible.
std::string Ring::check(const Words& words, Flight& flight, ucs_status_t& status)
{
    const uint64_t kind = words[0] >> 32;
    if (kind >= kTraits.size()) {
        return "an entry of kind " + std::to_string(kind) + ", which there is not";
    }
    flight.kind = static_cast<Kind>(kind);
    const Traits& traits = traits_of(flight.kind);
    next_ = {.kind = flight.kind,
             .length = static_cast<uint32_t>(words[0]),
             .local = nullptr,
             .offset = words[3],
             .remote = nullptr,
             .remote_offset = words[4],
             .signal = nullptr,
             .signal_offset = words[5],
             .value = words[6],
             .ticket = taken_.load(std::memory_order_relaxed)};
    const auto local = static_cast<uint32_t>(words[1]), remote = uint32_t(words[1] >> 32),
               signal = static_cast<uint32_t>(words[2]);
    std::string cause;
    if (traits.local) {
        next_.local = memories_.use(number_of(local));
        if (next_.local == nullptr) {
            return "there is no local memory of the id " + std::to_string(local);
        }
        flight.local = number_of(local);
        flight.flush = traits.reads && place_.flushes && !next_.local->host;
        cause = traits.word
                    ? no_word("local", next_.local->address, next_.local->length, next_.offset)
                    : outside("local", next_.local->length, next_.offset, next_.length);
    }
    next_.remote = remote_memories_.use(number_of(remote));
    if (next_.remote == nullptr) {
        return "there is no remote memory of the id " + std::to_string(remote);
    }
    flight.remote = number_of(remote);
    if (cause.empty()) {
        cause = traits.word
                    ? no_word("remote", next_.remote->address, next_.remote->length,
                              next_.remote_offset)
                    : outside("remote", next_.remote->length, next_.remote_offset, next_.length);
    }
    if (traits.signal) {
        next_.signal = remote_memories_.use(number_of(signal));
        if (next_.signal == nullptr) {
            return "there is no remote memory of the signal's id " + std::to_string(signal);
        }
        flight.signal = number_of(signal);
        if (cause.empty()) {
            cause = next_.signal->lanes != next_.remote->lanes
                        ? "the signal is of another peer than the data"
                        : no_word("signal's", next_.signal->address, next_.signal->length,
                                  next_.signal_offset);
        }
    }
    if (cause.empty() && flight.kind == Kind::put_value &&
        (next_.length == 0 || next_.length > kWord)) {
        cause = std::to_string(next_.length) + " bytes of a value: 1 to 8";
    }
    if (!cause.empty()) {
        return cause;
    }
    lane_ = next_.remote->lanes->of(place_.channel);
    if (lane_ == nullptr) {
        status = UCS_ERR_NOT_CONNECTED;
        return "the peer is not connected, or has no channel " + std::to_string(place_.channel);
    }
    return {};
}

bool Ring::post()
{
    if (!lane_->post(next_)) {
        return false;
    }
    if (lane_->under_way++ == 0) {
        busy_.push_back(lane_);
    }
    if (std::find(posted_.begin(), posted_.end(), lane_) == posted_.end()) {
        posted_.push_back(lane_);
    }
    lane_ = nullptr;
    return true;
}

unsigned Ring::post_some()
{
    unsigned count = 0;
    for (Words words; count < kAtOnce; ++count) {
        if (lane_ == nullptr) {
            if (!read(words)) {
                break;
            }
            take(words);
        }
        if (lane_ != nullptr && !post()) {
            break;
        }
    }
    return count;
}

// ---- completion

unsigned Ring::poll()
{
    unsigned count = 0;
    for (size_t i = 0; i < busy_.size();) {
        Lane* lane = busy_[i];
        const unsigned over = lane->poll(*this);
        count += over;
        lane->under_way -= over;
        if (lane->under_way == 0) {
            busy_[i] = busy_.back();
            busy_.pop_back();
        } else {
            ++i;
        }
    }
    return count;
}

void Ring::retired(uint64_t ticket, ucs_status_t status)
{
    if (status != UCS_OK) {
        fail(ticket, status, {});
    } else {
        flights_[index(ticket)].over = true;
    }
}

// what: empty if the lane has told.
void Ring::fail(uint64_t ticket, ucs_status_t status, const std::string& what)
{
    Flight& flight = flights_[index(ticket)];
    flight.over = true;
    flight.flush = false;
    if (status_ == UCS_OK) {
        status_ = status;
        events_.failed(status,
                       what.empty() ? std::string(traits_of(flight.kind).name) + " failed" : what);
    }
}

// In the order of tickets: what is complete behind one that is not has to wait. Memories are given
// back after the lanes were polled, since then a peer may end, and before kernels are told.
void Ring::tell_of_completed()
{
    const uint64_t before = completed_, taken = taken_.load(std::memory_order_relaxed);
    bool flushed = false;
    for (; completed_ != taken && flights_[index(completed_)].over; ++completed_) {
        Flight& flight = flights_[index(completed_)];
        if (flight.flush && !flushed) {
            events_.flush();
            flushed = true;
        }
        give_back(flight);
    }
    if (completed_ != before) {
        place_.completed->tell(completed_, status_);
    }
}

void Ring::give_back(Flight& flight)
{
    if (flight.local != 0) {
        memories_.give_back(flight.local);
    }
    for (const uint32_t number : {flight.remote, flight.signal}) {
        if (number != 0) {
            remote_memories_.give_back(number);
        }
    }
}

bool Ring::busy() const
{
    const uint64_t told =
        place_.completed->word.load(std::memory_order_acquire) >> Completed::kStatusBits;
    const uint64_t taken = taken_.load(std::memory_order_relaxed);
    return told != taken || is_new(taken);
}

void Ring::abandon()
{
    place_.completed->tell(Completed::kAll, status_ != UCS_OK ? status_ : UCS_ERR_CANCELED);
}

} // namespace gdr::sync
