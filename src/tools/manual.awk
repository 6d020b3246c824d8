# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Makes the manual page of the command from its --help: the lines of "Usage:" (a command and, after two blanks or more,
# what it does), the options, and the paragraphs. "version" is the package's. help2man is not used: it does not know
# descriptions of commands, and every build would need it, since the help depends on the parts that are built.

BEGIN {
    print ".TH UCX\\-GDR 1 \"\" \"ucx\\-gdr " version "\""
    print ".SH NAME\nucx\\-gdr \\- run programs with GPUDirect RDMA for the UCX they use"
    print ".SH SYNOPSIS"
}

{
    gsub(/\\/, "\\e")
    gsub(/-/, "\\-")
}

function entry(line, end) {
    end = match(line, /  +/) ? RSTART : length(line) + 1
    print ".TP\n.B " substr(line, 1, end - 1)
    if (RSTART)
        print substr(line, RSTART + RLENGTH)
}

/^Usage: / { in_usage = 1; sub(/^Usage:/, "      ") }

in_usage && NF {
    if (sub(/^       ucx/, "ucx"))
        entry($0)
    else {
        sub(/^ +/, "")
        print
    }
    next
}

in_usage { in_usage = 0; print ".SH OPTIONS"; next }

/^  \\-/ { entry(substr($0, 3)); in_options = 1; next }
in_options && NF { sub(/^ +/, ""); print; next }
in_options { in_options = 0; print ".SH DESCRIPTION"; next }
NF { print }
!NF { print ".PP" }

END { print ".SH SEE ALSO\n.BR ucx\\-gdr (7)" }
