#!/usr/bin/env bash
# Whole jobs on the devices of a plug-in (tests/gpu/jobs.bats).
#
#   tests/gpu/jobs.sh COLLCTL PLUGIN
#
# Exit code 77, with the reason in a line: the plug-in has no device, or the tests need what is missing.
set -euo pipefail

folder=$(dirname "$0")
devices=$("$folder/devices.sh" "$1" "$2") || {
	rc=$?
	echo "whole jobs: $devices"
	exit "$rc"
}
if ! "$folder/../setup.sh" gpu; then
	echo 'whole jobs: skipped: packages are missing'
	exit 77
fi
COLLCTL=$1 COLLTEST_PLUGIN=$2 exec bats "$folder/jobs.bats"
