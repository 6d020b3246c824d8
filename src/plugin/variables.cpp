// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Prints the manual page of the variables, from the tables that UCX shows with ucx_info -f. Run
// while ucx-gdr is built, and not installed.
#include "config.h"
#include "copy/memory_domain.hpp"
#include "copy/settings.hpp"
#include "ipc/settings.hpp"
#include "plugin/options.hpp"
#include "rc/settings.hpp"

#include <cstdio>
#include <string>

namespace {

// What troff would take for a request or an escape.
std::string escaped(const char* text)
{
    std::string result;
    for (bool at_start = true; *text; at_start = *text++ == '\n') {
        if (at_start && (*text == '.' || *text == '\''))
            result += "\\&";
        if (*text == '\\' || *text == '-')
            result += '\\';
        result += *text;
        if (*text == '\\')
            result += 'e';
    }
    return result;
}

void print(const gdr::abi::OptionTable& table)
{
    std::printf(".SS %s\n", escaped(table.name).c_str());
    for (const gdr::abi::Option& option : table.options)
        std::printf(".TP\n\\fBUCX_%s%s\\fR=%s\n%s\n", table.prefix, option.name,
                    escaped(option.default_value).c_str(), escaped(option.doc).c_str());
}

} // namespace

int main()
{
    std::printf(
        ".TH UCX\\-GDR 7 \"\" \"ucx\\-gdr %s\"\n"
        ".SH NAME\nucx\\-gdr \\- variables of the gdr transport\n"
        ".SH DESCRIPTION\n"
        "Read by UCX from the environment or its configuration file; shown with their defaults.\n"
        ".B ucx\\-gdr run ucx_info \\-f\nshows those of the UCX that is there.\n"
        ".SH VARIABLES\n",
        PACKAGE_VERSION);
    print(gdr::plugin::option_table());
    print(gdr::copy::md_options());
    print(gdr::copy::iface_options());
    print(gdr::ipc::md_options());
    print(gdr::ipc::iface_options());
    print(gdr::rc::md_options());
    print(gdr::rc::iface_options());
    std::printf(".SH SEE ALSO\n.BR ucx\\-gdr (1)\n");
}
