#!/usr/bin/env bash
# The number of devices that a plug-in has. Exit code 77, with the reason: there is none.
#
#   tests/gpu/devices.sh COLLCTL PLUGIN
set -euo pipefail

found=$(COLLCTL_PLUGIN_PATH=$(realpath -m "$2") "$1" version | sed -n 's/^GPU plug-in *//p')
if [[ ! $found =~ :\ ([1-9][0-9]*)\ devices?$ ]]; then
	echo "skipped: $found"
	exit 77
fi
echo "${BASH_REMATCH[1]}"
