// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Turns a table of options into a series' table of configuration fields. UCX's own functions parse
// and print a value and are the same in all series; the structure that lists them is not.
#pragma once

#include "abi/options.hpp"
#include "abi/ucx.hpp"

extern "C" {
#include <ucs/config/parser.h>
}

#include <stdexcept>
#include <vector>

namespace gdr::abi {

// Later series can describe the parts of a field's value; our values are scalars.
template <class Parser>
void set_doc(Parser& parser)
{
    if constexpr (requires { parser.doc; }) {
        parser.doc = [](void*, const void*) {};
    }
}

// Parser has the members read, write, clone, release, help, arg, and in later series doc.
template <class Parser>
Parser parser_of(const Option& option)
{
    Parser parser{};
    parser.release = ucs_config_release_nop;
    parser.help = ucs_config_help_generic;
    set_doc(parser);
    switch (option.type) {
    case OptionType::boolean:
        parser.read = ucs_config_sscanf_bool;
        parser.write = ucs_config_sprintf_bool;
        parser.clone = ucs_config_clone_int;
        parser.arg = "<y|n>";
        return parser;
    case OptionType::ternary:
        parser.read = ucs_config_sscanf_ternary;
        parser.write = ucs_config_sprintf_ternary_auto;
        parser.clone = ucs_config_clone_int;
        parser.arg = "<yes|no|try>";
        return parser;
    case OptionType::unsigned_int:
        parser.read = ucs_config_sscanf_uint;
        parser.write = ucs_config_sprintf_uint;
        parser.clone = ucs_config_clone_uint;
        parser.arg = "unsigned integer";
        return parser;
    case OptionType::auto_ulong:
        parser.read = ucs_config_sscanf_ulunits;
        parser.write = ucs_config_sprintf_ulunits;
        parser.clone = ucs_config_clone_ulong;
        parser.arg = "unsigned long: <number>, \"inf\", or \"auto\"";
        return parser;
    case OptionType::memory_size:
        parser.read = ucs_config_sscanf_memunits;
        parser.write = ucs_config_sprintf_memunits;
        parser.clone = ucs_config_clone_ulong;
        parser.arg = "memory units: <number>[b|kb|mb|gb], \"inf\", or \"auto\"";
        return parser;
    case OptionType::duration:
        parser.read = ucs_config_sscanf_time;
        parser.write = ucs_config_sprintf_time;
        parser.clone = ucs_config_clone_double;
        parser.arg = "time value: <number>[s|us|ms|ns]";
        return parser;
    case OptionType::string:
        parser.read = ucs_config_sscanf_string;
        parser.write = ucs_config_sprintf_string;
        parser.clone = ucs_config_clone_string;
        parser.release = ucs_config_release_string;
        parser.arg = "string";
        return parser;
    case OptionType::choice:
        parser.read = ucs_config_sscanf_enum;
        parser.write = ucs_config_sprintf_enum;
        parser.clone = ucs_config_clone_uint;
        parser.help = ucs_config_help_enum;
        parser.arg = option.names;
        return parser;
    }
    throw std::logic_error("an option without a type");
}

// Includes the terminating field. base, if not NULL, is the table of the structure that this one
// starts with.
template <class Field>
std::vector<Field> fields_of(const OptionTable& table, ucs_config_field_t* base)
{
    using Parser = decltype(Field::parser);
    std::vector<Field> fields;
    if (base) {
        Field super{"", "", nullptr, 0, Parser{}};
        super.parser.read = ucx().sscanf_table;
        super.parser.clone = ucs_config_clone_table;
        super.parser.release = ucs_config_release_table;
        super.parser.help = ucs_config_help_table;
        super.parser.arg = base;
        set_doc(super.parser);
        fields.push_back(super);
    }
    for (const Option& option : table.options) {
        fields.push_back({option.name, option.default_value, option.doc, option.offset,
                          parser_of<Parser>(option)});
    }
    fields.push_back({});
    return fields;
}

} // namespace gdr::abi
