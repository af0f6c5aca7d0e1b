#!/usr/bin/env bash
# Intel MPI (impi-rt 2021.18.1): mpiexec -f takes `host:ranks` lines and ignores the ranks
#
# Behaviour: a file of `hosta:1` and `hostb:3` is accepted by `-f` without a word, and four ranks are placed as if no
#   numbers were there: as many on the first host as the launcher thinks it has CPUs. `-machinefile` reads the same file
#   and places 1 and 3. MPICH's mpiexec (mpich 5.0.2), of which Intel's is a fork, places 1 and 3 with `-f`.
# Good guess: the fork keeps the meaning of `-f` and of the numbers, or rejects numbers that it does not use.
# Why it matters here: uneven numbers of ranks are the point of a plan. With `-f` each run starts, ends well, and has
#   the ranks on the wrong hosts.
# Source: Intel's reference documents `host:number` for -machinefile only; seen by running both.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for library in impi-rt==2021.18.1 mpich==5.0.2; do
    python3 -m venv "$work/${library%%=*}"
    "$work/${library%%=*}/bin/pip" install -q --disable-pip-version-check "$library"
done
printf 'hosta:1\nhostb:3\n' >"$work/hosts"
# A remote shell that runs the command here and says which host was meant.
cat >"$work/shell" <<'SHELL'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
SEEN_HOST=$1
export SEEN_HOST
shift
exec sh -c "$*"
SHELL
chmod +x "$work/shell"
export I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_HYDRA_BOOTSTRAP_EXEC=$work/shell
# Ranks on the first host of the file.
on_first() {
    timeout 60 "$work/$1/bin/mpiexec" "${@:2}" "$work/hosts" -n 4 sh -c 'echo "on $SEEN_HOST"' </dev/null \
        | grep -c '^on hosta$'
}
by_f=$(on_first impi-rt -f)
by_machinefile=$(on_first impi-rt -machinefile)
by_mpich=$(on_first mpich -launcher rsh -launcher-exec "$work/shell" -f)
echo "four ranks, file of hosta:1 and hostb:3; ranks on hosta:"
echo "impi-rt 2021.18.1 -f: $by_f;  -machinefile: $by_machinefile;  mpich 5.0.2 -f: $by_mpich"
[ "$by_f" -gt 1 ] && [ "$by_machinefile" = 1 ] && [ "$by_mpich" = 1 ] || { echo "this behaviour has changed"; exit 1; }
