// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What one MPI call has staged: from the call until it is complete; for a persistent request, until
// that is freed.
#pragma once

#include "mpi/interface/arguments.hpp"
#include "mpi/interface/byte_type.hpp"
#include "mpi/staging/gathered_shadow.hpp"
#include "mpi/staging/packed_shadow.hpp"
#include "mpi/staging/partitions.hpp"
#include "mpi/staging/shadow_buffer.hpp"

#include <array>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace gdr::mpi {

// Checks the types that MPI will not see, since it gets bytes instead: MPI reports one that is not
// committed. Returns what MPI returns; its error handler has been called.
int check_types(const Arguments& arguments);

class Operation {
  public:
    // Replaces, in the arguments, each buffer on a GPU that the library would access with the CPU.
    // Fetches the data, except for a persistent request. Throws cuda::Error, std::bad_alloc.
    Operation(KnownDeviceMemory& memory, const Arguments& arguments);

    // For a shadow buffer that exists already. put_back: the call receives into it.
    Operation(PartitionedShadow shadow, bool put_back);

    bool replaces() const { return parts_.front().has_value() || replaces_; }

    // Whether put_back() needs the number of received bytes.
    bool counted() const;

    // Copies what is sent, and what a receive may leave unchanged, to the shadow buffers; complete
    // once the copies have ended. To be called at each start of a persistent request. Throws
    // cuda::Error.
    void fetch(RowCopies& copies) const { fetch_from(0, copies); }

    // Copies received data back: the first `received` bytes of a message, if counted(). Throws
    // cuda::Error.
    void put_back(uint64_t received = 0) const;

  private:
    enum class PutBack : uint8_t { none, received, all };

    struct Moves {
        bool fetched;
        PutBack put_back;
    };

    // For a shadow buffer that cannot be put back in part.
    static Moves whole(Moves moves)
    {
        return moves.put_back == PutBack::received ? Moves{true, PutBack::all} : moves;
    }

    struct Part {
        template <typename What, typename... From>
        Part(std::in_place_type_t<What> what, Moves moves, From&&... from)
            : shadow(what, std::forward<From>(from)...), moves(moves)
        {
        }
        std::variant<ShadowBuffer, PackedShadow, GatheredShadow, PartitionedShadow> shadow;
        Moves moves;
    };

    static void put_back(const Part& part, uint64_t received);

    size_t fetch_from(size_t part, RowCopies& copies) const;

    template <typename What, typename... From>
    const What& add(Moves moves, From&&... from);

    void stage_side(KnownDeviceMemory& memory, const Arguments& arguments, const Group& group,
                    const Side& side, Moves moves);

    void stage(KnownDeviceMemory& memory, const Arguments& arguments, Side side,
               Footprint&& footprint, Moves moves);

    void stage_aliased(KnownDeviceMemory& memory, const Arguments& arguments, const Group& group);

    bool gather(KnownDeviceMemory& memory, const Arguments& arguments, const Group& group,
                const Side& side, const Footprint& footprint, Moves moves);

    void tell_of_bytes(const Arguments& arguments, const Side& side, int element, uint64_t all);

    bool pass_on_or_pack(const cuda::Driver& driver, const Arguments& arguments, const Side& side,
                         const cuda::Pointer& memory, Footprint& footprint, Moves moves);

    std::array<std::optional<Part>, 3> parts_; // send, compare and receive, or fewer
    std::vector<ByteType> types_;              // which MPI gets instead of the user's
    bool replaces_ = false;                    // an argument, if not a buffer
};

} // namespace gdr::mpi
