#!/usr/bin/env bash
# The plug-in's kernels. As the assembler reported them when it was built (BUILD/cuda/*.log): each has code for every
# architecture, and none spills registers or keeps a stack. In the machine code, which cuobjdump prints: each fold loads
# and stores 16 bytes at a time, and has 32 bytes or more under way to each thread; each fill stores 16 bytes at a time.
#
#   tests/gpu/inspect.sh [BUILD]
#   tests/gpu/inspect.sh --tools BUILD      are they there?
#
# Exit code 77 where no plug-in is built, or without cuobjdump and nvdisasm (make cuda-tools) after the first part.
set -euo pipefail
cd "$(dirname "$0")/../.."

# tools: are cuobjdump and nvdisasm on PATH, beside nvcc, or where cuda-deps or cuda-tools install them?
tools() {
	local folder nvcc
	nvcc=$(command -v nvcc || true)
	for folder in "$build"/cuda-{toolkit,tools}/nvidia/cu*/bin "$(dirname "$(realpath "${nvcc:-/}")")"; do
		PATH+=:$(realpath -m "$folder")
	done
	command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null
}

if [[ ${1-} == --tools ]]; then
	build=$2
	tools
	exit
fi
build=${1:-build}
plugin=$build/collctl-cuda.so

if [[ ! -f $plugin ]]; then
	echo "no CUDA toolkit: $plugin is not built, so its kernels were not inspected"
	exit 77
fi
# What it was built for: the architectures that its flags name, or all major ones.
wanted=$(grep -o 'sm_[0-9]*' "$build/cuda/flags" | sort -u | xargs) || wanted=
wanted=${wanted:-sm_75 sm_80 sm_90 sm_100 sm_110 sm_120}

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

if ! tools; then
	echo 'no cuobjdump or nvdisasm (make cuda-tools installs them): the machine code was not inspected'
	exit 77
fi

# Loads of 16 bytes whose registers no instruction has used yet are under way.
for arch in $wanted; do
	cuobjdump -sass -arch "$arch" "$plugin" | awk -v arch="$arch" '
		function report(what) {
			printf "%s for %s: %s\n", name, arch, what
			bad = 1
		}
		function judge() {
			if (name ~ /fold_work/ && most < 2)
				report(16 * most " bytes of loads of 16 bytes under way, not 32")
			if (name ~ /fold_work|fill_work/ && stores < 1 + (name ~ /fold_work/))
				report(stores + 0 " stores of 16 bytes")
			kernels += name ~ /fold_work|fill_work/
			most = stores = underway = 0
			delete loads
		}
		/Function :/ {
			judge()
			name = $3
		}
		/^[ \t]*\/\*[0-9a-f]+\*\/.*;/ {
			code = $0
			sub(/;.*/, "", code)
			sub(/^[^*]*\*[0-9a-f]+\*\//, "", code)
			stores += code ~ /STG\.E[.A-Z0-9]*\.(128|256)/
			rest = code
			gsub(/UR[0-9]+/, "", rest) # not of a thread
			while (match(rest, /R[0-9]+/)) {
				register = substr(rest, RSTART + 1, RLENGTH - 1) + 0
				rest = substr(rest, RSTART + RLENGTH)
				if (register in loads) {
					first = loads[register]
					for (i = first; i < first + 4; i++)
						delete loads[i]
					underway--
				}
			}
			if (code ~ /LDG?\.E[.A-Z0-9]*\.128/) {
				match(code, /R[0-9]+/)
				first = substr(code, RSTART + 1, RLENGTH - 1) + 0
				for (i = first; i < first + 4; i++)
					loads[i] = first
				underway++
				most = underway > most ? underway : most
			}
		}
		END {
			judge()
			printf "%s: %d folds and fills inspected\n", arch, kernels
			exit bad || kernels == 0
		}' || failed=1
done
exit "${failed:-0}"
