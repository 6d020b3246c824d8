// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The work requests and completions of an interface in UCX's log, a line each
// (UCX_LOG_LEVEL=data). It takes the place of the functions that post and poll, so an interface
// that is opened at another level has no part of it on its data path.
#pragma once

#include "log/log.hpp"
#include "rc/completions.hpp"
#include "rc/poster.hpp"

#include <string>

namespace gdr::rc {

// Worker thread only.
class DataTrace {
  public:
    static bool wanted() { return log::enabled(log::Level::data); }

    // port: its name, for the lines.
    DataTrace(Poster& poster, Completions& completions, std::string port);
    ~DataTrace();
    DataTrace(const DataTrace&) = delete;
    DataTrace& operator=(const DataTrace&) = delete;

    // In place of Completions::flush_gpu_writes().
    void flush_gpu_writes();

  private:
    static int post(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused);
    static int poll(ibv_cq* cq, int most, ibv_wc* completions);
    void log_request(const ibv_qp& qp, const ibv_send_wr& wr) const;
    void log_completion(const ibv_wc& wc) const;

    const std::string port_;
    const ibv_cq* const cq_;
    verbs::PostSend post_;
    verbs::PollCq poll_;
};

} // namespace gdr::rc
