#!/usr/bin/env bash
# The plug-in's kernels, as the assembler reported them when it was built (BUILD/cuda/*.log): each has
# code for every architecture, and none spills registers or keeps a stack.
#
#   tests/gpu/inspect.sh [BUILD [ARCHITECTURE...]]
#
# Exit code 77 where no plug-in is built. If cuobjdump is there, it says what the plug-in contains.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:-build}
plugin=$build/collctl-cuda.so
wanted='sm_75 sm_80 sm_90 sm_100 sm_110 sm_120'
(($# < 2)) || wanted=${*:2}

if [[ ! -f $plugin ]]; then
	echo "no CUDA toolkit: $plugin is not built, so its kernels were not inspected"
	exit 77
fi

awk -v wanted="$wanted" '
	/Compiling entry function/ {
		split($0, quoted, "\047")
		name = quoted[2]
		arch = quoted[4]
		has[name, arch] = names[name] = archs[arch] = 1
	}
	/bytes stack frame/ {
		match($0, /[0-9]+ bytes stack frame/)
		stack = substr($0, RSTART) + 0
		match($0, /[0-9]+ bytes spill stores/)
		spills = substr($0, RSTART) + 0
		if (name != "" && stack + spills > 0) {
			printf "%s for %s: %d bytes of stack, %d spilled\n", name, arch, stack, spills
			bad = 1
		}
		name = ""
	}
	END {
		n = split(wanted, want, " ")
		for (i = 1; i <= n; i++)
			archs[want[i]] = 1
		for (name in names) {
			kernels++
			for (arch in archs)
				if (!((name, arch) in has)) {
					printf "%s: no code for %s\n", name, arch
					bad = 1
				}
		}
		printf "%d kernels\n", kernels
		exit bad || kernels == 0
	}' "$build"/cuda/*.log

if command -v cuobjdump >/dev/null; then
	found=$(cuobjdump --list-elf "$plugin")
	for arch in $wanted; do
		if [[ $found != *".$arch.cubin"* ]]; then
			echo "$plugin has no code for $arch"
			exit 1
		fi
	done
fi
