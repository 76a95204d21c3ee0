#!/usr/bin/env bash
# The first ten minutes with a GPU: what is there, is the plug-in right, how fast is it. `make gpu-first-run`.
#
#   tests/gpu/first-run.sh [--plugin FILE] [--out FOLDER] [--small] [--limit SECONDS] [--only STEP]...
#
# The steps run in the order below, each within its own time limit; one that fails does not stop the next. FOLDER
# (build/gpu-first-run) gets what each step said (STEP.log), results.json, and a page that is made from it, page.md. Nothing is
# fetched: what is missing, such as torch, is in both as "skipped", with the reason. --small: few bytes and cases, for the stand-in, and four times the limits, as
# its devices are processors that others may use. --limit: of every step. Variables: COLLCTL (build/collctl), PYTHON (python3), and those of the plug-in.
#
# Exit code 0: no step has failed; 1: some have; 2: an option is wrong; 77: the plug-in has no device.
set -euo pipefail

# name, seconds, title; together 10 minutes
steps=(
	'versions 20 Versions'
	'check 110 Folds and copies have the bits of the host'
	'bench 50 Speed of folds and copies'
	'overlap 110 How the parts of a job overlap'
	'nccl 40 NCCL'
	'torch 90 The same job by torch'
	'sanitizer 80 compute-sanitizer'
	'jobs 100 Whole jobs, a sample'
)

here=$(cd "$(dirname "$0")" && pwd)
root=${here%/tests/gpu}
export COLLCTL PYTHON=${PYTHON:-python3}
COLLCTL=$(realpath -m "${COLLCTL:-$root/build/collctl}")
build=${COLLCTL%/*}

# ---- the steps; first_run.py takes their figures from what they print, or from $RESULT. 77: skipped, the last line says why ----

# All that is found.
versions() {
	local nvcc found
	# In order: the toolkit of cuda-deps, one on PATH, the usual place.
	for nvcc in "$build"/cuda-toolkit/nvidia/cu*/bin/nvcc nvcc /usr/local/cuda/bin/nvcc; do
		! found=$("$nvcc" --version 2>/dev/null) || break
	done
	echo "CUDA toolkit: $(sed -n 's/.*release \([^,]*\),.*/\1/p' <<<"${found:-release none,}")"
	echo "torch: $("$PYTHON" -c 'import torch; print(torch.__version__)' 2>/dev/null || echo none)"
	echo "system: $(uname -srm), $(nproc) processors"
	nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader 2>/dev/null |
		sed 's/^/GPU: /' || true
	nvidia-smi || echo 'nvidia-smi does not answer'
	"$COLLCTL" version
}

bench() { "$build/gpu/bench" --mib "$((SMALL ? 1 : 512))" --trials "$((SMALL ? 1 : 5))" --json "$RESULT" "$PLUGIN"; }

# part NAME: of tests/bench/gpu.py, which has no result if it skips the part
part() {
	"$PYTHON" "$root/tests/bench/gpu.py" --plugin "$PLUGIN" --only "$1" --mib "$((SMALL ? 4 : 512))" --rounds "$((SMALL ? 1 : 2))" \
		--result "$RESULT"
	[[ -s $RESULT ]] || return 77
}

# A sum of integers by the processor, by the plug-in's own ways, and by NCCL: the bits, and how long the jobs take.
nccl() {
	local n list way where i inputs=()
	n=$("$here/devices.sh" "$COLLCTL" "$PLUGIN")
	list=cuda:$(seq -s, 0 $((n - 1)))
	for ((i = 0; i < (n < 2 ? 2 : n); i++)); do
		head -c "$((SMALL ? 100000 : 256 << 20))" /dev/urandom >"in.$i.raw"
		inputs+=("in.$i.raw")
	done
	for way in cpu auto nccl; do
		where=(--device "$list" --device-path "$way")
		[[ $way != cpu ]] || where=(--device cpu)
		if ! "$COLLCTL" allreduce -n 1 --insecure --no-sync --json --timeout 20s --format raw --dtype i32 "${where[@]}" \
			"${inputs[@]}" -o "$way.raw" >json 2>err; then
			sed 's/.*NCCL cannot be used/skipped: NCCL cannot be used/' err
			grep -q 'NCCL cannot be used' err && return 77
			return 1
		fi
		echo "$way: $(tr -d '\n' <json)"
		cmp cpu.raw "$way.raw"
	done
}

