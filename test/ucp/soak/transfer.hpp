// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One random transfer over a connection, seen from one side. The initiator offers it, the responder
// prepares memory and says that it is ready, the initiator transfers and says that it is done. Who
// has got the bytes compares each of them.
#pragma once

#include <memory>
#include <optional>
#include <random>

#include "../support/in_flight.hpp"
#include "../support/messages.hpp"
#include "../support/ranks.hpp"
#include "../support/remote_memory.hpp"
#include "board.hpp"

namespace ucptest {

using Random = std::mt19937_64;

// What the two sides say to each other: the header of an active message, whose data is what the
// initiator needs to reach the responder's memory.
struct Note {
    enum class Type : uint32_t { kOffer, kReady, kDone, kLeave, kLeft };
    Type type;
    Kind kind;
    uint64_t id;   // of the transfer, and the seed of its bytes
    uint64_t size; // of each message
    uint64_t count;
};

inline constexpr unsigned kNoteId = 1; // active messages that are notes
inline constexpr unsigned kDataId = 2; // those that are a transfer themselves

struct DataHeader {
    uint64_t id;
    uint64_t index;
};

// The kinds of memory there are, and the random choice among them.
class MemoryKinds {
  public:
    MemoryKinds(bool cuda, bool managed) : cuda_(cuda), managed_(managed) {}
    MemoryKind any(Random& random, bool to_be_written) const;

  private:
    bool cuda_;
    bool managed_;
};

// A transfer to be offered.
Note random_offer(Random& random);

class Transfer {
  public:
    Transfer(Worker& worker, ucp_ep_h ep, const Note& offer, bool initiator,
             const MemoryKinds& kinds, Random& random);

    const Note& offer() const { return offer_; }
    bool initiator() const { return initiator_; }

    // ---- the responder
    // Makes everything ready; what the initiator has to know.
    Bytes prepare();
    // An active message of it has arrived: as an active message's callback.
    ucs_status_t arrived(size_t index, void* data, size_t length, bool rendezvous);
    void initiator_is_done() { done_ = true; }

    // ---- the initiator
    void start(const Bytes& remote);

    // ---- both
    // Whether all is transferred. The text of what is wrong with it, if anything is.
    bool complete() const;
    std::optional<std::string> check();
    uint64_t bytes() const;

    // Nothing will come of it. Operations complete all the same.
    void cancel() { operations_.cancel(); }
    size_t outstanding() const { return operations_.outstanding(); }
    ucs_status_t status() const { return operations_.status(); }
    bool is_late() const { return Clock::now() > deadline_; }
    std::string text() const;

  private:
    size_t offset(size_t index);
    void start_atomics();
    const char* progress() const;
    std::optional<std::string> check_word();

    Worker& worker_;
    ucp_ep_h ep_;
    const Note offer_;
    const bool initiator_;
    const Clock::time_point deadline_;
    Messages messages_;
    std::unique_ptr<ExposedMemory> exposed_;
    std::unique_ptr<RemoteMemory> remote_;
    InFlight operations_;
    DataHeader headers_[4]{}; // of active messages
    std::vector<uint64_t> fetched_;
    const uint64_t one_ = 1;
    size_t received_ = 0; // active messages
    std::string wrong_;   // found in a callback
    bool started_ = false;
    bool done_ = false;
};

} // namespace ucptest
