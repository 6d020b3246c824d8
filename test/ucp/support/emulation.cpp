// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Counters of the emulation.
#include "emulation.hpp"

#include <dlfcn.h>

namespace ucptest {

Emulation::Emulation()
    : hca_(reinterpret_cast<decltype(hca_)>(dlsym(RTLD_DEFAULT, "softhca_counters")))
{
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == nullptr) {
        return;
    }
    calls_ = reinterpret_cast<decltype(calls_)>(dlsym(driver, "softcuda_calls"));
    call_count_ = reinterpret_cast<decltype(call_count_)>(dlsym(driver, "softcuda_call_count"));
}

HcaCounters Emulation::hca() const
{
    HcaCounters counters = {};
    if (hca_ != nullptr) {
        hca_(&counters);
    }
    return counters;
}

uint64_t Emulation::registrations() const
{
    const HcaCounters counters = hca();
    return counters.registrations + counters.registrations_peer + counters.registrations_dmabuf;
}

uint64_t Emulation::cuda_calls() const
{
    return calls_ == nullptr ? 0 : calls_();
}

uint64_t Emulation::cuda_calls(const char* function) const
{
    return call_count_ == nullptr ? 0 : call_count_(function);
}

uint64_t Emulation::attribute_queries() const
{
    return cuda_calls("cuPointerGetAttributes") + cuda_calls("cuPointerGetAttribute");
}

} // namespace ucptest
