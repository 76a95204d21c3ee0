#!/usr/bin/env bash
# Is each planted bug (bugs/*.patch) found, and after how many jobs? `make sim-bugs` builds them.
#
#   tests/sim/bugs.sh [--seed N] [--jobs N] [NAME...]
#
# Prints TAP. JOBS is at most how many jobs a bug may stay unseen. A job that fails finds the bug if it passes
# without the bug; a crash of the simulator finds none.
set -euo pipefail

cd "$(dirname "$0")/../.."
source tests/bugs.bash
build=${BUILD:-build} seed=1 count=3000
bug_arguments tests/sim jobs "$@"

echo "1..${#names[@]}"
n=0 rc=0
for name in "${names[@]}"; do
	n=$((n + 1))
	out=$("$build/sim/bugs/$name/sim" --seed "$seed" --jobs "$count" --until-failure 2>&1) && code=0 || code=$?
	first=$(sed -n 's/^first failed: //p' <<<"$out")
	why="is not found in $count jobs"
	if ((code == 0)); then
		:
	elif ((code != 1)) || [[ -z $first || $out == *"the simulator ended"* ]]; then
		why="is not judged: the simulation failed with exit code $code"
	else
		found=${first#seed } found=${found%%,*}
		why=''
		if ! right=$("$build/sim/sim" --seed "$found" --jobs 1 2>&1); then
			why="is not found: without it seed $found fails, too"
			out=$right
		fi
	fi
	if [[ -z $why ]]; then
		echo "ok $n $name is found: $first"
		sed -n '/^FAILED/,$ { /^FAILED/! { /^ /q; s/^/# /p } }' <<<"$out"
	else
		echo "not ok $n $name $why"
		tail -n 5 <<<"$out" | sed 's/^/# /'
		rc=1
	fi
done
exit "$rc"
