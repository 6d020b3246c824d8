// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The findings in JSON: docs/reference/doctor.schema.json.
#pragma once

#include "doctor/examination.hpp"

#include <string>

namespace gdr::doctor {

// time: of the examination, in ISO 8601.
std::string to_json(const Examination& examination, const std::string& time);

} // namespace gdr::doctor
