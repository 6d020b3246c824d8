// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_soak: processes with several threads each transfer at random for a given time, connect and
// part, while visitors come and are killed. After the warm-up, half-way through the rest and at the
// end everything is closed and what the processes hold is compared.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include <csignal>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/failure.hpp"
#include "../support/report.hpp"
#include "actor.hpp"

namespace ucptest {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 20ms;
constexpr double kWarmUpShare = 0.2;
// Until what killed peers left is found and given back: UCP's keepalive looks every 20 s.
constexpr auto kSettle = 45s;

// Until registrations of memory that the allocator has given back are given back.
constexpr auto kCollect = 1s;

struct Options {
    double minutes = 10;
    unsigned processes = 8;
    unsigned threads = 4;
    uint64_t seed = 0;
    double visit_seconds = 3; // a visitor lives at most; 0: there are none
    bool faults = true;
};

// Of one process's HCA: what happens to some of the queue pairs that it makes, and to its port.
std::string fault_rules(Random& random)
{
    std::string rules;
    unsigned qp = 20;
    for (unsigned i = 0; i < 400; ++i) {
        qp += 10 + static_cast<unsigned>(random() % 60);
        static constexpr const char* kinds[] = {"drop", "error rem_access_err",
                                                "error retry_exc_err", "delay 3000", "cut"};
        rules += format("softhca0 qp %u %s at %u; ", qp, kinds[random() % std::size(kinds)],
                        2 + static_cast<unsigned>(random() % 100));
    }
    return rules;
}

// Runs an actor to its end. One that fails ends the process as it is: operations under way use what
// unwinding would release.
void play(Board& board, const std::string& who, const std::function<Actor*()>& make)
{
    Actor* actor = nullptr;
    try {
        actor = make();
        actor->run();
    } catch (const std::exception& error) {
        board.fail(who.c_str(), error.what());
        _exit(EXIT_FAILURE);
    }
    delete actor;
}

// ---- a process
class Process {
  public:
    Process(Board& board, const Options& options, unsigned index)
        : board_(board), options_(options), index_(index)
    {
    }

    int run()
    {
        std::vector<std::thread> threads;
        for (unsigned thread = 0; thread < options_.threads; ++thread) {
            threads.emplace_back([this, thread] { act(thread); });
        }
        while (board_.phase != Board::Phase::kStop) {
            measure();
            std::this_thread::sleep_for(kTick);
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        if (const std::string left = remains(holdings()); !left.empty() && board_.failures == 0) {
            board_.fail(who().c_str(), ("after everything was closed: " + left).c_str());
        }
        return EXIT_SUCCESS;
    }

  private:
    std::string who() const { return format("process %u", index_); }

    void act(unsigned thread)
    {
        const std::string who = format("process %u thread %u", index_, thread);
        play(board_, who, [&] {
            return new Actor(board_, &board_.processes[index_].actors[thread], options_.processes,
                             options_.threads, seed_of({options_.seed, index_, thread}));
        });
    }

    void measure()
    {
        Board::Process& mine = board_.processes[index_];
        if (const unsigned wanted = board_.measuring; mine.measured < wanted) {
            malloc_trim(0);
            std::this_thread::sleep_for(kCollect);
            mine.holdings[wanted - 1] = holdings();
            mine.measured = wanted;
        }
    }

    Board& board_;
    const Options& options_;
    const unsigned index_;
};

// ---- a visitor
int visit(Board& board, const Options& options, uint64_t seed)
{
    play(board, "a visitor",
         [&] { return new Actor(board, nullptr, options.processes, options.threads, seed); });
    return EXIT_SUCCESS;
}

// ---- all of them
class Soak {
  public:
    explicit Soak(const Options& options)
        : options_(options), board_(Board::create()), random_(options.seed)
    {
        board_.disturbed = options_.faults || options_.visit_seconds > 0;
    }

