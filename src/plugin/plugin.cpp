// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The plugin's entry and exit: what runs when the library is loaded into a process, by whichever
// way, and when that process ends. A preload is in every process of its environment, so nothing is
// said, and no device is looked for, before UCX asks.
#include "abi/component.hpp"
#include "abi/host.hpp"
#include "abi/settings.hpp"
#include "copy/component.hpp"
#include "cuda/driver.hpp"
#include "plugin/cpu_fault.hpp"
#include "plugin/perftest_allocator.hpp"
#include "plugin/prepare_host.hpp"
#include "rc/component.hpp"
#include "stats/statistics.hpp"

#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace gdr::plugin {
namespace {

struct Options {
    char* statistics_path;
    int explain_cpu_faults; // boolean
    char* abi;              // read by abi::choose_series(), listed here
} options;

const abi::OptionTable& option_table()
{
    static const abi::OptionTable table{
        "gdr plugin",
        "GDR_",
        {{"STATS", "",
          "Appends one line to this file when the process exits: the bytes that went by GPUDirect\n"
          "RDMA, staged through host memory, and to and from host memory, the operations, and the\n"
          "memory registrations, of all interfaces that have been closed. \"-\" is standard\n"
          "error, empty none. Processes that do not use UCX write nothing.",
          offsetof(Options, statistics_path), abi::OptionType::string},
         {"CPU_FAULTS", "y",
          "Say what happened when the program dies because its CPU touched GPU memory, as MPI\n"
          "libraries built without CUDA do in some calls. n: leave SIGSEGV and SIGBUS alone.",
          offsetof(Options, explain_cpu_faults), abi::OptionType::boolean},
         {"ABI", "auto",
          "The series of UCX's plugin interface to use. \"auto\": that of the UCX in the process, "
          "if\n"
          "it is known. \"force:1.22\", say, takes that of UCX 1.22 without any check, which may\n"
          "crash: a last resort for a UCX that is refused. Read from the environment alone.",
          offsetof(Options, abi), abi::OptionType::string}},
        sizeof(Options)};
    return table;
}

bool process_uses_ucx = false;

void on_first_use()
{
    process_uses_ucx = true;
    report_preparation();
    if (const cuda::Driver* driver = cuda::driver(); driver && options.explain_cpu_faults)
        explain_cpu_faults(*driver);
}

bool ucp_is_loaded()
{
    void* ucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (ucp)
        dlclose(ucp);
    return ucp != nullptr;
}

// UCX never asks a plugin that registered nothing. The line is due when the process has loaded UCP
// by itself: now, if it is linked with it, or when it has done so by its end (Open MPI's modules).
std::string& refusal_due()
{
    static std::string reason;
    return reason;
}

void refuse(const std::string& reason)
{
    if (ucp_is_loaded())
        gdr_log(warn, "not used: %s", reason.c_str());
    else
        refusal_due() = reason;
}

void prepare_in_time()
{
    try {
        (void)prepare_host(Moment::ucx_starts); // which is never too late
    } catch (const std::exception& error) {
        gdr_log(error, "UCX is not prepared for GPU memory: %s", error.what());
    }
}

void write_statistics(const char* path)
{
    const std::string line = stats::statistics().line() + "\n";
    const bool to_stderr = std::strcmp(path, "-") == 0;
    const int fd = to_stderr ? dup(STDERR_FILENO)
                             : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    // One write, so that the lines of processes that end together do not mix.
    if (fd < 0 || write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        gdr_log(error, "UCX_GDR_STATS=%s: %s", path, std::strerror(errno));
    if (fd >= 0)
        close(fd);
}

[[gnu::constructor]] void load()
{
    try {
        if (!abi::choose_series()) {
            refuse(abi::why_not());
            return;
        }
        if (!abi::before_variables_are_read(prepare_in_time))
            if (const std::string reason = prepare_host(Moment::loaded); !reason.empty()) {
                refuse(reason);
                return;
            }
        // False: this library is in the process already, from another path.
        if (!abi::register_component(copy::component()))
            return;
        abi::register_component(rc::component());
        abi::register_options(option_table(), &options);
        provide_perftest_allocators();
        abi::on_first_use(on_first_use);
        pthread_atfork(nullptr, nullptr, [] { stats::statistics().begin_anew(); });
    } catch (const std::exception& error) {
        gdr_log(error, "not used: %s", error.what());
    }
}

[[gnu::destructor]] void unload()
{
    if (!refusal_due().empty() && ucp_is_loaded())
        gdr_log(warn, "was not used: %s", refusal_due().c_str());
    if (process_uses_ucx && options.statistics_path && *options.statistics_path &&
        stats::statistics().worth_a_line())
        write_statistics(options.statistics_path);
}

} // namespace
} // namespace gdr::plugin
