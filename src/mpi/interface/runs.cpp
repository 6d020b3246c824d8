// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/interface/runs.hpp"

namespace gdr::mpi {

namespace {

// Merges `count` repetitions of a run at this distance into one run; false: one run cannot express
// them.
bool repeat(Run& run, int64_t count, intptr_t distance)
{
    const auto times = static_cast<size_t>(count);
    if (run.rows == 1 && distance == static_cast<intptr_t>(run.length)) {
        run.length *= times;
    } else if (run.rows == 1) {
        run = {run.offset, run.length, distance, times};
    } else if (distance == run.stride * static_cast<ptrdiff_t>(run.rows)) {
        run.rows *= times;
    } else {
        return false;
    }
    return true;
}

} // namespace

void append(Runs& runs, const Run& run)
{
    if (run.length == 0 || run.rows == 0) {
        return;
    }
    if (!runs.empty()) {
        Run& last = runs.back();
        if (last.rows == 1 && run.rows == 1 &&
            last.offset + static_cast<intptr_t>(last.length) == run.offset) {
            last.length += run.length;
            return;
        }
    }
    runs.push_back(Run(run));
}

void append_repeated(Runs& runs, const Runs& element, int64_t count, intptr_t extent, intptr_t at)
{
    if (count <= 0 || element.empty()) {
        return;
    }
    if (element.size() == 1) {
        Run run = element.front();
        run.offset += at;
        if (count == 1 || repeat(run, count, extent)) {
            append(runs, run);
            return;
        }
    }
    for (int64_t i = 0; i < count; ++i) {
        for (Run run : element) {
            run.offset += at + i * extent;
            append(runs, run);
        }
    }
}

} // namespace gdr::mpi
