// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/device.hpp"

#include "sync/triggers/flush.hpp"
#include "sync/triggers/stream.hpp"
#include "sync/ucx-gdr/ugdr_initiate.cuh"
#include "sync/ucx/log.hpp"
#include "sync/ucx/refusal.hpp"

namespace gdr::sync {
namespace {

// The counters of GPU memory have 32 bits, those of a channel 64.
constexpr size_t kCountersOfChannel = ugdr_detail::kCounterWords * 2;

CUcontext require_context(const cuda::Driver& driver)
{
    CUcontext context = nullptr;
    cuda::check(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    if (context == nullptr) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "ugdr_device_open: no CUDA context is current to the calling thread");
    }
    return context;
}

Abilities require_abilities(const cuda::Driver& driver)
{
    const Abilities abilities = current_abilities(driver);
    if (!abilities.sees_writes && !abilities.flushes_writes) {
        throw Refusal(UCS_ERR_UNSUPPORTED,
                      "ugdr_device_open: kernels of this GPU do not see what an HCA writes while "
                      "they run, and it has no flush");
    }
    return abilities;
}

// Such a load waits for kernels that run, and holds what the copies of others need.
void warn_of_late_loading(const cuda::Driver& driver, const Ucx& ucx)
{
    CUmoduleLoadingMode mode{};
    if (driver.cuModuleGetLoadingMode != nullptr &&
        driver.cuModuleGetLoadingMode(&mode) == CUDA_SUCCESS && mode == CU_MODULE_LAZY_LOADING) {
        log_once(ucx, UCS_LOG_LEVEL_INFO,
                 "CUDA loads a kernel when it is launched first, which cannot end while another "
                 "waits for a signal: set CUDA_MODULE_LOADING=EAGER");
    }
}

} // namespace

Device::Device(const cuda::Driver& driver, Engine& engine, Memories& memories,
               RemoteMemories& remote_memories, AddressTable& addresses, const Settings& settings)
    : engine_(engine), settings_(settings), context_(require_context(driver)),
      abilities_(require_abilities(driver)),
      entries_(driver, context_, size_t{settings.channels} << settings.log_entries),
      completed_(driver, context_, settings.channels + 1),
      counters_(driver, context_, settings.channels * kCountersOfChannel),
      addresses_(addresses, driver, context_)
{
    warn_of_late_loading(driver, engine.ucx());
    for (size_t i = 0; i < entries_.count; ++i) {
        new (&entries_.words.host[i]) Entry{}; // they may have had another user
    }
    for (size_t i = 0; i < completed_.count; ++i) {
        completed_.words.host[i].tell(0, UCS_OK);
    }
    for (unsigned i = 0; i < settings.threads; ++i) {
        served_.push_back(std::make_unique<Rings>());
    }
    RingEvents& events = *this;
    for (unsigned channel = 0; channel < settings.channels; ++channel) {
        const Ring::Place place{.channel = channel,
                                .entries =
                                    entries_.words.host + (size_t{channel} << settings.log_entries),
                                .log_entries = settings.log_entries,
                                .completed = &completed_.words.host[channel],
                                .flushes = !abilities_.sees_writes};
        rings_.push_back(std::make_unique<Ring>(place, memories, remote_memories, events));
        served_[channel % settings.threads]->add(*rings_.back());
    }
    try {
        for (unsigned i = 1; i < settings.threads; ++i) {
            threads_.push_back(
                std::make_unique<Proxy<Rings>>(*served_[i], settings.idle, settings.cores));
        }
    } catch (...) {
        while (!stop(std::chrono::seconds(1))) {
        }
        throw;
    }
    service_.emplace(engine_, *served_[0]);
}

ugdr_dev_t Device::handle() const
{
    return {.entries = on_device<unsigned long long>(entries_.words.device),
            .completed = on_device<const unsigned long long>(completed_.words.device),
            .counters = on_device<unsigned long long>(counters_.words.device),
            .channels = settings_.channels,
            .log_entries = settings_.log_entries,
            .signals = abilities_.sees_writes,
            .memories = on_device<const ugdr_dev_memory_t>(addresses_.address())};
}

bool Device::busy() const
{
    return std::any_of(rings_.begin(), rings_.end(), [](const auto& ring) { return ring->busy(); });
}

void Device::close()
{
    while (!stop(std::chrono::seconds(1))) {
    }
    service_->end();
}

bool Device::stop(std::chrono::milliseconds limit)
{
    for (; !threads_.empty(); threads_.pop_back()) {
        if (!threads_.back()->stop(limit)) {
            return false;
        }
    }
    return true;
}

void Device::abandon()
{
    for (const auto& ring : rings_) {
        ring->abandon();
    }
    const int status = status_.load();
    status_word().tell(0, status != UCS_OK ? static_cast<ucs_status_t>(status) : UCS_ERR_CANCELED);
    entries_.keep();
    completed_.keep();
    counters_.keep();
    addresses_.keep();
}

void Device::failed(ucs_status_t status, const std::string& what)
{
    int none = UCS_OK;
    if (status_.compare_exchange_strong(none, status)) {
        status_word().tell(0, status);
    }
    engine_.report(status, what);
}

void Device::flush()
{
    flush_writes(engine_.ucx(), context_);
}

} // namespace gdr::sync
