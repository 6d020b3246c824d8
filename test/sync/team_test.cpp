// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels of a team meet: members of this process, over queue pairs and by themselves.
#include "initiators_fixture.hpp"

#include <thread>
#include <vector>

namespace synctest {
namespace {

class Team : public Cuda {
  protected:
    struct Member {
        ugdr_context_h context = nullptr;
        std::vector<ugdr_peer_h> peers{};
        unsigned long long *in = nullptr, *words = nullptr;
        int* status = nullptr;
        ugdr_mem_h mapped_in = nullptr, mapped_words = nullptr;
        std::vector<ugdr_rmem_h> far_in{}, far_words{};
        ugdr_device_h device = nullptr;
    };

    void meet(unsigned size, unsigned rounds)
    {
        std::vector<Member> members(size);
        for (Member& member : members) {
            prepare(member, size);
        }
        for (unsigned a = 0; a < size; ++a) {
            for (unsigned b = 0; b < size; ++b) {
                connect_peer(members[a].peers[b], members[b].peers[a]);
            }
        }
        std::vector<CUstream> streams;
        const CUfunction function = kernel("initiators", "sync_meet");
        for (unsigned rank = 0; rank < size; ++rank) {
            Member& member = members[rank];
            import_all(member, rank, members);
            Meeting with{};
            ASSERT_UCS(ugdr_device_handle(member.device, &with.device));
            ASSERT_UCS(ugdr_team_handle(member.mapped_words, member.far_words.data(), rank, size,
                                        &with.team));
            with.in = member.in;
            with.status = member.status;
            with.rank = rank;
            with.size = size;
            with.rounds = rounds;
            for (unsigned other = 0; other < size; ++other) {
                with.rmem[other] = ugdr_rmem_id(member.far_in[other]);
            }
            meetings_.push_back(with);
        }
        for (unsigned rank = 0; rank < size; ++rank) { // one after the other: they share no queue
            streams.push_back(stream());
        }
        std::vector<std::thread> threads; // the emulated GPU runs a kernel for each that waits
        for (unsigned rank = 0; rank < size; ++rank) {
            threads.emplace_back([&, rank] {
                EXPECT_CUDA(cuCtxSetCurrent(context_));
                launch(function, 1, 32, streams[rank], {&meetings_[rank]});
                EXPECT_CUDA(cuStreamSynchronize(streams[rank]));
            });
        }
        for (unsigned rank = 0; rank < size; ++rank) {
            threads[rank].join();
            EXPECT_CUDA(cuStreamDestroy(streams[rank]));
            EXPECT_EQ(copy_of(members[rank].status, 1)[0], UCS_OK) << "rank " << rank;
        }
        for (Member& member : members) {
            EXPECT_UCS(ugdr_device_close(member.device));
        }
        for (Member& member : members) {
            EXPECT_UCS(ugdr_context_destroy(member.context, 0));
        }
        meetings_.clear();
    }

    void prepare(Member& member, unsigned size)
    {
        member.context = create({});
        member.peers.resize(size);
        for (ugdr_peer_h& peer : member.peers) {
            ASSERT_UCS(ugdr_peer_create(member.context, nullptr, &peer));
        }
        member.in = on_gpu<unsigned long long>(size);
        member.words = on_gpu<unsigned long long>(UGDR_TEAM_WORDS);
        member.status = on_gpu<int>(1);
        ASSERT_UCS(ugdr_mem_map(member.context, member.in, size * 8, &member.mapped_in));
        ASSERT_UCS(
            ugdr_mem_map(member.context, member.words, UGDR_TEAM_WORDS * 8, &member.mapped_words));
        ASSERT_UCS(ugdr_device_open(member.context, nullptr, &member.device));
    }
    static void import_all(Member& member, unsigned rank, const std::vector<Member>& members)
    {
        for (unsigned other = 0; other < members.size(); ++other) {
            const Member& far = members[other];
            member.far_in.push_back(import_memory(member.peers[other], far.mapped_in));
            member.far_words.push_back(
                other == rank ? nullptr : import_memory(member.peers[other], far.mapped_words));
        }
    }

    std::vector<Meeting> meetings_;
};

// Few rounds: where threads share a processor, a barrier takes some ten turns of the scheduler.
TEST_F(Team, InitiatedBarriers)
{
    NEEDS_KERNELS();
    setenv("UCX_GDR_IPC", "n", 1);
    for (unsigned size = 1; size <= 4; ++size) {
        SCOPED_TRACE(size);
        meet(size, rounds() / 400);
    }
}

TEST_F(Team, MappedBarriers)
{
    NEEDS_KERNELS();
    setenv("UCX_GDR_IPC", "y", 1); // read by each context
    for (unsigned size = 1; size <= 4; ++size) {
        SCOPED_TRACE(size);
        meet(size, rounds() / 20);
    }
}

TEST_F(Team, WhatIsRefused)
{
    Member member;
    prepare(member, 1);
    ugdr_dev_team_t team{};
    EXPECT_EQ(ugdr_team_handle(nullptr, nullptr, 0, 1, &team), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_team_handle(member.mapped_words, nullptr, 1, 1, &team), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_team_handle(member.mapped_words, nullptr, 0, 2, &team), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_team_handle(member.mapped_in, nullptr, 0, 1, &team), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_team_handle(member.mapped_words, nullptr, 0, 1, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_team_handle(member.mapped_words, nullptr, 0, 1, &team));
    EXPECT_UCS(ugdr_device_close(member.device));
    EXPECT_UCS(ugdr_context_destroy(member.context, 0));
}

} // namespace
} // namespace synctest
