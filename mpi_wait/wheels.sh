#!/usr/bin/env bash
# Builds the wheels of mpi-wait for x86-64 and AArch64, and checks them: size, glibc that they need, installation without
# the product, two ranks with each MPI library here. Needs Python, a package index and, for the second, binutils.
#
#     mpi_wait/wheels.sh DIRECTORY [--emulator]
#
# DIRECTORY gets the wheels. --emulator: also run ranks of AArch64 under QEMU with Debian's MPI libraries, all of which
# apt-get fetches into a temporary directory; needs mpicc.mpich and mpicc.openmpi of this machine for their headers.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/mpi-wait-wheels.XXXXXX")
trap 'rm -rf "$work"' EXIT
export ZIG_GLOBAL_CACHE_DIR="$work/zig" PIP_DISABLE_PIP_VERSION_CHECK=1
unset MPI_WAIT_CC LD_PRELOAD
fail() { echo "mpi-wait: $1" >&2; exit 1; }

python3 -m venv "$work/build"
"$work/build/bin/pip" install -q --no-compile 'hatchling>=1.26' 'ziglang>=0.13,<1'
builds=()
for machine in x86_64 aarch64; do
    MPI_WAIT_MACHINE=$machine "$work/build/bin/pip" wheel -q --no-build-isolation --no-deps -w "$out" "$here" &
    builds+=("$!")
done
for build in "${builds[@]}"; do wait "$build"; done

for wheel in "$out"/mpi_wait-*-manylinux_2_17_{x86_64,aarch64}.*.whl; do
    bytes=$(stat -c %s "$wheel")
    [ "$bytes" -le 1000000 ] || fail "$wheel has $bytes bytes; expected at most 1000000"
    unpacked="$work/$(basename "$wheel" .whl)"
    python3 -m zipfile -e "$wheel" "$unpacked"
    newest=$(readelf -VW "$unpacked/mpi_wait/libmpi-wait.so" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
    [ "$(printf 'GLIBC_2.17\n%s\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] \
        || fail "$wheel needs $newest; its tag promises GLIBC_2.17"
    echo "$(basename "$wheel"): $bytes bytes, $newest"
done

python3 -m venv --without-pip "$work/bare"
begun=$(date +%s%N)
"$work/build/bin/pip" --python "$work/bare/bin/python" install -q --no-index --find-links "$out" mpi-wait
echo "installed alone in $(((($(date +%s%N) - begun)) / 1000000)) ms: $("$work/bare/bin/mpi-wait" --version)"
if command -v mpiexec >/dev/null; then
    (cd "$work" && bare/bin/mpi-wait --check)
fi
[ "${2:-}" = --emulator ] || exit 0

# A package database of its own, in which nothing is installed.
mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/root" "$work/qemu"
touch "$work/apt/status"
arm64=(-qq -o "Dir::State=$work/apt" -o "Dir::State::status=$work/apt/status" -o "Dir::Cache=$work/apt"
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Debug::NoLocking=1 -o APT::Sandbox::User=root)
apt-get "${arm64[@]}" update
apt-get "${arm64[@]}" install -y --download-only --no-install-recommends libmpich12 libopenmpi3
(cd "$work/qemu" && apt-get download -qq -o APT::Sandbox::User=root qemu-user-static)
for package in "$work"/apt/archives/*.deb; do dpkg-deb -x "$package" "$work/root"; done
dpkg-deb -x "$work"/qemu/*.deb "$work/qemu"

emulator=("$work/qemu/usr/bin/qemu-aarch64-static" -L "$work/root")
library=$(echo "$work"/mpi_wait-*aarch64*/mpi_wait/libmpi-wait.so)
# Open MPI notes once that the emulator has no system call for copies between processes, and does without.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for mpi in mpich openmpi; do
    case $mpi in mpich) lib=libmpich.so.12 ;; *) lib=libmpi.so.40 ;; esac
    read -ra include <<<"$("mpicc.$mpi" -show | grep -oE -- '-I[^ ]+' | tr '\n' ' ')"
    for program in known waits; do
        "$work/build/bin/python" -m ziglang cc -target aarch64-linux-gnu.2.34 -O1 -w "${include[@]}" -o "$work/$program" \
            "$here/../tests/apples/monitoring/programs/$program.c" "$work/root/usr/lib/aarch64-linux-gnu/$lib" \
            -Wl,--allow-shlib-undefined
    done
    for wait in adaptive block poll; do
        for command in "known all 10 1000" waits; do
            pages=$(mktemp -d -p "$work")
            read -ra words <<<"$command"
            timeout 120 "mpiexec.$mpi" -n 2 "${emulator[@]}" -E "LD_PRELOAD=$library" -E "APPLES_MONITOR=$pages" -E APPLES_JOB=job \
                -E "APPLES_WAIT=$wait" "$work/${words[0]}" "${words[@]:1}" >"$work/output" || fail "$mpi, $wait: ${words[0]} fails"
            [ -s "$pages/job.1" ] || fail "$mpi, $wait: the library was not loaded"
            # Shares of a CPU while a rank waits in a call: asleep under block, in the calls that it replaces.
            [ "$wait ${words[0]}" != "block waits" ] \
                || awk '$1 ~ /^(Recv|Wait|Waitall|Barrier|Probe)$/ && $2 > 0.6 { exit 1 }' "$work/output" \
                || fail "$mpi: ranks do not sleep: $(tr '\n' ' ' <"$work/output")"
        done
    done
    echo "AArch64, $mpi: known.c and waits.c are right under adaptive, block and poll"
done
