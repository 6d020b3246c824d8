// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What operations cost that kernels initiate. Two sides in one process, on one GPU or on two, with
// an HCA between them; contrib/bench-sync runs it. Prints lines "NAME key=value ...", times in
// microseconds, as kernels measure them.
//
//   puts CHANNELS THREADS  8 bytes each, by the threads of one block: one put
//   quiet SIZE             a put of a block, until it is complete
//   signal SIZE            a put with a signal, until a kernel of the other side has seen it: half
//                          of a round
//   overlap WAY SIZE       a prepared transfer of 16 partitions, which a kernel computes one after
//                          the other. WAY: compute (nothing is sent), communication (nothing is
//                          computed: all is ready at once), both (each is ready when it has been
//                          computed). From the kernel's launch to its end and the arrival of all
//   near SIZE              as signal in GPU memory, by the kernels' own stores, between two
//                          processes with a GPU each
//
// The rows before the last go through rings and the HCA, also between sides that are near.
// On emulated GPUs a thread of the host stands for a block.
#include "emu/softcuda/softcuda.h"
#include "initiators.hpp"
#include "sync/ucx-gdr/ugdr.h"

#include "options.hpp"

#include <cerrno>
#include <cstring>
#include <thread>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace bench;

constexpr unsigned kChannels = 4, kThreads = 256;
constexpr unsigned kPuts = 20000; // of a sample

// ---- kernels

// Of the emulated driver alone; nullptr: there is none.
template <class Function>
Function emulated(const char* name)
{
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<Function>(dlsym(driver, name));
}

// Its memory is elsewhere for the host.
template <class Value>
void reach(const softcuda_launch* launch, Value*& memory)
{
    static const auto memory_of =
        symbol<decltype(&softcuda_kernel_memory)>("softcuda_kernel_memory");
    softcuda_range range;
    if (memory_of(launch, memory, &range) == 0) {
        memory = reinterpret_cast<Value*>(range.bytes +
                                          (reinterpret_cast<uintptr_t>(memory) - range.address));
    }
}

template <auto body, auto... arguments>
int run(const softcuda_launch* launch, void* const* parameters)
{
    Initiating with = *static_cast<Initiating*>(parameters[0]);
    with.device.memories = nullptr; // they would be at other addresses here
    for (unsigned long long** memory :
         {&with.device.counters, &with.signal, &with.ticks, &with.elapsed}) {
        reach(launch, *memory);
    }
    body(with, arguments...);
    return 0;
}

int run_compute(const softcuda_launch* launch, void* const* parameters)
{
    Computing with = *static_cast<Computing*>(parameters[0]);
    reach(launch, with.data);
    reach(launch, with.transfer.ready.arrived);
    compute(with);
    return 0;
}

// What a compiler declares of them.
constexpr const char* kDeclarations = R"(
.version 6.3
.target sm_70
.address_size 64
.visible .entry bench_put_many(.param .align 8 .b8 with[96]) { ret; }
.visible .entry bench_put_and_quiet(.param .align 8 .b8 with[96]) { ret; }
.visible .entry bench_ping(.param .align 8 .b8 with[96]) { ret; }
.visible .entry bench_pong(.param .align 8 .b8 with[96]) { ret; }
.visible .entry bench_compute(.param .align 8 .b8 with[72]) { ret; }
)";
static_assert(sizeof(Initiating) == 96 && sizeof(Computing) == 72);

// ---- sides

