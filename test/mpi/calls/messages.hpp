// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls that send and receive, and that pack, each in all its forms.
#pragma once

#include "call.hpp"

#include <optional>

namespace calls {

// Even ranks send to the next odd one, which a last one does not have.
inline bool is_sender()
{
    return rank % 2 == 0;
}
inline bool is_alone()
{
    return is_sender() && rank + 1 == ranks;
}
inline int partner()
{
    return is_sender() ? rank + 1 : rank - 1;
}

constexpr int kTag = 7, kReadyTag = 8;

// Room for a message of MPI_Bsend.
class Attached {
  public:
    explicit Attached(int count) : room_(count * sizeof(int) + MPI_BSEND_OVERHEAD)
    {
        MPI_Buffer_attach(room_.data(), static_cast<int>(room_.size()));
    }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    ~Attached()
    {
        void* detached;
        int size;
        MPI_Buffer_detach(&detached, &size);
    }

  private:
    std::vector<char> room_;
};

template <class Count>
void send(const Form& form, int n)
{
    if (is_alone()) {
        return;
    }
    const bool is_ready = form.name.find("rsend") != std::string::npos ||
                          form.name.find("Rsend") != std::string::npos;
    int ready = 1;
    const size_t times = form.starts().size();
    Buffer buffer(n, is_sender() ? mark(rank) : 0);
    if (is_sender()) {
        std::optional<Attached> room; // the process has but one
        if (form.name.find("bsend") != std::string::npos ||
            form.name.find("Bsend") != std::string::npos) {
            room.emplace(times * (n + MPI_BSEND_OVERHEAD));
        }
        if (is_ready) {
            MPI_Recv(&ready, 1, MPI_INT, partner(), kReadyTag, world, MPI_STATUS_IGNORE);
        }
        sending(form, buffer.data(), Count{n}, buffer.type(), partner(), kTag, world);
        return;
    }
    Buffer earlier(n, 0);
    std::vector<MPI_Request> requests(times);
    for (size_t i = 0; i < times; ++i) {
        MPI_Irecv((i + 1 < times ? earlier : buffer).data(), n, buffer.type(), partner(), kTag,
                  world, &requests[i]);
    }
    if (is_ready) {
        MPI_Send(&ready, 1, MPI_INT, partner(), kReadyTag, world);
    }
    MPI_Waitall(static_cast<int>(times), requests.data(), MPI_STATUSES_IGNORE);
    buffer.expect(0, n, mark(partner()));
}

// The partner sends as often as the receive is started.
inline void receive_by(const Form& form, int n, const std::function<void(Buffer&)>& receive)
{
    if (is_alone()) {
        return;
    }
    Buffer buffer(n, is_sender() ? mark(rank) : 0);
    if (is_sender()) {
        for (const int more : form.starts()) {
            Buffer::set_all(more);
            MPI_Send(buffer.data(), n, buffer.type(), partner(), kTag, world);
        }
        return;
    }
    receive(buffer);
    buffer.expect(0, n, mark(partner()));
}

template <class Count>
void receive(const Form& form, int n)
{
    receive_by(form, n, [&](Buffer& buffer) {
        receiving(form, buffer.data(), Count{n}, buffer.type(), partner(), kTag, world);
    });
}

template <class Count>
void receive_matched(const Form& form, int n)
{
    receive_by(form, n, [&](Buffer& buffer) {
        MPI_Message message;
        MPI_Mprobe(partner(), kTag, world, &message, MPI_STATUS_IGNORE);
        receiving(form, buffer.data(), Count{n}, buffer.type(), &message);
    });
}

template <class Count>
void send_and_receive(const Form& form, int n)
{
    Buffer out(n, mark(rank)), in(n, 0);
    receiving(form, out.data(), Count{n}, out.type(), next(), kTag, in.data(), Count{n}, in.type(),
              previous(), kTag, world);
    in.expect(0, n, mark(previous()));
}

template <class Count>
void send_and_replace(const Form& form, int n)
{
    Buffer buffer(n, mark(rank));
    receiving(form, buffer.data(), Count{n}, buffer.type(), next(), kTag, previous(), kTag, world);
    buffer.expect(0, n, mark(previous()));
}

// The room is on the GPU, too, and comes back as it was given. of: what it is attached to, if not
// to the process.
template <class Count, class... Of>
void attach(const Form& form, int n, MPI_Comm comm, Of... of)
{
    if (is_alone()) {
        return;
    }
    Buffer buffer(n, is_sender() ? mark(rank) : 0);
    if (!is_sender()) {
        MPI_Recv(buffer.data(), n, buffer.type(), partner(), kTag, comm, MPI_STATUS_IGNORE);
        buffer.expect(0, n, mark(partner()));
        return;
    }
    Buffer room(static_cast<size_t>(n) + MPI_BSEND_OVERHEAD, 0, Layout::contiguous);
    const Count length = n * static_cast<Count>(sizeof(int)) + MPI_BSEND_OVERHEAD;
    invoke(form.name, of..., static_cast<void*>(room.data()), length);
    MPI_Bsend(buffer.data(), n, buffer.type(), partner(), kTag, comm);
    void* detached;
    Count size = 0;
    std::string detach = form.name;
    invoke(detach.replace(detach.find("attach"), 6, "detach"), of..., static_cast<void*>(&detached),
           &size);
    if (detached != room.data() || size != length) {
        ++wrong;
    }
}

template <class Count>
void attach_to_process(const Form& form, int n)
{
    attach<Count>(form, n, world);
}

template <class Count>
void attach_to_communicator(const Form& form, int n)
{
    MPI_Comm comm;
    MPI_Comm_dup(world, &comm);
    attach<Count>(form, n, comm, comm);
    MPI_Comm_free(&comm);
}

template <class Count>
void attach_to_session([[maybe_unused]] const Form& form, [[maybe_unused]] int n)
{
#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "calls", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    attach<Count>(form, n, comm, session);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
#endif
}

// Into what is packed on the GPU, in two parts.
template <class Count>
void pack(const Form& form, int n)
{
    Buffer in(n, mark(rank)), out(n, 0);
    int size;
    MPI_Pack_size(n, in.type(), world, &size);
    Buffer packed(size / sizeof(int) + 1, 0, Layout::contiguous);
    const bool unpacks = form.name.find("Unpack") != std::string::npos;
    Count at = 0;
    int small_at = 0;
    for (const auto& [first, count] : {std::pair(0, n - 1), std::pair(n - 1, 1)}) {
        if (unpacks) {
            MPI_Pack(in.at(first), count, in.type(), packed.data(), size, &small_at, world);
        } else {
            invoke(form.name, in.at(first), Count{count}, in.type(), packed.data(), Count{size},
                   &at, world);
        }
    }
    at = small_at = 0;
    if (unpacks) {
        invoke(form.name, packed.data(), Count{size}, &at, out.data(), Count{n}, out.type(), world);
    } else {
        MPI_Unpack(packed.data(), size, &small_at, out.data(), n, out.type(), world);
    }
    out.expect(0, n, mark(rank));
}

// MPI_Aint where the large form has MPI_Count.
template <class Count>
using ExternalSize = std::conditional_t<std::is_same_v<Count, int>, MPI_Aint, MPI_Count>;

template <class Count>
void pack_external(const Form& form, int n)
{
    Buffer in(n, mark(rank)), packed(n, 0, Layout::contiguous), out(n, 0);
    const bool unpacks = form.name.find("Unpack") != std::string::npos;
    const auto bytes = n * static_cast<MPI_Aint>(sizeof(int));
    const char* const external = "external32";
    ExternalSize<Count> at = 0;
    MPI_Aint small_at = 0;
    if (unpacks) {
        MPI_Pack_external(external, in.data(), n, in.type(), packed.data(), bytes, &small_at);
        invoke(form.name, external, packed.data(), ExternalSize<Count>{bytes}, &at, out.data(),
               Count{n}, out.type());
    } else {
        invoke(form.name, external, in.data(), Count{n}, in.type(), packed.data(),
               ExternalSize<Count>{bytes}, &at);
        MPI_Unpack_external(external, packed.data(), bytes, &small_at, out.data(), n, out.type());
    }
    packed.expect(0, n, [](size_t i) {
        return static_cast<int>(__builtin_bswap32(mark(rank) + static_cast<unsigned>(i)));
    });
    out.expect(0, n, mark(rank));
}

// In four partitions, twice, by the call of that name where the rank's side has it.
inline void partitioned(const std::string& name, int n)
{
    if (is_alone()) {
        return;
    }
    constexpr int kPartitions = 4;
    const std::string init = is_sender() ? "MPI_Psend_init" : "MPI_Precv_init";
    Buffer buffer(n, is_sender() ? mark(rank) : 0);
    MPI_Request request;
    invoke(init, static_cast<void*>(buffer.data()), kPartitions, MPI_Count{n / kPartitions},
           buffer.type(), partner(), kTag, world, MPI_INFO_NULL, &request);
    for (int round = 0; round < 2; ++round) {
        MPI_Start(&request);
        if (!is_sender()) {
            for (int i = kPartitions; i-- > 0 && name == "MPI_Parrived";) {
                for (int arrived = 0; arrived == 0;) {
                    invoke(name, request, i, &arrived);
                }
                buffer.expect(static_cast<size_t>(i) * (n / kPartitions), n / kPartitions,
                              mark(partner()) + i * (n / kPartitions));
            }
        } else if (name == "MPI_Pready_range") {
            invoke(name, 2, 3, request);
            invoke(name, 0, 1, request);
        } else if (name == "MPI_Pready_list") {
            const int list[] = {3, 0, 2, 1};
            invoke(name, kPartitions, list, request);
        } else {
            for (int i = kPartitions; i-- > 0;) {
                invoke("MPI_Pready", i, request);
            }
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (!is_sender()) {
            buffer.expect(0, n, mark(partner()));
        }
    }
    MPI_Request_free(&request);
}

inline std::vector<Call> message_calls()
{
    std::vector<Call> made;
    for (const char* kind : {"Send", "Ssend", "Rsend", "Bsend"}) {
        add_forms(made, with_persistent(kind), send<int>, send<MPI_Count>);
    }
    add_forms(made, with_persistent("Recv"), receive<int>, receive<MPI_Count>);
    add_forms(made, with_nonblocking("Mrecv"), receive_matched<int>, receive_matched<MPI_Count>);
    add_forms(made, with_nonblocking("Sendrecv"), send_and_receive<int>,
              send_and_receive<MPI_Count>);
    add_forms(made, with_nonblocking("Sendrecv_replace"), send_and_replace<int>,
              send_and_replace<MPI_Count>);
    for (const char* name : {"MPI_Psend_init", "MPI_Precv_init", "MPI_Pready", "MPI_Pready_range",
                             "MPI_Pready_list", "MPI_Parrived"}) {
        made.push_back({name, [=](int count) { partitioned(name, count); }});
    }
    add_forms(made, blocking("Buffer_attach"), attach_to_process<int>,
              attach_to_process<MPI_Count>);
    add_forms(made, blocking("Comm_attach_buffer"), attach_to_communicator<int>,
              attach_to_communicator<MPI_Count>);
    add_forms(made, blocking("Session_attach_buffer"), attach_to_session<int>,
              attach_to_session<MPI_Count>);
    for (const char* name : {"Pack", "Unpack"}) {
        add_forms(made, blocking(name), pack<int>, pack<MPI_Count>);
    }
    for (const char* name : {"Pack_external", "Unpack_external"}) {
        add_forms(made, blocking(name), pack_external<int>, pack_external<MPI_Count>);
    }
    return made;
}

} // namespace calls
