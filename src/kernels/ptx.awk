# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Turns PTX into a C++ table of its kernels. Each gets the parts of the file outside of all kernels, so that it is a
# module of its own. NAME.ptx becomes gdr::kernels::NAME_ptx.

/^(\.visible )?\.entry / { inside = 1; names[++count] = $0; sub(/.*\.entry /, "", names[count]); sub(/\(.*/, "", names[count]) }
{ if (inside) text[count] = text[count] $0 "\n"; else shared = shared $0 "\n" }
/^}/ { inside = 0 }

END {
    name = FILENAME
    gsub(/.*\/|\.ptx$/, "", name)
    print "#include \"kernels/loaded_kernels.hpp\""
    print "namespace {\nconstexpr gdr::kernels::PtxKernel table[] = {"
    for (i = 1; i <= count; ++i)
        print "{\"" names[i] "\", R\"PTX(" shared text[i] ")PTX\"},"
    print "};\n} // namespace"
    print "constinit const std::span<const gdr::kernels::PtxKernel> gdr::kernels::" name "_ptx = ::table;"
    exit inside || !count
}