    int run()
    {
        start();
        const auto warm_up =
            std::chrono::duration<double, std::ratio<60>>(options_.minutes * kWarmUpShare);
        const auto half = std::chrono::duration<double, std::ratio<60>>(options_.minutes *
                                                                        (1 - kWarmUpShare) / 2);
        phase("warm-up", warm_up, 1);
        phase("first half", half, 2);
        phase("second half", half, kMeasurements);
        board_.phase = Board::Phase::kStop;
        await_end();
        return summary();
    }

  private:
    pid_t begin(const std::function<int()>& body)
    {
        const pid_t child = fork();
        require(child >= 0, "fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            std::exit(body());
        }
        return child;
    }

    void start()
    {
        for (unsigned index = 0; index < options_.processes; ++index) {
            const std::string rules = options_.faults ? fault_rules(random_) : "";
            processes_.push_back(begin([&] {
                setenv("SOFTHCA_FAULTS", rules.c_str(), 1);
                return Process(board_, options_, index).run();
            }));
        }
    }

    template <typename Duration>
    void phase(const char* name, Duration length, unsigned measurement)
    {
        if (failed()) {
            return;
        }
        board_.phase = Board::Phase::kRun;
        const auto until = Clock::now() + length;
        while (Clock::now() < until && !failed()) {
            tick();
        }
        end_visit();
        board_.phase = Board::Phase::kQuiet;
        await(format("the end of the %s", name).c_str(), [&](const Board::Process& process) {
            return std::all_of(process.actors, process.actors + options_.threads,
                               [](const Board::Actor& actor) { return actor.empty.load(); });
        });
        if (!failed()) {
            std::this_thread::sleep_for(kSettle);
        }
        board_.measuring = measurement;
        await("measurements",
              [&](const Board::Process& process) { return process.measured == measurement; });
    }

    void tick()
    {
        std::this_thread::sleep_for(kTick);
        visitor();
        watch();
        if (Clock::now() >= next_line_) {
            if (next_line_ != Clock::time_point{}) {
                line();
            }
            next_line_ = Clock::now() + 1min;
        }
    }

    void await(const char* what, const std::function<bool(const Board::Process&)>& done)
    {
        const auto until = Clock::now() + std::chrono::seconds(6 * deadline_s());
        while (!failed() &&
               !std::all_of(board_.processes, board_.processes + options_.processes, done)) {
            std::this_thread::sleep_for(kTick);
            watch();
            if (Clock::now() > until) {
                board_.fail("the soak", (std::string("never came to ") + what).c_str());
            }
        }
    }

    // A process that ends before it is told to has crashed, or has said why.
    void watch()
    {
        for (pid_t& process : processes_) {
            int status;
            if (process == 0 || waitpid(process, &status, WNOHANG) != process) {
                continue;
            }
            process = 0;
            if (WIFSIGNALED(status)) {
                board_.fail("a process", format("died of signal %d", WTERMSIG(status)).c_str());
            } else if (board_.phase != Board::Phase::kStop && board_.failures == 0) {
                board_.fail("a process", "ended");
            }
        }
    }

    void visitor()
    {
        if (options_.visit_seconds <= 0) {
            return;
        }
        if (visitor_ == 0) {
            const uint64_t seed = random_();
            visitor_ = begin([&] { return visit(board_, options_, seed); });
            const double life =
                std::uniform_real_distribution<>(0, options_.visit_seconds)(random_);
            visit_ends_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(life));
        } else if (Clock::now() > visit_ends_) {
            end_visit();
        }
    }

    void end_visit()
    {
        if (visitor_ == 0) {
            return;
        }
        kill(visitor_, SIGKILL);
        int status;
        waitpid(std::exchange(visitor_, 0), &status, 0);
        ++killed_;
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
            board_.fail("a visitor", format("died of signal %d", WTERMSIG(status)).c_str());
        }
    }

