#compdef ucx-gdr
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Completion of ucx-gdr's arguments for zsh: what its --help lists.

local help usage
local -a found
integer i=3
help=$("$words[1]" --help 2>/dev/null) || return 1
usage=$(sed -n '1,/^$/s/^[U ][sage: ]*ucx-gdr //p' <<<"$help")
if ((CURRENT == 2)); then
    found=(${(f)"$(sed 's/ .*//' <<<"$usage"; grep -oE -- '--(help|version)' <<<"$usage")"})
else
    usage=$(grep -- "^$words[2] " <<<"$usage")
    while ((i < CURRENT)) && [[ $words[i] == -* ]]; do ((i++)); done
    if [[ $usage == *COMMAND* && ($i -lt $CURRENT || $words[CURRENT] != -*) ]]; then
        shift $((i - 1)) words
        ((CURRENT -= i - 1))
        _normal
        return
    fi
    found=(${(f)"$(sed 's/   .*//' <<<"$usage" | grep -oE -- '--[a-z-]+')"})
    [[ $usage != *"[OPTION]"* ]] || found+=(${(f)"$(sed -n 's/^  \(--[a-z-]*\)[ =].*/\1/p' <<<"$help")"})
fi
compadd -a found
