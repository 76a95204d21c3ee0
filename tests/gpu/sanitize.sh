#!/usr/bin/env bash
# NVIDIA's compute-sanitizer over the plug-in's kernels (tests/gpu/check.c): accesses out of bounds, reads of
# memory that nothing has written. (No kernel has shared memory, so that there are no races in it to look for.)
#
#   tests/gpu/sanitize.sh COLLCTL CHECK PLUGIN [EVERY]     one of EVERY folds runs (default: 13)
#
# Exit code 77, with the reason in a line: there is no compute-sanitizer, or the plug-in has no device.
set -euo pipefail

if ! command -v compute-sanitizer >/dev/null; then
	echo 'compute-sanitizer: skipped: it is not on PATH (make cuda-deps installs it)'
	exit 77
fi
devices=$("$(dirname "$0")/devices.sh" "$1" "$3") || {
	rc=$?
	echo "compute-sanitizer: $devices"
	exit "$rc"
}

failed=()
for tool in memcheck initcheck; do
	echo "compute-sanitizer --tool $tool"
	# What the driver refuses, as check expects, is no error.
	compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 99 "$2" "$3" "${4:-13}" || failed+=("$tool ($?)")
done
if ((${#failed[@]})); then
	echo "compute-sanitizer: failed: ${failed[*]}"
	exit 1
fi