sanitizer() {
	local folder
	for folder in "$build"/cuda-{toolkit,tools}/nvidia/cu*/bin /usr/local/cuda/bin; do
		PATH+=:$folder
	done
	"$here/sanitize.sh" "$COLLCTL" "$build/gpu/check" "$PLUGIN" "$((SMALL ? 401 : 101))"
}

# Each process opens the driver, which may take a second or more: make check-gpu has all of them.
jobs_of_devices() {
	if ! command -v bats >/dev/null || ! command -v jq >/dev/null; then
		echo 'skipped: bats or jq is missing'
		return 77
	fi
	COLLTEST_PLUGIN=$PLUGIN bats --tap --filter-tags smoke "$here/jobs.bats"
}

if [[ ${1-} == --step ]]; then
	folder=$(mktemp -d "${TMPDIR:-/tmp}/collctl-gpu.XXXXXX")
	trap 'rm -rf "$folder"' EXIT
	cd "$folder"
	case $2 in
	versions) versions ;;
	check) "$build/gpu/check" "$PLUGIN" "$((SMALL ? 401 : 1))" ;;
	bench) bench ;;
	overlap | torch) part "$2" ;;
	nccl) nccl ;;
	sanitizer) sanitizer ;;
	jobs) jobs_of_devices ;;
	esac
	exit
fi

# ---- all of them ----

export PLUGIN=$build/collctl-cuda.so SMALL=0
out=$build/gpu-first-run only=() given=
while (($#)); do
	case $1 in
	--plugin) PLUGIN=$(realpath -m "${2:?}") && shift ;;
	--out) out=${2:?} && shift ;;
	--only) only+=("${2:?}") && shift ;;
	--limit) given=${2:?} && shift ;;
	--small) SMALL=1 ;;
	*)
		echo "first-run.sh: no option '$1'" >&2
		exit 2
		;;
	esac
	shift
done
names=()
for step in "${steps[@]}"; do names+=("${step%% *}"); done
for name in "${only[@]}"; do
	[[ " ${names[*]} " == *" $name "* ]] || { echo "first-run.sh: no step '$name': ${names[*]}" >&2 && exit 2; }
done
[[ -z $given || $given =~ ^[1-9][0-9]*$ ]] || { echo "first-run.sh: --limit $given: not a number of seconds" >&2 && exit 2; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
for name in "${names[@]}"; do rm -f "$out/$name".{log,result}; done # of an earlier run; the folder may have other files
rm -f "$out"/{steps,results.json,page.md}

# The plug-in is found by COLLCTL_PLUGIN_PATH, NCCL where cuda-deps has put it, unless the system's is to be taken.
while read -r name; do
	[[ $name == COLLCTL_STANDIN_* || $name == COLLCTL_NCCL_PATH ]] || unset "$name"
done < <(compgen -e COLLCTL_ || true)
export COLLCTL_PLUGIN_PATH=$PLUGIN
nccl=$build/cuda-toolkit/nvidia/nccl/lib/libnccl.so.2
[[ -n ${COLLCTL_NCCL_PATH-} || ! -e $nccl ]] || export COLLCTL_NCCL_PATH=$nccl

devices=0
! found=$("$here/devices.sh" "$COLLCTL" "$PLUGIN") || devices=1
failed=0
for step in "${steps[@]}"; do
	read -r name limit title <<<"$step"
	((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $name "* ]] || continue
	limit=${given:-$((SMALL ? 4 * limit : limit))}
	export RESULT=$out/$name.result
	begun=$EPOCHREALTIME rc=0
	if ((!devices)) && [[ $name != versions ]]; then
		echo "$found" >"$out/$name.log"
		rc=77
	else
		timeout -k 5 "$limit" "$0" --step "$name" >"$out/$name.log" 2>&1 </dev/null || rc=$?
	fi
	case $rc in
	0) state=passed ;;
	77) state=skipped ;;
	124 | 137) state=over-time && failed=1 ;;
	*) state=failed && failed=1 ;;
	esac
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$state" "$rc" "$limit" "$begun $EPOCHREALTIME" "$title" >>"$out/steps"
	printf '%-10s %s\n' "$state" "$title"
done
"$PYTHON" "$here/first_run.py" "$out"
for name in "${names[@]}"; do rm -f "$out/$name.result"; done
rm -f "$out/steps"
echo "$out/page.md, $out/results.json"
((devices || failed)) || exit 77
exit "$failed"
