// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What all changes of the UCX in this process have in common.
//
//     untouched --apply()--> applied --undo()--> untouched
//         |
//         +-----apply()--> refused        UCX did not take it and is as it was
//
// Nothing of a change is done before apply(). Most changes stay until the process ends, since UCX
// cannot unload what serves it; a ReversibleChange ends earlier if its reason is gone.
#pragma once

#include <cstdint>

namespace gdr::host {

class Change {
  public:
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

    void apply() { state_ = make() ? State::applied : State::refused; }
    bool applied() const { return state_ == State::applied; }
    bool refused() const { return state_ == State::refused; }

  protected:
    enum class State : uint8_t { untouched, applied, refused };

    constexpr Change() = default;
    ~Change() = default;

    // Returns whether UCX has the change now.
    virtual bool make() = 0;

    State state_ = State::untouched;
};

class ReversibleChange : public Change {
  public:
    void undo()
    {
        if (applied()) {
            take_back();
            state_ = State::untouched;
        }
    }

  protected:
    constexpr ReversibleChange() = default;
    ~ReversibleChange() = default;

    virtual void take_back() = 0;
};

} // namespace gdr::host
