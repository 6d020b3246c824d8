// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Point to point, and what is packed.
#pragma once

#include "trial.hpp"

namespace compare {

constexpr size_t kRoom = 90000;

inline void bsend(Trial& trial)
{
    int size;
    MPI_Pack_size(5000, MPI_INT, world, &size);
    size = 2 * (size + MPI_BSEND_OVERHEAD);
    char* const buffer = static_cast<char*>(gpu::allocate(static_cast<size_t>(size)));
    MPI_Buffer_attach(buffer, size);
    const Type type = vector(2000, 1, 2);
    char *const out = trial.buffer(20000), *const in = trial.buffer(20000);
    MPI_Request request;
    MPI_Bsend(out, 1, type, next(), 0, world);
    MPI_Ibsend(out, 5000, MPI_INT, next(), 1, world, &request);
    MPI_Recv(in, 1, type, previous(), 0, world, MPI_STATUS_IGNORE);
    MPI_Recv(trial.buffer(20000), 5000, MPI_INT, previous(), 1, world, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    void* detached;
    MPI_Buffer_detach(&detached, &size);
    trial.tell(detached == buffer);
    gpu::free(buffer);
}

inline void packed(Trial& trial)
{
    constexpr int kBytes = 20000;
    const Type type = vector(1000, 1, 2);
    char *const out = trial.buffer(9000), *const packed = trial.buffer(kBytes);
    int at = 100;
    MPI_Pack(out, 1, type, packed, kBytes, &at, world);
    MPI_Pack(out, 17, MPI_CHAR, packed, kBytes, &at, world);
    MPI_Pack(out, 1, type, packed, kBytes, &at, world);
    trial.tell(at);
    char *const in = trial.buffer(9000), *const more = trial.buffer(9000);
    int from = 100;
    MPI_Unpack(packed, kBytes, &from, in, 1, type, world);
    MPI_Unpack(packed, kBytes, &from, more, 17, MPI_CHAR, world);
    MPI_Unpack(packed, kBytes, &from, more + 100, 900, MPI_INT, world);
    trial.tell(from);
    MPI_Sendrecv(packed + 100, at - 100, MPI_PACKED, next(), 0, trial.buffer(kBytes), kBytes,
                 MPI_PACKED, previous(), 0, world, MPI_STATUS_IGNORE);
    MPI_Sendrecv(packed + 100, 4000, MPI_PACKED, next(), 0, trial.buffer(9000), 1, type, previous(),
                 0, world, MPI_STATUS_IGNORE);
    char* const external = trial.buffer(kBytes);
    MPI_Aint place = 8;
    MPI_Pack_external("external32", out, 1, type, external, kBytes, &place);
    trial.tell(place);
    place = 8;
    MPI_Unpack_external("external32", external, kBytes, &place, trial.buffer(9000), 1000, MPI_INT);
    trial.tell(place);
}

inline void matched_probe(Trial& trial)
{
    const Type type = vector(10000, 1, 2);
    char* const out = trial.buffer(kRoom);
    MPI_Request sends[2], receive;
    MPI_Isend(out, 1, type, next(), 5, world, &sends[0]);
    MPI_Isend(out, 6, MPI_INT, next(), 6, world, &sends[1]);
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(previous(), 5, world, &message, &status);
    trial.tell_elements(status, MPI_INT);
    MPI_Imrecv(trial.buffer(kRoom), 10000, MPI_INT, &message, &receive);
    MPI_Wait(&receive, &status);
    trial.tell_elements(status, MPI_INT);
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &message, &status);
    MPI_Mrecv(trial.buffer(kRoom), 1, type, &message, &status);
    trial.tell_elements(status, type);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
}

inline void any_source(Trial& trial)
{
    const Type type = vector(10000, 1, 2);
    char *const out = trial.buffer(kRoom), *const in = trial.buffer(kRoom);
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(in, 1, type, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &request);
    MPI_Send(out, 1, type, next(), 5, world);
    MPI_Wait(&request, &status);
    trial.tell(status.MPI_SOURCE);
    trial.tell_elements(status, type);
}

inline void shorter_than_asked_for(Trial& trial)
{
    const Type type = vector(100, 1, 2);
    char *const out = trial.buffer(kRoom), *const a = trial.buffer(kRoom);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(a, 100, type, previous(), 5, world, &requests[0]);
    MPI_Irecv(trial.buffer(kRoom), 20000, MPI_INT, previous(), 6, world, &requests[1]);
    MPI_Send(out, 1234, MPI_INT, next(), 5, world);
    MPI_Send(out, 777, MPI_INT, next(), 6, world);
    MPI_Waitall(2, requests, statuses);
    trial.tell_elements(statuses[0], type);
    trial.tell_elements(statuses[1], MPI_INT);
}

inline void cancelled(Trial& trial)
{
    const Type type = vector(10000, 1, 2);
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(trial.buffer(kRoom), 1, type, previous(), 99, world, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    int flag;
    MPI_Test_cancelled(&status, &flag);
    trial.tell(flag);
}

inline void various_requests(Trial& trial)
{
    const Type type = vector(2000, 1, 2);
    char *const out = trial.buffer(kRoom), *const in = trial.buffer(kRoom);
    std::vector<MPI_Request> requests(6, MPI_REQUEST_NULL);
    MPI_Irecv(in, 1, type, previous(), 1, world, &requests[1]);
    MPI_Recv_init(in + 40000, 1, type, previous(), 2, world, &requests[2]);
    MPI_Isend(out, 1, type, next(), 1, world, &requests[4]);
    int all = 0;
    while (all < 2) {
        int number, indices[6];
        MPI_Testsome(6, requests.data(), &number, indices, MPI_STATUSES_IGNORE);
        all += number;
    }
    trial.tell(requests[2] != MPI_REQUEST_NULL);
    MPI_Start(&requests[2]);
    MPI_Send(out, 1, type, next(), 2, world);
    MPI_Waitall(6, requests.data(), MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[2]);
}

// Received into the gaps of what is sent.
inline void both_in_one_buffer(Trial& trial)
{
    const Type type = vector(2000, 1, 2);
    char* const buffer = trial.buffer(16008);
    MPI_Request requests[2];
    MPI_Irecv(buffer, 1, type, previous(), 0, world, &requests[0]);
    MPI_Isend(buffer + sizeof(int), 1, type, next(), 0, world, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

inline void partitioned(Trial& trial)
{
#if MPI_VERSION >= 4 && !defined(OPEN_MPI)
    constexpr int kParts = 4;
    Type type = vector(300, 1, 2);
    char* const buffer = trial.buffer(4 * 2400 * (kParts + 1));
    MPI_Request request;
    if (rank == 0)
        MPI_Psend_init(buffer, kParts, 1, type, 1, 0, world, MPI_INFO_NULL, &request);
    else if (rank == 1)
        MPI_Precv_init(buffer, kParts, 1, type, 0, 0, world, MPI_INFO_NULL, &request);
    else
        return;
    type.free();
    for (int i = 0; i < 2; ++i) {
        MPI_Start(&request);
        for (int part = kParts; rank == 0 && part-- > 0;)
            MPI_Pready(part, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
#else
    (void)trial;
#endif
}

inline const Cases kMessages = {
    {"bsend", 1, bsend},
    {"packed", 1, packed},
    {"matched_probe", 2, matched_probe},
    {"any_source", 2, any_source},
    {"shorter_than_asked_for", 2, shorter_than_asked_for},
    {"cancelled", 1, cancelled},
    {"various_requests", 2, various_requests},
    {"both_in_one_buffer", 1, both_in_one_buffer},
    {"partitioned", 2, partitioned},
};

} // namespace compare
