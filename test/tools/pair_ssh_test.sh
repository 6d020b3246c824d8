#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "ucx-gdr doctor --pair" over a real ssh, whose server belongs to the connection: it needs no port. What the other side
# does is a script of the test, as behind a login shell.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
[[ $GDR_DOCTOR == yes ]] || skip_all "ucx-gdr was built without the doctor"
[[ ! -e /sys/class/infiniband ]] || skip_all "the HCA of this machine is no emulated one"
sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || skip_all "no sshd (package openssh-server)"
for program in ssh ssh-keygen; do
    command -v $program >/dev/null || skip_all "no $program (package openssh-client)"
done
unset LD_PRELOAD LD_LIBRARY_PATH GDR_EMULATION UCX_GDR_IPC UCX_VFS_ENABLE UCX_HANDLE_ERRORS
cd "$work" || exit 99
tool=$(realpath "$tool")

for key in host right wrong; do ssh-keygen -q -t ed25519 -N '' -f "$work/$key"; done
cat >server.conf <<END
HostKey $work/host
AuthorizedKeysFile $work/right.pub
ForceCommand $work/far
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
END
server="exec $sshd -i -f $work/server.conf -E $work/server.log"
if [[ $(id -u) == 0 && ! -d /run/sshd ]]; then
    server="unshare -m sh -c 'mount -t tmpfs none /run && mkdir /run/sshd && $server'"
fi
cat >client.conf <<END
Host there
  IdentityFile $work/right
Host stranger
  IdentityFile $work/wrong
Host there stranger
  ProxyCommand $server
  IdentitiesOnly yes
  BatchMode yes
  UserKnownHostsFile $work/known
  StrictHostKeyChecking accept-new
  LogLevel ERROR
END

# far SCRIPT: what is run there in the place of $SSH_ORIGINAL_COMMAND.
far() {
    printf '#!/bin/sh\nexport SOFTHCA_FABRIC=%s\n%s\n' "$SOFTHCA_FABRIC" "$1" >"$work/far"
    chmod +x "$work/far"
}
# pair HOST [SSH-OPTION]...: leaves the report in $work/said, the status, and the seconds that it took.
doctor=("$tool" doctor)
pair() {
    local host=$1 begin=$SECONDS
    shift
    timeout -k 5 200 "${doctor[@]}" --verbose --pair "$host" --launcher "ssh -F $work/client.conf $*" >"$work/said" \
        2>"$work/progress" </dev/null
    status=$?
    seconds=$((SECONDS - begin))
}
# tells NAME TEXT: why there is no report.
tells() {
    expect "$1: the status" 64 "$status"
    if grep -qF -e "$2" "$work/progress"; then ok "$1"; else not_ok "$1" "$work/progress"; fi
}
# finds NAME WORD ID TEXT: the finding has the word in front of it, and the text.
finds() {
    if [[ $(awk -v id="$3" '$2 == id { print $1; exit }' "$work/said") == "$2" ]] && grep -qF -e "$4" "$work/said"; then
        ok "$1"
    else
        not_ok "$1" "$work/said" "$work/progress"
    fi
}

# shellcheck disable=SC2016 # for the script
plain='eval "$SSH_ORIGINAL_COMMAND"'
far "$plain"
ssh -F client.conf there true 2>refused || skip_all "sshd lets nobody in: $(tail -qn 1 refused server.log)"

section "transfers"
pair there
expect "emulated devices are not the real ones" 2 "$status"
finds "every byte is right" ok pair.transfer "every byte of 54 transfers is right"
finds "GPU memory is registered" ok pair.register "memory of hosts and GPUs is registered"
far "echo 'Welcome to n018'; printf 'Have a nice day'; $plain"
pair there
finds "a login shell may greet" ok pair.transfer "every byte of 54 transfers is right"
echo "Banner /etc/os-release" >>server.conf
pair there
finds "a server may show a banner" ok pair.transfer "every byte of 54 transfers is right"
if [[ -e $top_builddir/src/emu/softmlx5/libsoftmlx5.la ]]; then
    emulating=("$tool" run --emulate-hca=mlx5 --emulate-gpu UCX_NET_DEVICES=mlx5_0:1) # softhca has no such port
    far "eval \"${emulating[*]} \$SSH_ORIGINAL_COMMAND\""
    doctor=("${emulating[@]}" "$tool" doctor)
    pair there
    doctor=("$tool" doctor)
    finds "softmlx5: every byte is right" ok pair.transfer "every byte of 54 transfers is right"
else
    skip_case "softmlx5" "it is not built"
fi
if unshare --map-root-user --uts true 2>/dev/null; then
    # shellcheck disable=SC2016 # for the script
    far 'exec unshare --map-root-user --uts sh -c "hostname gdr-b && UCX_TLS=tcp $SSH_ORIGINAL_COMMAND"'
    UCX_TLS=tcp pair there
    check "another host" grep -q "^1:ucx-gdr doctor .* with gdr-b: " <(grep -n ^ "$work/said")
    finds "another host: nothing is emulated between hosts" ERROR hca.none "no RDMA device"
    finds "another host: UCX's other transports are tried" ok pair.transfer "every byte of 18 transfers is right"
else
    skip_case "another host" "no namespaces of host names"
fi

section "no answer"
pair nowhere.invalid
tells "an unknown host" "Could not resolve hostname nowhere.invalid"
pair stranger
tells "a key that is refused" "the process on stranger ended with status 255: "
check "a key that is refused: ssh's words" grep -q "Permission denied" "$work/progress"
pair there -o ProxyCommand=false
tells "a connection that is refused" "the process on there ended with status 255: "
pair "-oProxyCommand=touch $work/ran"
tells "a host's name that is an option" "is no name of a host"
check "a host's name that is an option: it is none" [ ! -e "$work/ran" ]
far "exec sh -c '/nonexistent/ucx-gdr doctor'"
pair there
tells "no ucx-gdr there" "ended with status 127: "
check "no ucx-gdr there: its name" grep -q "/nonexistent/ucx-gdr" "$work/progress"
far 'echo "ucx-gdr-peer: report 0.0.1 {}"'
pair there
tells "another version there" "there has ucx-gdr 0.0.1, and this host has "
far "echo 'This account is closed.'; exit 1"
pair there
tells "a login shell that ends" "ended with status 1: This account is closed."
far 'cat /dev/zero'
pair there
tells "a login shell that writes without end" "writes what is not ucx-gdr's, without end"

section "a connection that breaks"
# shellcheck disable=SC2016 # for the script
far 'case $SSH_ORIGINAL_COMMAND in
*--transfers*) $SSH_ORIGINAL_COMMAND & sleep 0.5; kill -KILL $! $PPID ;;
*) '"$plain"' ;;
esac'
pair there
expect "programs do not run" 3 "$status"
check "it is said" grep -q "^ERROR *pair\.[a-z]* .*the process on .* ended with status 255" "$work/said"
check "nobody waits for the dead" [ $seconds -lt 60 ]
done_testing
