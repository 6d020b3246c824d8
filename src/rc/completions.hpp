// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The completions of an interface. Usually they are handled as they are polled. Some are polled
// where no callback may be called: these are saved, in order, for the next progress.
#pragma once

#include "rc/connect/attention.hpp"
#include "rc/queues/completion_room.hpp"
#include "verbs/completion_queue.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace gdr::rc {

// Worker thread only.
class Completions {
  public:
    explicit Completions(Attention& attention) : attention_(attention) {}

    // Makes the completion queue. Throws verbs::Error.
    void open(Provider& provider, ibv_comp_channel* channel, unsigned first, unsigned most,
              bool may_resize);

    CompletionRoom& room() { return *room_; }
    ibv_cq* queue() const { return queue_; }

    // Returns how many were polled, or a negative value.
    int poll(int most, ibv_wc* completions) { return poll_(queue_, most, completions); }

    // Completions are polled by this function from now on. Returns the one before.
    verbs::PollCq poll_by(verbs::PollCq poll) { return std::exchange(poll_, poll); }

    // From now on polling makes GPUs see what the HCA has written.
    void flush_gpu_writes();

    void save(const ibv_wc& completion);
    void save_all(); // that can be polled
    size_t saved() const { return saved_.size(); }

    // Calls handle(const ibv_wc&) for the saved completions, and returns how many they were.
    // handle() may save more.
    unsigned handle_saved(auto handle)
    {
        std::vector<ibv_wc> handled = std::exchange(spare_, {});
        handled.swap(saved_);
        for (const ibv_wc& completion : handled) {
            handle(completion);
        }
        const auto count = static_cast<unsigned>(handled.size());
        handled.clear();
        spare_ = std::move(handled);
        return count;
    }

  private:
    verbs::PollCq poll_ = nullptr; // of queue_
    ibv_cq* queue_ = nullptr;
    Attention& attention_;
    std::optional<CompletionRoom> room_; // the owner of queue_
    std::vector<ibv_wc> saved_;
    std::vector<ibv_wc> spare_; // empty, kept for its storage
};

} // namespace gdr::rc
