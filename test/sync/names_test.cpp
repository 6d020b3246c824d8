// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels that are written by other names than libucx-gdr's, over rings and by themselves.
#include "initiators_fixture.hpp"
#include "names.hpp"

#include <memory>
#include <string>

namespace synctest {
namespace {

class InitiatedByNames : public Initiators {
  protected:
    // On the GPU.
    ucp_device_mem_list_t* list(const ugdr_dev_t& device, const std::vector<unsigned>& ids)
    {
        const size_t length = ugdr_ucp_list_size(static_cast<unsigned>(ids.size()));
        std::vector<char> bytes(length);
        ugdr_ucp_list_fill(reinterpret_cast<ucp_device_mem_list_t*>(bytes.data()), &device,
                           ids.data(), static_cast<unsigned>(ids.size()));
        char* made = on_gpu<char>(length);
        EXPECT_CUDA(cuMemcpyHtoD(address_of(made), bytes.data(), length));
        return reinterpret_cast<ucp_device_mem_list_t*>(made);
    }

    static void make_local(const softcuda_launch* launch, ugdr_dev_t& device,
                           const std::vector<ugdr_dev_memory_t>& memories)
    {
        device.counters = on_host(launch, device.counters);
        device.memories = memories.data();
    }

    static int run_names(const softcuda_launch* launch, void* const* parameters)
    {
        auto with = parameter<Names>(parameters, 0);
        const auto memories = memories_on_host(launch, with.link.gdr.memories);
        make_local(launch, with.link.gdr, memories);
        auto* local = const_cast<ucp_device_mem_list_t*>(on_host(launch, with.local));
        auto* remote = const_cast<ucp_device_mem_list_t*>(on_host(launch, with.remote));
        make_local(launch, local->device, memories);
        make_local(launch, remote->device, memories);
        with.local = local;
        with.remote = remote;
        with.counter = on_host(launch, with.counter);
        with.status = on_host(launch, with.status);
        names({0, 0, 1}, with);
        return 0;
    }

    static CUfunction function()
    {
        if (const auto stands_for = SOFTCUDA(softcuda_kernel)) {
            stands_for("sync_names", run_names);
        }
        return kernel("names", "sync_names");
    }

    void use(bool near)
    {
        connect(false);
        std::vector<unsigned long long> numbers(24);
        for (size_t i = 0; i < numbers.size(); ++i) {
            numbers[i] = i + 1;
        }
        ASSERT_CUDA(cuMemcpyHtoD(address_of(a_.out), numbers.data(), numbers.size() * 8));
        static_assert(sizeof(Names) == 104); // as declared in kernel_functions.hpp
        Names with{};
        ASSERT_UCS(ugdr_device_handle(a_.device, &with.link.gdr));
        const unsigned mem = ugdr_mem_id(a_.mapped_out), in = ugdr_rmem_id(a_.far_in),
                       signals = ugdr_rmem_id(a_.far_signals);
        with.local = list(with.link.gdr, {mem});
        with.remote = list(with.link.gdr, {in, signals});
        with.link.channel = 1;
        with.link.from = mem;
        with.link.to = in;
        with.link.counts = signals;
        with.counter = a_.signals;
        with.status = a_.statuses;
        with.near = near ? 1 : 0;
        CUstream work = stream();
        launch(function(), 1, 32, work, {&with});
        ASSERT_CUDA(cuStreamSynchronize(work));
        EXPECT_EQ(copy_of(a_.statuses, 1)[0], 0) << "a line of names.hpp";
        EXPECT_EQ(copy_of(b_.in, numbers.size()), numbers);
        EXPECT_EQ(copy_of(b_.signals, 2), (std::vector<unsigned long long>{3, 5}));
    }
};

TEST_F(InitiatedByNames, OverRings)
{
    NEEDS_KERNELS();
    use(false);
}

TEST_F(InitiatedByNames, ByThemselves)
{
    NEEDS_KERNELS();
    setenv("UCX_GDR_IPC", "y", 1);
    use(true);
}

} // namespace
} // namespace synctest
