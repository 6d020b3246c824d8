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

inline void any_source_is_itself(Trial& trial)
{
    char *const out = trial.buffer(kRoom), *const in = trial.buffer(kRoom);
    for (const int length : {10, 20000}) {
        MPI_Request request;
        MPI_Status status;
        MPI_Irecv(in, length, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &request);
        MPI_Send(out, length, MPI_INT, rank, 5, world);
        MPI_Wait(&request, &status);
        trial.tell(status.MPI_SOURCE);
        trial.tell_elements(status, MPI_INT);
    }
}

struct Receipt {
    void* in;
    int count;
    MPI_Datatype type;
    int source;

    void begin(MPI_Request& request) const
    {
        MPI_Irecv(in, count, type, source, 5, world, &request);
    }
};

// The ways in which a program learns that it has received something.
inline const std::vector<std::function<void(const Receipt&)>> kReceipts = {
    [](const Receipt& r) {
        MPI_Recv(r.in, r.count, r.type, r.source, 5, world, MPI_STATUS_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Status status;
        MPI_Recv(r.in, r.count, r.type, r.source, 5, world, &status);
    },
    [](const Receipt& r) {
        char nothing = 0;
        MPI_Sendrecv(&nothing, 1, MPI_CHAR, MPI_PROC_NULL, 0, r.in, r.count, r.type, r.source, 5,
                     world, MPI_STATUS_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Message message;
        MPI_Mprobe(r.source, 5, world, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(r.in, r.count, r.type, &message, MPI_STATUS_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Message message;
        MPI_Request request;
        MPI_Mprobe(r.source, 5, world, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(r.in, r.count, r.type, &message, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Request request;
        r.begin(request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Request request;
        r.begin(request);
        for (int done = 0; done == 0;) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
    },
    [](const Receipt& r) {
        MPI_Request request;
        r.begin(request);
        for (int done = 0; done == 0;) {
            MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        r.begin(requests[2]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        MPI_Status statuses[2];
        r.begin(requests[1]);
        for (int done = 0; done == 0;) {
            MPI_Testall(2, requests, &done, statuses);
        }
    },
    [](const Receipt& r) {
        MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        int index;
        r.begin(requests[1]);
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        r.begin(requests[1]);
        for (int done = 0, index; done == 0;) {
            MPI_Testany(2, requests, &index, &done, MPI_STATUS_IGNORE);
        }
    },
    [](const Receipt& r) {
        MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        int number, indices[2];
        r.begin(requests[1]);
        MPI_Waitsome(2, requests, &number, indices, MPI_STATUSES_IGNORE);
    },
    [](const Receipt& r) {
        MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        MPI_Status statuses[2];
        int indices[2];
        r.begin(requests[1]);
        for (int number = 0; number == 0;) {
            MPI_Testsome(2, requests, &number, indices, statuses);
        }
    },
    [](const Receipt& r) {
        MPI_Request request;
        MPI_Recv_init(r.in, r.count, r.type, r.source, 5, world, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    },
};

// Of few rows, of many, of several elements, of a pair with a gap, and without gaps; from another
// rank, and from the own one.
inline void shorter_in_each_way(Trial& trial)
{
    const Type few = vector(300, 1, 2), many = vector(5000, 1, 2), several = vector(100, 1, 2),
               pairs = vector(200, 1, 2, MPI_SHORT_INT);
    const struct {
        int count;
        MPI_Datatype type, sent;
    } cases[] = {{1, few, MPI_INT},
                 {1, many, MPI_INT},
                 {30, several, MPI_INT},
                 {1, pairs, MPI_SHORT_INT},
                 {5000, MPI_INT, MPI_INT}};
    for (const auto& [count, type, sent] : cases) {
        for (const int neighbour : {1, 0}) {
            const int to = (rank + neighbour) % ranks, from = (rank + ranks - neighbour) % ranks;
            for (size_t i = 0; i < kReceipts.size(); ++i) {
                char *const out = trial.buffer(8000), *const in = trial.buffer(40000);
                const int length = i % 5 == 4 ? 0 : 137 + static_cast<int>(i);
                MPI_Request request;
                MPI_Isend(out, length, sent, to, 5, world, &request);
                kReceipts[i]({in, count, type, from});
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        }
    }
}

inline void from_nobody(Trial& trial)
{
    const Type type = vector(3000, 1, 2);
    char *const out = trial.buffer(kRoom), *const in = trial.buffer(kRoom);
    MPI_Status status;
    MPI_Sendrecv(out, 1, type, MPI_PROC_NULL, 5, in, 1, type, MPI_PROC_NULL, 5, world, &status);
    trial.tell_elements(status, type);
    MPI_Request request;
    MPI_Irecv(in, 1, type, MPI_PROC_NULL, 5, world, &request);
    MPI_Wait(&request, &status);
    trial.tell_elements(status, type);
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
    if (rank == 0) {
        MPI_Psend_init(buffer, kParts, 1, type, 1, 0, world, MPI_INFO_NULL, &request);
    } else if (rank == 1) {
        MPI_Precv_init(buffer, kParts, 1, type, 0, 0, world, MPI_INFO_NULL, &request);
    } else {
        return;
    }
    type.free();
    for (int i = 0; i < 2; ++i) {
        MPI_Start(&request);
        for (int part = kParts; rank == 0 && part-- > 0;) {
            MPI_Pready(part, request);
        }
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
    {"any_source_is_itself", 1, any_source_is_itself},
    {"shorter_than_asked_for", 2, shorter_than_asked_for},
    {"shorter_in_each_way", 1, shorter_in_each_way},
    {"from_nobody", 1, from_nobody},
    {"cancelled", 1, cancelled},
    {"various_requests", 2, various_requests},
    {"both_in_one_buffer", 1, both_in_one_buffer},
    {"partitioned", 2, partitioned},
};

} // namespace compare