    void await_end()
    {
        const auto until = Clock::now() + std::chrono::seconds(2 * deadline_s());
        for (;;) {
            watch();
            if (std::all_of(processes_.begin(), processes_.end(), [](pid_t p) { return p == 0; })) {
                return;
            }
            if (failed() || Clock::now() > until) {
                break;
            }
            std::this_thread::sleep_for(kTick);
        }
        if (!failed()) {
            board_.fail("a process", "does not end");
        }
        for (pid_t process : processes_) {
            if (process != 0) {
                kill(process, SIGKILL);
            }
        }
    }

    bool failed() const { return board_.failures > 0; }

    void line() const
    {
        std::string transfers;
        for (unsigned kind = 0; kind < kKinds; ++kind) {
            transfers +=
                format("%llu %s, ", static_cast<unsigned long long>(board_.transfers[kind]),
                       name(static_cast<Kind>(kind)));
        }
        std::printf("%s%.1f GiB; %llu connections made, %llu parted, %llu lost; %u peers killed\n",
                    transfers.c_str(), static_cast<double>(board_.bytes) / (1 << 30),
                    static_cast<unsigned long long>(board_.connections),
                    static_cast<unsigned long long>(board_.farewells),
                    static_cast<unsigned long long>(board_.losses), killed_);
    }

    int summary()
    {
        line();
        for (unsigned index = 0; index < options_.processes && !failed(); ++index) {
            const Holdings* held = board_.processes[index].holdings;
            std::printf("process %u: %s\n  then %s\n  then %s\n", index, text(held[0]).c_str(),
                        text(held[1]).c_str(), text(held[2]).c_str());
            if (const std::string grown = growth(held[0], held[1], held[2]); !grown.empty()) {
                std::fprintf(stderr, "FAILED: process %u grew: %s\n", index, grown.c_str()),
                    ++grown_;
            }
        }
        const bool good = !failed() && grown_ == 0;
        std::printf("%s: seed %llu\n", good ? "nothing grew, every byte was right" : "FAILED",
                    static_cast<unsigned long long>(options_.seed));
        return good ? EXIT_SUCCESS : EXIT_FAILURE;
    }

    const Options options_;
    Board& board_;
    Random random_;
    std::vector<pid_t> processes_; // 0: has ended
    pid_t visitor_ = 0;
    Clock::time_point visit_ends_{};
    Clock::time_point next_line_{};
    unsigned killed_ = 0;
    unsigned grown_ = 0;
};

Options parse(int argc, char** argv)
{
    Options options;
    options.seed = std::random_device{}();
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--no-faults") {
            options.faults = false;
            continue;
        }
        require(i + 1 < argc, option + " needs a number");
        const double number = std::stod(argv[++i]);
        if (option == "--minutes") {
            options.minutes = number;
        } else if (option == "--processes") {
            options.processes = static_cast<unsigned>(number);
        } else if (option == "--threads") {
            options.threads = static_cast<unsigned>(number);
        } else if (option == "--seed") {
            options.seed = std::stoull(argv[i]);
        } else if (option == "--visit") {
            options.visit_seconds = number;
        } else {
            throw Failure("unknown option " + option);
        }
    }
    require(options.processes >= 1 && options.processes <= kMostProcesses && options.threads >= 1 &&
                options.threads <= kMostThreads && options.minutes > 0,
            "out of range");
    return options;
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    ucptest::Options options;
    try {
        options = ucptest::parse(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr,
                     "%s\nusage: ucp_soak [--minutes M] [--processes N] [--threads N] [--seed S]\n"
                     "                [--visit SECONDS] [--no-faults]\n",
                     error.what());
        return EXIT_FAILURE;
    }
    std::printf("%.1f minutes, %u processes of %u threads, seed %llu\n", options.minutes,
                options.processes, options.threads, static_cast<unsigned long long>(options.seed));
    return ucptest::Soak(options).run();
}
