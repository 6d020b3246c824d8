// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The plugin's entry and exit: what it does when a process has a UCX, however that was loaded, and
// when the process ends. It logs nothing and looks for no device before UCX is used.
#include "abi/binding.hpp"
#include "abi/component.hpp"
#include "abi/host.hpp"
#include "abi/libucp.hpp"
#include "abi/own_cuda.hpp"
#include "abi/processor_puts.hpp"
#include "abi/settings.hpp"
#include "abi/transport_list.hpp"
#include "abi/ucx.hpp"
#include "abi/ucx_log.hpp"
#include "copy/component.hpp"
#include "cuda/driver.hpp"
#include "cuda/recent.hpp"
#include "host/perftest_allocators.hpp"
#include "host/preparation.hpp"
#include "ipc/component.hpp"
#include "log/log.hpp"
#include "mpi/serve.hpp"
#include "plugin/cpu_fault.hpp"
#include "plugin/interfaces.hpp"
#include "plugin/memory_lookup.hpp"
#include "plugin/options.hpp"
#include "preload/module.h"
#include "rc/component/component.hpp"
#include "stats/statistics.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace gdr::plugin {
namespace {

Options options;

bool process_uses_ucx = false;

std::string& statistics_path() // UCX releases its own copy before the process ends
{
    static auto* const path = new std::string;
    return *path;
}

// Whether the user has enabled the cache, which is wrong in a UCX without CUDA.
bool memtype_cache()
{
    const auto chosen = abi::user_setting("MEMTYPE_CACHE");
    return chosen && !abi::says_no(*chosen) && !abi::built_with_cuda();
}

// Runs for each context: the MPI library may be loaded after UCX, and then opens a context of its
// own.
void on_use()
{
    static std::once_flag first;
    std::call_once(first, [] {
        process_uses_ucx = true;
        if (options.probe) {
            (void)cuda::driver();
        }
        host::report_preparation();
        answer_memory_lookups();
        if (const cuda::Driver* driver = cuda::open_driver();
            driver && options.explain_cpu_faults) {
            explain_cpu_faults(*driver, {.way_of = mpi::way_of, .memtype_cache = memtype_cache()});
        }
    });
    const mpi::Collectives collectives = options.mpi_collectives;
    if (cuda::open_driver() != nullptr || collectives != mpi::Collectives::library) {
        mpi::serve(collectives, listener_to_mpi, abi::processor_may_put);
    }
}

void write_statistics(const char* path)
{
    const std::string line = stats::statistics().line() + "\n";
    const bool to_stderr = std::strcmp(path, "-") == 0;
    const int fd = to_stderr ? dup(STDERR_FILENO)
                             : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    // One write, so that the lines of processes that end together do not mix.
    if (fd < 0 || write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
        std::fprintf(stderr, "gdr: UCX_GDR_STATS=%s: %m\n", path);
    }
    if (fd >= 0) {
        close(fd);
    }
}

// What one UCX gets, or why it is refused. If it is refused, the next UCX may be served.
class Service {
  public:
    explicit Service(void* libuct) : libuct_(libuct)
    {
        refusal_ = abi::bind(libuct);
        if (!refusal_.empty()) {
            abi::log_to_ucx(); // as choose_series() would
            refusal_ = "UCX (" + path_of(libuct) + ") has no " + refusal_;
        } else if (!abi::choose_series()) {
            refusal_ = abi::why_not();
        } else {
            wanted_ = abi::lists_transport(abi::user_setting("MODULES").value_or("all"), "gdr");
        }
    }

    void* libuct() const { return libuct_; }
    bool refused() const { return !refusal_.empty(); }

    void begin(gdr_moment moment)
    {
        if (refusal_.empty() && wanted_ && !registered_) {
            register_components(moment);
        }
        if (moment == GDR_UCX_PRESENT) {
            return;
        }
        if (!refusal_.empty() && !std::exchange(told_, true)) {
            gdr_log(warn, "not used: %s", refusal_.c_str());
        }
        if (refusal_.empty() && wanted_ && moment == GDR_UCX_STARTS &&
            !std::exchange(prepared_, true)) {
            (void)host::prepare(host::Moment::ucx_starts); // it is never too late at this moment
        }
    }

    // Logs each path once.
    void refuse(void* other)
    {
        const std::string path = path_of(other);
        if (!wanted_ || !others_.insert(path).second) {
            return;
        }
        constexpr const char* kFormat = "not used with the UCX of %s: this process has another, of "
                                        "%s, which came first, and gdr serves one UCX of a process";
        if (abi::user_names_gdr()) {
            gdr_log(warn, kFormat, path.c_str(), path_of(libuct_).c_str());
        } else {
            gdr_log(diag, kFormat, path.c_str(), path_of(libuct_).c_str());
        }
    }

  private:
    static std::string path_of(void* libuct)
    {
        return abi::library_of(dlsym(libuct, "uct_component_register"));
    }

    void register_components(gdr_moment moment)
    {
        registered_ = true;
        if (moment == GDR_UCX_PRESENT_UNHEARD) {
            prepared_ = true;
            refusal_ = host::prepare(host::Moment::loaded);
            if (!refusal_.empty()) {
                return;
            }
        }
        // False: this library is in the process already, from another path.
        if (!abi::register_component(copy::component())) {
            return;
        }
        abi::register_component(rc::component());
        abi::register_component(ipc::component());
        abi::register_options(option_table(), &options);
        cuda::trust_moments(options.recent != 0);
        if (options.statistics_path) {
            statistics_path() = options.statistics_path;
        }
        host::perftest_allocators().apply();
        abi::on_use(on_use);
        pthread_atfork(nullptr, nullptr, [] { stats::statistics().begin_anew(); });
    }

    void* libuct_;
    std::string refusal_; // why not
    bool wanted_ = false; // UCX_MODULES admits gdr
    bool registered_ = false;
    bool prepared_ = false;
    bool told_ = false;
    std::set<std::string> others_;
};

// Uses nothing of UCX, which may be gone by then.
[[gnu::destructor]] void end()
{
    if (process_uses_ucx && !statistics_path().empty() && stats::statistics().worth_a_line()) {
        write_statistics(statistics_path().c_str());
    }
}

} // namespace
} // namespace gdr::plugin

extern "C" [[gnu::visibility("default")]] gdr_answer gdr_attach(void* libuct, gdr_moment moment)
{
    using gdr::plugin::Service;
    // Stays forever: UCX cannot unregister a component. The module is bound to the last service;
    // those before it were refused.
    static auto* const services = new std::list<Service>;
    try {
        auto service = std::ranges::find(*services, libuct, &Service::libuct);
        if (service == services->end() && (services->empty() || services->back().refused())) {
            service = services->emplace(services->end(), libuct);
        }
        if (service != services->end()) {
            service->begin(moment);
            return service->refused() ? GDR_REFUSED : GDR_SERVED;
        }
        if (moment != GDR_UCX_PRESENT) {
            services->back().refuse(libuct);
        }
    } catch (const std::exception& error) {
        gdr_log(error, "not used: %s", error.what());
    }
    return GDR_OTHER;
}
