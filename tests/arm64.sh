#!/usr/bin/env bash
# Does the program work on aarch64? Build it with Debian's cross compiler and run it under qemu-user. Prints TAP.
#
#   tests/arm64.sh [BATS OPTIONS...]
#
# The build is in build-arm64, and the arm64 packages that it needs, which are fetched once, in build-arm64/sysroot
# (tests/sysroot.sh). tests/arm64/arm64.bats compares it with COLLCTL (build/collctl), the same program of this machine.
# Skipped where the compiler, qemu-user or the packages are missing.
set -euo pipefail

cd "$(dirname "$0")/.."
build="build-arm64"
sysroot=$build/sysroot
export COLLCTL=${COLLCTL:-$PWD/build/collctl}

skip() {
	echo '1..1'
	echo "ok 1 aarch64 # skip $1"
	exit 0
}
[[ $(uname -m) != aarch64 ]] || skip 'this machine is one: make check tests it'
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
	command -v $tool >/dev/null || skip "no $tool (Debian's gcc-aarch64-linux-gnu, qemu-user)"
done
tests/sysroot.sh arm64 "$sysroot" >&2 || skip 'the arm64 packages cannot be fetched'

units=() # of tests/arm64/arm64.bats
while read -ra names; do
	units+=("${names[@]/#/$build/unit/test_}")
done < <(sed -nE 's/^\tunits (.*)$/\1/p' tests/arm64/arm64.bats)
"${MAKE:-make}" -s -j"$(nproc)" CC=aarch64-linux-gnu-gcc SYSROOT="$sysroot" BUILD="$build" WERROR=1 all "${units[@]}" >"$build/log" 2>&1 || {
	echo '1..1'
	echo 'not ok 1 it is built by make CC=aarch64-linux-gnu-gcc'
	tail -n 40 "$build/log" | sed 's/^/# /'
	exit 1
}

# The program, to be run as any other.
mkdir -p "$build/emulated"
printf '#!/bin/sh\nexec qemu-aarch64 -L %q %q "$@"\n' "$PWD/$sysroot" "$PWD/$build/collctl" >"$build/emulated/collctl"
chmod +x "$build/emulated/collctl"
export ARM64_BUILD=$PWD/$build
exec bats --tap "$@" tests/arm64/arm64.bats
