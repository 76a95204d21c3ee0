#!/usr/bin/env bash
# Is each bug that bugs/*.patch plants in the plug-in found over the stand-in, and by which seed? `make standin-bugs` builds them.
#
#   tests/gpu/bugs.sh [--seed N] [--seeds N] [NAME...]
#
# Prints TAP. With each of SEEDS seeds the jobs below run over the stand-in, whose devices draw from it what they do in which order.
# First they run without a bug: all must be right. A job that goes wrong, also by a crash or without an end, finds the bug. What two
# operations do that nothing orders is found with the first seed (cuda/standin/conflicts.h). The others may stay unseen with four times
# as many seeds, because what the threads of the devices do depends on the machine, too.
set -euo pipefail

cd "$(dirname "$0")/../.."
source tests/bugs.bash
build=$(realpath "${BUILD:-build}") devices=$PWD/tests/gpu/devices.sh seed=1 count=10
bug_arguments tests/gpu seeds "$@"
while read -r name; do unset "$name"; done < <(compgen -e COLLCTL_ || true)
export LC_ALL=C
ulimit -c 0

folder=$(mktemp -d "${TMPDIR:-/tmp}/collctl-bugs.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
random() { head -c "$2" /dev/zero | openssl enc -aes-256-ctr -pass "pass:$1" -nosalt -pbkdf2; }
for i in 0 1 2 3; do random "$i" 1500000 >"in.$i.raw"; done
common=(--no-sync --insecure -q --format raw --dtype i32 --timeout 30s)
"$build/collctl" allreduce -n 1 "${common[@]}" in.0.raw in.1.raw in.2.raw -o want.one
"$build/collctl" allreduce -n 1 "${common[@]}" --op bxor in.0.raw in.1.raw in.2.raw -o want.bxor
for i in 0 1 2; do head -c 40000 "in.$i.raw" >"few.$i.raw"; done
"$build/collctl" allreduce -n 1 "${common[@]}" --op bxor few.0.raw few.1.raw few.2.raw -o want.few
many=() # more inputs than a kernel's arguments name
for ((i = 0; i < 21; i++)); do many+=("few.$((i % 3)).raw"); done
"$build/collctl" allreduce -n 1 "${common[@]}" "${many[@]}" -o want.many
"$build/collctl" run -n 2 -- allreduce "${common[@]}" 'in.{rank}.raw' in.2.raw in.3.raw -o 'want.{rank}'

# collective VARIABLE=VALUE... -- WORDS...: a job over the stand-in. Its exit code is in $code.
collective() {
	local env=()
	while [[ $1 != -- ]]; do
		env+=("$1")
		shift
	done
	shift
	rm -f out.*
	code=0
	# A job that outlasts its --timeout has gone wrong, too.
	{ timeout -k 1 60 env COLLCTL_PLUGIN_PATH="$plugin" COLLCTL_STANDIN_DEVICES=3 COLLCTL_NCCL_PATH="${right%.so}-nccl.so" \
		"${env[@]}" "$build/collctl" "$@" >said 2>&1 || code=$?; } 2>/dev/null
}

# is_right CODE FILE WANT: did the job end with CODE, and is the output that one? Sets $why.
is_right() {
	why=''
	if ((code != $1)); then
		why="exit code $code: $(tail -n 1 said)"
	elif (($1 == 0)) && ! cmp -s "$2" "$3"; then
		why='wrong bits'
	elif (($1)) && [[ -e $2 ]]; then
		why='an output of a job that failed'
	fi
	[[ -z $why ]]
}

# jobs PLUGIN SEED: 1: a job has gone wrong: $why
jobs() {
	plugin=$1
	local list=cuda:0,1,2 late=COLLCTL_STANDIN_DELAY=400,$2
	local one=(allreduce -n 1 --device "$list" "${common[@]}")
	if (($2 == seed)); then # copies take four seconds with any seed
		collective "$late" COLLCTL_STANDIN_RATE=10000 -- "${one[@]}" --timeout 1s few.{0,1,2}.raw -o out.few
		is_right 9 out.few want.few || return
	fi
	# NCCL has one input on each device, but no such operation: pieces of host memory bring them to the first.
	local staged=("${one[@]}" --device-path nccl --op bxor)
	collective "$late" -- "${staged[@]}" --memory 2M in.0.raw in.1.raw in.2.raw -o out.bxor
	is_right 0 out.bxor want.bxor || return
	collective "$late" COLLCTL_STANDIN_PEERS=1 CUDA_DEVICE_MAX_CONNECTIONS=$((1 + $2 % 3)) -- \
		run -n 2 -- allreduce --device "$list" --memory 2M "${common[@]}" 'in.{rank}.raw' in.2.raw in.3.raw -o 'out.{rank}'
	is_right 0 out.0 want.0 && is_right 0 out.1 want.1 || return
	collective "$late" COLLCTL_STANDIN_PEERS=$(($2 % 2)) -- "${one[@]}" --device-path nccl in.0.raw in.1.raw in.2.raw -o out.one
	is_right 0 out.one want.one || return
	collective "$late" COLLCTL_STANDIN_PEERS=$(($2 % 2)) -- "${one[@]}" --memory 1M "${many[@]}" -o out.many
	is_right 0 out.many want.many || return
	# A copy or kernel fails, after the seven of NCCL's start, and after the 48 that try the access between devices. Some jobs have
	# fewer of them.
	collective "$late" COLLCTL_STANDIN_FAIL=$((8 + $2 % 9)) -- "${staged[@]}" few.{0,1,2}.raw -o out.few
	is_right $((code ? 11 : 0)) out.few want.few || return
	collective "$late" COLLCTL_STANDIN_PEERS=1 COLLCTL_STANDIN_FAIL=$((49 + $2 % 5)) -- "${one[@]}" --op bxor few.{0,1,2}.raw -o out.few
	is_right $((code ? 11 : 0)) out.few want.few || return
}

right=$build/collctl-standin.so
rc=0
echo "1..$((1 + ${#names[@]}))"
for ((s = seed; s < seed + count; s++)); do
	jobs "$right" "$s" || {
		echo "not ok 1 without a bug: seed $s: $why"
		sed 's/^/# /' said
		exit 1
	}
done
echo "ok 1 without a bug $count seeds are right"
n=1
for name in "${names[@]}"; do
	n=$((n + 1)) most=1
	[[ $name != trust-a-dead-device ]] || most=$((4 * count))
	plugin=$build/standin/bugs/$name/collctl-standin.so
	if ! found=$("$devices" "$build/collctl" "$plugin"); then
		echo "not ok $n $name is not judged: $found (make standin-bugs)"
		rc=1
		continue
	fi
	for ((s = seed; s < seed + most; s++)); do
		jobs "$plugin" "$s" || break
	done
	if ((s < seed + most)); then
		echo "ok $n $name is found: seed $s: $why"
	else
		echo "not ok $n $name is not found with seeds $seed to $((s - 1))"
		rc=1
	fi
done
exit "$rc"