template <class Value>
Value* allocate(bool device, size_t count)
{
    const size_t bytes = count * sizeof(Value);
    if (device) {
        CUdeviceptr memory;
        CU(cuMemAlloc, &memory, bytes);
        CU(cuMemsetD8, memory, 0, bytes);
        return reinterpret_cast<Value*>(memory);
    }
    void* memory;
    CU(cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    std::memset(memory, 0, bytes);
    return static_cast<Value*>(memory);
}

struct Side {
    Side(const Options& options, bool device_memory, int index)
    {
        CUdevice gpu;
        CU(cuDeviceGet, &gpu, index % options.gpus);
        CU(cuDevicePrimaryCtxRetain, &context, gpu);
        CU(cuCtxSetCurrent, context);
        CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
        const std::string image =
            options.kernels.empty() ? kDeclarations : content_of(options.kernels);
        put_many = kernel(image.c_str(), "bench_put_many");
        put_and_quiet = kernel(image.c_str(), "bench_put_and_quiet");
        exchange = kernel(image.c_str(), index == 0 ? "bench_ping" : "bench_pong");
        compute = kernel(image.c_str(), "bench_compute");

        signal = allocate<unsigned long long>(device_memory, 1);
        // Of the GPU: a fence would wait for what the kernel writes to the host.
        ticks = allocate<unsigned long long>(true, std::max(options.rounds, kPuts) + 2);
        ugdr_context_params_t params{};
        check(ugdr_context_create(&params, &sync), "ugdr_context_create");
        ugdr_peer_params_t of_peer{};
        of_peer.field_mask = UGDR_PEER_PARAM_FIELD_CHANNELS;
        of_peer.channels = kChannels;
        check(ugdr_peer_create(sync, &of_peer, &peer), "ugdr_peer_create");
        out = map(allocate<char>(device_memory, options.largest), options.largest);
        in = map(allocate<char>(device_memory, options.largest), options.largest);
        mapped_signal = map(signal, sizeof(*signal));
        ugdr_device_params_t of_device{};
        of_device.field_mask = UGDR_DEVICE_PARAM_FIELD_CHANNELS | UGDR_DEVICE_PARAM_FIELD_THREADS;
        of_device.channels = of_device.threads = kChannels;
        check(ugdr_device_open(sync, &of_device, &device), "ugdr_device_open");
    }
    // ---- what the other side needs: of the peer, and of its memories

    std::string card() const
    {
        const void* blob;
        size_t length;
        check(ugdr_peer_export(peer, &blob, &length), "ugdr_peer_export");
        return {static_cast<const char*>(blob), length};
    }
    void connect(const std::string& other) const
    {
        check(ugdr_peer_connect(peer, other.data(), other.size()), "ugdr_peer_connect");
    }
    std::string card_of(ugdr_mem_h memory) const
    {
        const void* blob;
        size_t length;
        check(ugdr_mem_export(memory, &blob, &length), "ugdr_mem_export");
        return {static_cast<const char*>(blob), length};
    }
    void import(const std::string& of_in, const std::string& of_signal)
    {
        far_in = import(of_in);
        far_signal = import(of_signal);
    }

    ugdr_mem_h map(void* memory, size_t length) const
    {
        ugdr_mem_h mapped;
        check(ugdr_mem_map(sync, memory, length, &mapped), "ugdr_mem_map");
        return mapped;
    }
    ugdr_rmem_h import(const std::string& other) const
    {
        ugdr_rmem_h imported;
        check(ugdr_rmem_import(peer, other.data(), other.size(), &imported), "ugdr_rmem_import");
        return imported;
    }

    void start(CUfunction function, unsigned threads, unsigned channels, unsigned rounds,
               size_t length) const
    {
        Initiating with{};
        check(ugdr_device_handle(device, &with.device), "ugdr_device_handle");
        with.signal = signal;
        with.ticks = ticks;
        with.elapsed = ticks + rounds;
        with.mem = ugdr_mem_id(out);
        with.rmem = ugdr_rmem_id(far_in);
        with.rsignal = ugdr_rmem_id(far_signal);
        with.channels = channels;
        with.rounds = rounds;
        with.length = static_cast<unsigned>(length);
        CU(cuCtxSetCurrent, context);
        launch(function, threads, stream, {&with});
    }
    void clear_signal() const
    {
        CU(cuCtxSetCurrent, context);
        CU(cuMemsetD8, reinterpret_cast<CUdeviceptr>(signal), 0, sizeof(*signal));
        CU(cuCtxSynchronize);
    }
    // Of the operations so far.
    void finish() const
    {
        CU(cuCtxSetCurrent, context);
        CU(cuStreamSynchronize, stream);
        check(ugdr_peer_test(peer), "an operation");
    }

    // What the kernel of so many rounds has noted.
    std::vector<unsigned long long> noted(unsigned rounds) const
    {
        std::vector<unsigned long long> all(rounds + 2);
        CU(cuCtxSetCurrent, context);
        CU(cuMemcpyDtoH, all.data(), reinterpret_cast<CUdeviceptr>(ticks),
           all.size() * sizeof(all[0]));
        return all;
    }

    CUcontext context;
    CUstream stream;
    CUfunction put_many, put_and_quiet, exchange, compute;
    unsigned long long *signal, *ticks;
    ugdr_context_h sync = nullptr;
    ugdr_peer_h peer = nullptr;
    ugdr_mem_h out = nullptr, in = nullptr, mapped_signal = nullptr;
    ugdr_rmem_h far_in = nullptr, far_signal = nullptr;
    ugdr_device_h device = nullptr;
};

void puts(const Side& side, unsigned channels, unsigned threads)
{
    std::vector<double> samples;
    for (int i = -1; i < 20; ++i) {
        side.start(side.put_many, threads, channels, kPuts, 8);
        side.finish();
        if (i >= 0) {
            samples.push_back(static_cast<double>(side.noted(kPuts).back()) / 1000 / kPuts);
        }
    }
    report("puts " + std::to_string(channels) + " " + std::to_string(threads), samples);
}

void quiet(const Side& side, size_t size, unsigned rounds)
{
    side.start(side.put_and_quiet, 32, 1, rounds, size);
    side.finish();
    report_rounds("quiet " + std::to_string(size), side.noted(rounds), 1);
}

void signal(const Side& a, const Side& b, size_t size, unsigned rounds)
{
    a.clear_signal();
    b.clear_signal();
    const auto run = [&](const Side& side) {
        side.start(side.exchange, 32, 1, rounds, size);
        side.finish();
    };
    std::thread other([&] { run(b); }); // an emulated GPU may run its kernel in the call
    run(a);
    other.join();
    report_rounds("signal " + std::to_string(size), a.noted(rounds), 0.5);
}

// One side's kernel computes what goes to the other side.
class Overlap {
  public:
    Overlap(const Options& options, const Side& a, const Side& b)
        : a_(a), count_(std::max<size_t>(options.largest / sizeof(float), 1)),
          out_(allocate<float>(options.device, kPartitions * count_)),
          in_(allocate<float>(options.device, kPartitions * count_)),
          from_(prepare(a, UGDR_TRANSFER_SEND, out_)), to_(prepare(b, UGDR_TRANSFER_RECV, in_))
    {
        ucs_status_t sides[2];
        do {
            sides[0] = ugdr_transfer_test_match(from_);
            sides[1] = ugdr_transfer_test_match(to_);
        } while (sides[0] == UCS_INPROGRESS || sides[1] == UCS_INPROGRESS);
        check(sides[0], "ugdr_transfer_test_match");
        check(sides[1], "ugdr_transfer_test_match");
        CU(cuCtxSetCurrent, a.context);
        check(ugdr_transfer_device(from_, &with_.transfer), "ugdr_transfer_device");
        with_.data = out_;
        with_.partitions = kPartitions;
        with_.count = static_cast<unsigned>(count_);
    }

    void measure(unsigned rounds)
    {
        const unsigned few = std::min(rounds, 10u);
        const double communication = median(samples(0, true, few));
        unsigned work = 16;
        for (int i = 0; i < 3; ++i) { // until it takes about as long
            const double share = communication / median(samples(work, false, few));
            work = static_cast<unsigned>(std::clamp(work * share, 1.0, 1e6));
        }
        const std::string size = std::to_string(bytes());
        report("overlap compute " + size, samples(work, false, rounds));
        report("overlap communication " + size, samples(0, true, rounds));
        report("overlap both " + size, samples(work, true, rounds));
        if (content(out_) != content(in_)) {
            fail("overlap", "what has arrived is not what was computed");
        }
    }

  private:
    static constexpr unsigned kPartitions = 16, kThreads = 1024;

    size_t bytes() const { return kPartitions * count_ * sizeof(float); }

    ugdr_transfer_h prepare(const Side& side, ugdr_transfer_side_t which, float* buffer) const
    {
        ugdr_transfer_params_t params{};
        params.field_mask = UGDR_TRANSFER_PARAM_FIELD_PEER | UGDR_TRANSFER_PARAM_FIELD_BUFFER |
                            UGDR_TRANSFER_PARAM_FIELD_PARTITIONS;
        params.peer = side.peer;
        params.buffer = buffer;
        params.length = bytes();
        params.partitions = kPartitions;
        ugdr_transfer_h transfer;
        CU(cuCtxSetCurrent, side.context);
        check(ugdr_transfer_create(side.sync, which, &params, &transfer), "ugdr_transfer_create");
        return transfer;
    }

    // Of the kernel with so much work, of the transfer, or of both.
    std::vector<double> samples(unsigned work, bool sends, unsigned rounds)
    {
        with_.work = work;
        with_.sends = sends ? 1 : 0;
        std::vector<double> times;
        for (unsigned round = 0; round < rounds; ++round) {
            if (sends) {
                check(ugdr_transfer_start(to_), "ugdr_transfer_start");
                check(ugdr_transfer_start(from_), "ugdr_transfer_start");
                check(ugdr_transfer_prepare(from_), "ugdr_transfer_prepare");
            }
            const auto begin = Clock::now();
            launch(a_.compute, kThreads, a_.stream, {&with_});
            if (sends) {
                check(ugdr_transfer_wait(to_), "ugdr_transfer_wait");
            }
            CU(cuStreamSynchronize, a_.stream);
            times.push_back(microseconds(Clock::now() - begin));
            check(ugdr_transfer_wait(from_), "ugdr_transfer_wait");
        }
        return times;
    }
    static double median(std::vector<double> samples)
    {
        std::nth_element(samples.begin(), samples.begin() + static_cast<long>(samples.size() / 2),
                         samples.end());
        return samples[samples.size() / 2];
    }
    std::vector<float> content(const float* buffer) const
    {
        std::vector<float> copy(kPartitions * count_);
        CU(cuMemcpy, reinterpret_cast<CUdeviceptr>(copy.data()),
           reinterpret_cast<CUdeviceptr>(buffer), bytes());
        return copy;
    }

    const Side& a_;
    const size_t count_; // numbers of a partition
    float *const out_, *const in_;
    const ugdr_transfer_h from_, to_;
    Computing with_{};
};

// The other process.
class Other {
  public:
    // Before CUDA is used.
    Other()
    {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
            fail("socketpair", std::strerror(errno));
        }
        child = fork();
        index = child == 0 ? 1 : 0;
        socket_ = ends[index];
    }
    std::string exchange(const std::string& bytes) const
    {
        size_t length = bytes.size();
        if (write(socket_, &length, sizeof(length)) != sizeof(length) ||
            write(socket_, bytes.data(), length) != static_cast<ssize_t>(length) ||
            recv(socket_, &length, sizeof(length), MSG_WAITALL) != sizeof(length)) {
            fail("the other process", "it has ended");
        }
        std::string theirs(length, '\0');
        if (recv(socket_, theirs.data(), length, MSG_WAITALL) != static_cast<ssize_t>(length)) {
            fail("the other process", "it has ended");
        }
        return theirs;
    }
    void meet() const { exchange("."); }

    int index;
    pid_t child;

  private:
    int socket_;
};

