// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A finding in JSON, and back: docs/reference/doctor.schema.json.
#pragma once

#include "doctor/finding.hpp"

#include <nlohmann/json.hpp>

namespace gdr::doctor {

nlohmann::json finding_to_json(const Finding& finding);
// Throws if it is none.
Finding finding_of_json(const nlohmann::json& value);

} // namespace gdr::doctor
