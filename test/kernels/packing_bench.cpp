// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How fast the GPU packs and unpacks, beside what a program without kernels can do: a copy of each
// block, and a copy of a pitched array where the layout is one. Run by contrib/bench-pack.
#include "gpu.hpp"
#include "kernels/packing.hpp"

#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>

#include <dlfcn.h>

using namespace gdr::kernels;

namespace {

using Clock = std::chrono::steady_clock;

// Not used by the library itself.
decltype(&cuMemcpy2DAsync) copy_2d()
{
    return reinterpret_cast<decltype(&cuMemcpy2DAsync)>(
        dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuMemcpy2DAsync_v2"));
}

class Bench {
  public:
    explicit Bench(const Gpu& gpu, int turns)
        : gpu_(gpu), turns_(turns), kernels_(gpu.driver(), gpu.context(), pack_ptx)
    {
        std::printf("GB/s of packed bytes, which the GPU reads once and writes once\n\n");
        std::printf("| layout | packed MB | pack | unpack | one copy per block | cuMemcpy2DAsync | "
                    "contiguous copy | pack : copies |\n|---|---|---|---|---|---|---|---|\n");
    }

    // A list of the element's blocks as well, for the copies.
    void run(const std::string& name, Layout layout, const std::vector<Block>& blocks, size_t pitch)
    {
        const auto size = layout.size();
        const auto room = static_cast<size_t>(layout.extent());
        const DeviceBuffer memory(gpu_, room), packed(gpu_, size), other(gpu_, size);
        const Packing packing(kernels_, std::move(layout));
        const double pack = rate(size, turns_, [&] {
            packing.pack(memory.address(), 1, 0, size, packed.address(), gpu_.stream());
        });
        const double unpack = rate(size, turns_, [&] {
            packing.unpack(memory.address(), 1, 0, size, packed.address(), gpu_.stream());
        });
        const double copies = rate(size, 1, [&] { copy_blocks(blocks, memory, packed); });
        const double whole =
            rate(size, turns_, [&] { copy(other.address(), packed.address(), size); });
        std::string rows = "-";
        if (pitch != 0) {
            CUDA_MEMCPY2D what{};
            what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
            what.srcDevice = reinterpret_cast<CUdeviceptr>(memory.address());
            what.srcPitch = pitch;
            what.dstDevice = reinterpret_cast<CUdeviceptr>(packed.address());
            what.WidthInBytes = what.dstPitch = blocks[0].length;
            what.Height = blocks.size();
            CUresult result = CUDA_SUCCESS;
            const double speed =
                rate(size, turns_, [&] { result = copy_2d()(&what, gpu_.stream()); });
            rows = result == CUDA_SUCCESS ? number(speed) : "refused";
        }
        std::printf("| %s | %s | %s | %s | %s | %s | %s | %.0f |\n", name.c_str(),
                    number(static_cast<double>(size) / 1e6).c_str(), number(pack).c_str(),
                    number(unpack).c_str(), number(copies).c_str(), rows.c_str(),
                    number(whole).c_str(), pack / copies);
        std::fflush(stdout);
    }

    void loops(const std::string& name, uint64_t length, std::vector<Dimension> loops)
    {
        std::vector<Block> blocks{{0, length}};
        uint64_t extent = length;
        for (const Dimension& loop : loops) {
            std::vector<Block> inner = std::move(blocks);
            blocks.clear();
            for (uint64_t i = 0; i < loop.count; ++i) {
                for (const Block& block : inner) {
                    blocks.push_back(
                        {block.offset + static_cast<int64_t>(i) * loop.stride, block.length});
                }
            }
            extent = loop.count * static_cast<uint64_t>(loop.stride);
        }
        run(name, Layout::strided(0, length, loops, static_cast<int64_t>(extent)), blocks,
            loops.size() == 1 ? static_cast<size_t>(loops[0].stride) : 0);
    }

    void list(const std::string& name, uint64_t length, size_t count, uint64_t most_gap)
    {
        std::mt19937_64 random(1);
        std::vector<Block> blocks;
        uint64_t end = 0;
        for (size_t i = 0; i < count; ++i) {
            end += 8 * (1 + random() % (most_gap / 8));
            blocks.push_back({static_cast<int64_t>(end), length});
            end += length;
        }
        run(name, Layout::list(blocks, static_cast<int64_t>(end)), blocks, 0);
    }

    // What a call takes until the stream is done, and what of it the caller spends.
    void latency()
    {
        const DeviceBuffer memory(gpu_, 4096), packed(gpu_, 4096);
        const std::vector<Dimension> loop{{64, 32}};
        const Packing packing(kernels_, Layout::strided(0, 16, loop, 2048));
        const auto pack = [&] {
            packing.pack(memory.address(), 1, 0, 1024, packed.address(), gpu_.stream());
        };
        const double whole = 1024 / rate(1024, 1000 * turns_ / 20 + 1, [&] {
                                 pack();
                                 gpu_.wait();
                             });
        const double issue = 1024 / rate(1024, 1000 * turns_ / 20 + 1, pack);
        std::printf("\n64 blocks of 16 bytes: %.1f us from the call to the end of the stream's "
                    "wait, %.1f us per call back to back\n",
                    whole / 1e3, issue / 1e3);
    }

  private:
    static std::string number(double value)
    {
        char text[32];
        std::snprintf(text, sizeof(text), "%.*f", value < 0.1 ? 4 : value < 10 ? 2 : 0, value);
        return text;
    }

    double rate(uint64_t bytes, int turns, const std::function<void()>& once) const
    {
        once();
        gpu_.wait();
        const auto start = Clock::now();
        for (int i = 0; i < turns; ++i) {
            once();
        }
        gpu_.wait();
        const std::chrono::duration<double, std::nano> time = Clock::now() - start;
        return static_cast<double>(bytes) * turns / time.count();
    }

    void copy(const uint8_t* to, const uint8_t* from, size_t size) const
    {
        gdr::cuda::check(gpu_.driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                                     reinterpret_cast<CUdeviceptr>(from), size,
                                                     gpu_.stream()),
                         "cuMemcpyAsync");
    }

    void copy_blocks(const std::vector<Block>& blocks, const DeviceBuffer& memory,
                     const DeviceBuffer& packed) const
    {
        const uint8_t* to = packed.address();
        for (const Block& block : blocks) {
            copy(to, memory.address() + block.offset, block.length);
            to += block.length;
        }
    }

    const Gpu& gpu_;
    const int turns_;
    LoadedKernels kernels_;
};

} // namespace

