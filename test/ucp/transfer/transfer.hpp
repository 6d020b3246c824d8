// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What ucp_transfer's operations share: the case being run, this rank's place among the others,
// and buffers to and from each peer. Data moves in both directions between rank 0 and every other
// rank at the same time: two ranks are a pair, five are four to one (and one to four).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../support/endpoints.hpp"
#include "../support/in_flight.hpp"
#include "../support/messages.hpp"
#include "../support/ranks.hpp"
#include "../support/report.hpp"

namespace ucptest {

struct Case;

struct Place {
    Ranks& ranks;
    Worker& worker;
    Endpoints& endpoints;
    Report& report;
};

struct Operation {
    const char* name;
    uint64_t features; // UCP_FEATURE_*
    bool sized;        // runs once for every size and layout
    void (*run)(Place&, const Case&);
};

const std::vector<Operation>& operations();

// near is the side that calls send, put, get or the atomic; far the other one.
struct Case {
    const Operation* operation;
    size_t size;
    MemoryKind near;
    MemoryKind far;
    bool near_scattered;
    bool far_scattered;
    size_t window;   // messages in flight to every peer
    uint64_t number; // differs between all cases of a run

    std::string name() const;
    // The pattern of what moves from one rank to another in this case.
    uint64_t seed(int from, int to) const;
};

// This rank's buffers for one peer. The near one is used by this rank's operations; the peer's
// operations reach the far one.
struct Flow {
    explicit Flow(const Case& c)
        : near(c.near, c.size, c.window, c.near_scattered),
          far(c.far, c.size, c.window, c.far_scattered)
    {
    }
    Messages near;
    Messages far;
};

// For sends and puts the near buffers hold data and the far ones are empty; for gets it is the
// other way round. After the operation both must hold data.
enum class Direction { kToFar, kFromFar };

class Flows {
  public:
    Flows(Place& place, const Case& c, Direction direction);

    Flow& with(int peer) { return *flows_.at(peer); }
    // Reports every buffer that is not as it must be.
    void check();

  private:
    Place& place_;
    const Case& case_;
    Direction direction_;
    std::map<int, std::unique_ptr<Flow>> flows_;
};

void tag_expected(Place& place, const Case& c);
void tag_unexpected(Place& place, const Case& c);
void tag_synchronous(Place& place, const Case& c);
void am(Place& place, const Case& c);
void am_eager(Place& place, const Case& c);
void am_rendezvous(Place& place, const Case& c);
void stream(Place& place, const Case& c);
void put(Place& place, const Case& c);
void get(Place& place, const Case& c);
void atomic_add(Place& place, const Case& c);
void atomic_fetch_add(Place& place, const Case& c);
void atomic_swap(Place& place, const Case& c);
void atomic_compare_swap(Place& place, const Case& c);
void atomic_bitwise(Place& place, const Case& c);

} // namespace ucptest
