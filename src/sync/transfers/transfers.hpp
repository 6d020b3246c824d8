// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The prepared transfers of a context: how they begin and end, and what the engine's thread does
// for them.
#pragma once

#include "sync/transfers/correspondence.hpp"
#include "sync/transfers/receiver.hpp"
#include "sync/transfers/sender.hpp"
#include "sync/triggers/service.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace gdr::sync {

class Transfers final : Served {
  public:
    Transfers(Engine& engine, Network& network) : engine_(engine), network_(network) {}

    // ---- the application's threads. Throw Refusal and other exceptions.

    // plan: as the caller wants it.
    Prepared* create(Peer& peer, void* buffer, const Plan& plan);
    ucs_status_t test_match(Prepared& transfer);
    void destroy(Prepared& transfer); // which is not busy

    bool any();

    // Ends all, with UCS_ERR_CANCELED. Peers still exist, and the engine runs.
    void close();

  private:
    unsigned progress() override;
    bool under_way() const override;
    bool armed() const override;
    bool has_news() const override { return !inbox_.empty(); }

    Correspondence& with(Peer& peer);
    void leave(Courier& courier);
    void end(Prepared& transfer);

    Engine& engine_;
    Network& network_;

    std::mutex lock_; // of what follows, and of correspondence
    std::optional<Service> service_;
    std::map<Prepared*, std::unique_ptr<Prepared>> all_;

    Handover<Step> inbox_;
    std::vector<Courier*> couriers_; // for the engine's thread alone
};

} // namespace gdr::sync