// In both processes.
void near(const Options& options, const Other& other)
{
    CU(cuInit, 0);
    Side side(options, true, other.index);
    side.connect(other.exchange(side.card()));
    other.meet();
    const std::string in = other.exchange(side.card_of(side.in)),
                      signal = other.exchange(side.card_of(side.mapped_signal));
    side.import(in, signal);
    for (size_t size = 8; size <= options.largest; size *= 8) {
        side.clear_signal();
        other.meet();
        side.start(side.exchange, 32, 1, options.rounds, size);
        side.finish();
        if (other.index == 0) {
            report_rounds("near " + std::to_string(size), side.noted(options.rounds), 0.5);
        }
        other.meet();
    }
}

// In two processes, since this one keeps away from CUDA for that.
void near_in_processes(const Options& options)
{
    const pid_t both = fork();
    if (both == 0) {
        const Other other;
        near(options, other);
        int status = 0;
        if (other.child != 0) {
            waitpid(other.child, &status, 0);
        }
        std::_Exit(status != 0);
    }
    int status = 0;
    waitpid(both, &status, 0);
    if (status != 0) {
        fail("near", "a process has failed");
    }
}

} // namespace

int main(int argc, char** argv)
{
    const Options options = parse(argc, argv);
    // Else a kernel that waits may keep another from being loaded.
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    const auto stands_for = emulated<decltype(&softcuda_kernel)>("softcuda_kernel");
    if (options.gpus > 1 && stands_for == nullptr) {
        near_in_processes(options);
    }
    setenv("UCX_GDR_IPC", "n", 1);
    CU(cuInit, 0);
    if (stands_for != nullptr) {
        stands_for("bench_put_many", run<put_many>);
        stands_for("bench_put_and_quiet", run<put_and_quiet>);
        stands_for("bench_ping", run<exchange, true>);
        stands_for("bench_pong", run<exchange, false>);
        stands_for("bench_compute", run_compute);
    } else if (options.kernels.empty()) {
        fail("--kernels", "what a compiler made of test/bench/initiators.cu is needed");
    }
    Side a(options, options.device, 0), b(options, options.device, 1);
    a.connect(b.card());
    b.connect(a.card());
    a.import(b.card_of(b.in), b.card_of(b.mapped_signal));
    b.import(a.card_of(a.in), a.card_of(a.mapped_signal));
    for (unsigned channels : {1u, kChannels}) {
        for (unsigned threads : {32u * channels, kThreads}) {
            puts(a, channels, threads);
        }
    }
    for (size_t size = 8; size <= options.largest; size *= 8) {
        quiet(a, size, options.rounds);
        signal(a, b, size, options.rounds);
    }
    Overlap(options, a, b).measure(std::max(options.rounds / 10, 10u));
    std::fflush(stdout);
    std::_Exit(0); // contexts end with the process
}
