// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/transfers/prepared.hpp"

#include "sync/ucx/refusal.hpp"

#include <string>

namespace gdr::sync {

void Prepared::match(const Plan& other, BlobReader& described)
{
    if (other.length != plan.length) {
        fail(UCS_ERR_INVALID_PARAM);
        described.refuse(UCS_ERR_INVALID_PARAM,
                         "the other side of tag " + std::to_string(plan.tag) + " has " +
                             std::to_string(other.length) + " bytes, this one " +
                             std::to_string(plan.length));
    }
    if (other.partitions == 0 || other.length % other.partitions != 0) {
        fail(UCS_ERR_INVALID_PARAM);
        described.refuse(UCS_ERR_INVALID_PARAM, "the letter contradicts itself");
    }
    other_ = other;
    try {
        match_with(described);
    } catch (...) {
        fail(UCS_ERR_INVALID_PARAM);
        throw;
    }
    matched_.store(true, std::memory_order_release);
}

ucs_status_t Prepared::start()
{
    if (status() != UCS_OK) {
        return status();
    }
    if (!matched()) {
        throw Refusal(UCS_ERR_NOT_CONNECTED, "ugdr_transfer_start: the transfer is not matched "
                                             "(ugdr_transfer_test_match())");
    }
    uint64_t last = asked();
    if (!complete(last) || !asked_.compare_exchange_strong(last, last + 1)) {
        throw Refusal(UCS_ERR_BUSY, "ugdr_transfer_start: the last iteration is not complete");
    }
    set_begun(last + 1);
    tell_of_beginning();
    return UCS_OK;
}

bool Prepared::begin(uint64_t iteration)
{
    if (!begun(iteration - 1) || !complete(iteration - 1)) {
        return false;
    }
    set_begun(iteration);
    tell_of_beginning_here();
    return true;
}

ucs_status_t Prepared::test(uint64_t iteration) const
{
    return complete(iteration) ? UCS_OK : status() != UCS_OK ? status() : UCS_INPROGRESS;
}

void Prepared::fail(ucs_status_t status)
{
    int none = UCS_OK;
    status_.compare_exchange_strong(none, status);
}

} // namespace gdr::sync
