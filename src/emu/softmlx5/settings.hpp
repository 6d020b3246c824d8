// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softmlx5's own environment variables, beside those of softhca (its config.hpp). They are read
// once; a value that is not understood is reported in one line on stderr and the default is used.
//
//   SOFTMLX5_DEVX=y|n   whether programs get DEVX (default y)
#pragma once

namespace softmlx5 {

struct Settings {
    bool devx = true;
};

const Settings& settings();

} // namespace softmlx5
