// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What this process's queue pairs have done, for people; programs ask softhca_counters().
#pragma once

namespace softhca {

// One line on standard error, words NAME=NUMBER; nothing where this process uses no HCA.
void print_counters();

// Does what has been posted, so that it is counted. softhca has done it when posting returns.
void do_posted();

} // namespace softhca
