// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/collectives/ring.hpp"

#include <algorithm>
#include <array>

namespace gdr::mpi {

namespace {

// The kernel for a piece and the wait for it take some 10 us, while the next piece is under way: 25
// us on a link of 400 Gb/s.
constexpr uint64_t kPiece = uint64_t{1} << 20;

// piece(offset, length)
template <typename Piece>
void for_each_piece(uint64_t bytes, Piece piece)
{
    for (uint64_t at = 0; at < bytes; at += kPiece) {
        piece(at, std::min(kPiece, bytes - at));
    }
}

} // namespace

std::vector<Word> Ring::send(const char* from, uint64_t bytes, int to) const
{
    std::vector<Word> requests;
    for_each_piece(bytes, [&](uint64_t at, uint64_t length) {
        requests.push_back(team_.send(from + at, length, to));
    });
    return requests;
}

std::vector<Word> Ring::receive(char* to, uint64_t bytes, int from) const
{
    std::vector<Word> requests;
    for_each_piece(bytes, [&](uint64_t at, uint64_t length) {
        requests.push_back(team_.receive(to + at, length, from));
    });
    return requests;
}

// In each step a rank receives a block's partial sum from the previous rank, adds its own part, and
// sends the sum to the next rank in the following step. It starts with block rank - 2 and ends with
// its own. One half of the scratch receives while the other is sent.
void Ring::reduce_scatter(const kernels::Reduction& reduction, uint64_t element,
                          const BlocksOfRanks& blocks, const char* in, char* result,
                          char* scratch) const
{
    const int ranks = team_.size(), last = ranks - 2;
    const int first = team_.previous();
    const std::vector<Word> beginning =
        send(in + blocks.begin(first), blocks.length(first), team_.next());
    std::array<std::vector<Word>, 2> sent; // from each half
    for (int step = 0; step <= last; ++step) {
        const int half = step % 2;
        const int block = (team_.rank() + 2 * ranks - 2 - step) % ranks;
        const char* const own = in + blocks.begin(block);
        char* const sums = scratch + half * blocks.longest();
        team_.wait(sent[half]);
        sent[half].clear();
        const std::vector<Word> received = receive(sums, blocks.length(block), team_.previous());
        for_each_piece(blocks.length(block), [&](uint64_t at, uint64_t length) {
            team_.wait(received[at / kPiece]);
            reduction.reduce(sums + at, own + at, (step == last ? result : sums) + at,
                             length / element, stream_.handle());
            stream_.wait();
            if (step != last) {
                sent[half].push_back(team_.send(sums + at, length, team_.next()));
            }
        });
    }
    team_.wait(beginning);
    team_.wait(sent[0]);
    team_.wait(sent[1]);
}

void Ring::allgather(const BlocksOfRanks& blocks, char* all) const
{
    const int ranks = team_.size(), own = team_.rank();
    std::vector<Word> sent = send(all + blocks.begin(own), blocks.length(own), team_.next());
    for (int step = 1; step < ranks; ++step) {
        const int block = (own + ranks - step) % ranks;
        char* const to = all + blocks.begin(block);
        const std::vector<Word> received = receive(to, blocks.length(block), team_.previous());
        for_each_piece(blocks.length(block), [&](uint64_t at, uint64_t length) {
            team_.wait(received[at / kPiece]);
            if (step != ranks - 1) {
                sent.push_back(team_.send(to + at, length, team_.next()));
            }
        });
    }
    team_.wait(sent);
}

void Ring::gather(const BlocksOfRanks& blocks, int root, const char* mine, char* all) const
{
    if (team_.rank() != root) {
        team_.wait(send(mine, blocks.length(team_.rank()), root));
        return;
    }
    std::vector<std::vector<Word>> received;
    for (int rank = 0; rank < team_.size(); ++rank) {
        if (rank != root) {
            received.push_back(receive(all + blocks.begin(rank), blocks.length(rank), rank));
        }
    }
    for (const std::vector<Word>& of_rank : received) {
        team_.wait(of_rank);
    }
}

void Ring::alltoall(uint64_t block, const char* in, char* out) const
{
    const int ranks = team_.size(), own = team_.rank();
    std::vector<std::vector<Word>> requests;
    for (int distance = 1; distance < ranks; ++distance) {
        const int from = (own + ranks - distance) % ranks;
        requests.push_back(receive(out + block * from, block, from));
    }
    for (int distance = 1; distance < ranks; ++distance) {
        const int to = (own + distance) % ranks;
        requests.push_back(send(in + block * to, block, to));
    }
    stream_.copy(out + block * own, in + block * own, block);
    for (const std::vector<Word>& of_rank : requests) {
        team_.wait(of_rank);
    }
}

} // namespace gdr::mpi
