#!/usr/bin/env bash
# talp-pages 3.8.0: `talp ci-report` fails on files to which its own `talp metadata` has added a commit and a branch
#
# Behaviour: a file in the format of DLB's TALP becomes a page. After `talp metadata --git-commit C --git-branch B`, outside
#   a git checkout or in a container without git, the same file has `"gitTimestamp": null`, and `talp ci-report` ends with
#   `KeyError: nan`: a missing key is replaced by the time of the run, a null one is not. With `--git-timestamp` it works.
#   Without any option the command writes the same null and asks for options. It calls itself 3.6.2.
# Good guess: what one command of a tool writes, the next one reads; options named in its message are enough.
# Why it matters here: `apples history RUN --talp` prints this format for talp-pages. In CI jobs the metadata command is the
#   documented step between, so users see the failure with our file in their hands.
# Source: seen by running it; `io/dataframe_handling.py` of the package catches the missing key only.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check talp-pages==3.8.0
mkdir -p "$work/runs/case"
cat >"$work/runs/case/run.json" <<'JSON'
{"dlbVersion": "3.6", "timestamp": "2026-01-05T10:00:00",
 "resources": {"numCpus": 2, "numNodes": 1, "numMpiRanks": 2, "numGpus": 0},
 "Application": {"Global": {
  "numCpus": 2, "numMpiRanks": 2, "numNodes": 1, "avgCpus": 2.0, "cycles": 0, "instructions": 0, "numMeasurements": 1,
  "numMpiCalls": 10, "numOmpParallels": 0, "numOmpTasks": 0, "numGpuRuntimeCalls": 0, "elapsedTime": 1000000000,
  "usefulTime": 1500000000, "mpiTime": 500000000, "parallelEfficiency": 0.75, "mpiParallelEfficiency": 0.75,
  "mpiCommunicationEfficiency": 1.0, "mpiLoadBalance": 0.75, "mpiLoadBalanceIn": 0.75, "mpiLoadBalanceOut": 1.0,
  "ompParallelEfficiency": 1.0, "ompLoadBalance": 1.0, "ompSchedulingEfficiency": 1.0, "ompSerializationEfficiency": 1.0}}}
JSON
cd "$work"
# Its last line, or "a page": what a report of these files says.
report() {
    rm -rf page
    venv/bin/talp ci-report --no-badge -i "$1" -o page >report.log 2>&1 && echo "a page" || tail -n 1 report.log
}
for stamp in "" 2026-01-05T09:00:00; do
    cp -r runs "with$stamp"
    venv/bin/talp metadata -i "with$stamp" --git-commit 0123456789abcdef --git-branch main \
        ${stamp:+--git-timestamp "$stamp"} >/dev/null 2>&1
done
version=$(venv/bin/talp --version)
before=$(report runs) after=$(report with) stamped=$(report with2026-01-05T09:00:00)
echo "talp-pages 3.8.0 (calls itself $version)"
echo "without metadata: $before"
echo "talp metadata --git-commit … --git-branch …: $after"
echo "the same with --git-timestamp …: $stamped"
[ "$before" = "a page" ] && [ "$after" = "KeyError: nan" ] && [ "$stamped" = "a page" ] || { echo "this behaviour has changed"; exit 1; }