int main(int argc, char** argv)
{
    const gdr::cuda::Driver* driver = gdr::cuda::driver();
    if (driver == nullptr || !built()) {
        std::fprintf(
            stderr, "%s\n",
            (driver == nullptr ? gdr::cuda::unavailable_reason() : why_not_built()).c_str());
        return 1;
    }
    const int turns = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
    char name[100] = "";
    driver->cuDeviceGetName(name, sizeof(name), 0);
    std::printf("%s, %d turns\n", name, turns);
    const Gpu gpu(*driver);
    Bench bench(gpu, turns);
    bench.loops("1,000,000 x 8 bytes, every second", 8, {{1'000'000, 16}});
    bench.loops("1,000,000 x 8 bytes, every eighth", 8, {{1'000'000, 64}});
    bench.loops("1,000,000 x 4 bytes, every second", 4, {{1'000'000, 8}});
    bench.loops("1,000,000 x 3 bytes of 7", 3, {{1'000'000, 7}});
    bench.loops("100,000 x 64 bytes of 128", 64, {{100'000, 128}});
    bench.loops("10,000 x 4096 bytes of 8192", 4096, {{10'000, 8192}});
    bench.loops("face of 512^3 doubles, x", 8, {{512, 4096}, {512, 512 * 4096}});
    bench.loops("face of 512^3 doubles, y", 4096, {{512, 512 * 4096}});
    bench.loops("128^3 doubles of 256^3", 1024, {{128, 2048}, {128, 256 * 2048}});
    bench.list("list of 1,000,000 x 8 bytes", 8, 1'000'000, 24);
    bench.list("list of 100,000 x 64 bytes", 64, 100'000, 200);
    bench.latency();
}
