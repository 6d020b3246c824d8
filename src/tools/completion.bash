# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Completion of ucx-gdr's arguments for bash, from its --help.

_ucx_gdr() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-} help usage i words
    COMPREPLY=()
    help=$("${COMP_WORDS[0]}" --help 2>/dev/null) || return 0
    usage=$(sed -n '1,/^$/s/^[U ][sage: ]*ucx-gdr //p' <<<"$help")
    if ((COMP_CWORD == 1)); then
        words=$(sed 's/ | /\n/g; s/ .*//' <<<"$usage")$'\n'$(grep -oE -- '--(help|version)' <<<"$usage")
    else
        usage=$(grep -- "^$command " <<<"$usage")
        for ((i = 2; i < COMP_CWORD; i++)); do
            [[ ${COMP_WORDS[i]} == -* ]] || break
        done
        if [[ $usage == *COMMAND* && ($i -lt $COMP_CWORD || $word != -*) ]]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset "$i"
            else
                mapfile -t COMPREPLY < <(compgen -c -- "$word")
            fi
            return 0
        fi
        words=$(sed 's/   .*//' <<<"$usage" | grep -oE -- '--[a-z-]+')
        [[ $usage != *"[OPTION]"* ]] || words+=$'\n'$(sed -n 's/^  \(--[a-z-]*\)[ =].*/\1/p' <<<"$help")
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word" | sort -u)
}
complete -F _ucx_gdr ucx-gdr
