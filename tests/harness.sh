#!/usr/bin/env bash
# Do the programs that run the tests report what went wrong? Prints TAP.
#
#   tests/harness.sh [SIM]      SIM: the simulation, build/sim/sim
# shellcheck disable=SC2317 # check and under_way call functions by their names
set -euo pipefail

cd "$(dirname "$0")/.."
sim=$(realpath "${1:-build/sim/sim}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
n=0 rc=0 out='' code=0

# get COMMAND...: its output in $out, its exit code in $code
get() {
	code=0
	out=$("$@" 2>&1) || code=$?
}

# check NAME COMMAND...: one test; the command that follows says whether it passed
check() {
	local name=$1
	shift
	n=$((n + 1))
	if "$@"; then
		echo "ok $n $name"
	else
		echo "not ok $n $name"
		printf 'exit code %s\n%s\n' "$code" "$out" | sed 's/^/# /'
		rc=1
	fi
}

ended() { ((code == $1)) && [[ $out == *"$2"* ]]; }

# ---- tests/sim/main.c ----

for arguments in '--workers 0' '--jobs abc' '--jobs 0' '--jobs 10x' '--seed -1' '--seed 99999999999999999999' 'abc'; do
	# shellcheck disable=SC2086 # several words
	get "$sim" $arguments
	check "sim $arguments: usage" ended 2 sim:
done

# A file of more than 16 blocks ends the simulator.
limited() {
	ulimit -f 16
	get "$sim" --jobs 130
	echo "$code"
	cat <<<"$out"
}
got=$(limited | cat)
code=${got%%$'\n'*} out=${got#*$'\n'}
crashed=$(grep -c '^the simulator ended' <<<"$out") || true
some_crashed() {
	ended 1 "130 jobs of seeds 1 to 130" && [[ $out == *": $crashed failed"* ]] && ((crashed > 0 && crashed < 130))
}
check 'sim: after a crash the other jobs of the batch run' some_crashed

# under_way SIGNAL HOW: $out and $code of a sim to which a signal comes after its first line
under_way() {
	local fifo=$place/fifo line pid
	rm -f "$fifo"
	mkfifo "$fifo"
	"$sim" --jobs 1000000 --trace >"$fifo" 2>&1 &
	pid=$!
	exec 3<"$fifo"
	read -r -u 3 line
	[[ -n $line ]]
	"$1" "$pid"
	out=$(grep -a '^only\|^FAILED' <&3) || true
	exec 3<&-
	code=0
	wait "$pid" || code=$?
}
terminate() { kill -TERM "$1"; }
# The jobs of the worker end soon, too: their folder is gone.
kill_worker() { kill -KILL "$(pgrep -P "$1")"; }
under_way terminate
check 'sim: a signal ends it with its number' ended 143 'of 1000000 jobs were done'
under_way kill_worker
check 'sim: a worker that is lost is a failure' ended 1 'of 1000000 jobs were done'

# ---- tests/sim/bugs.sh ----

# program FILE LINE...: a script
program() {
	mkdir -p "${1%/*}"
	printf '%s\n' '#!/usr/bin/env bash' "${@:2}" >"$1"
	chmod +x "$1"
}
bug=$place/build/sim/bugs/a-bug/sim
fails=('echo "FAILED seed 7; again"' 'echo wrong' 'echo "first failed: seed 7, job 7"' 'exit 1')
# The right simulation passes the seed that was found alone.
passes=("[[ \$* == '--seed 7 --jobs 1' ]]")
bugs() { get env BUILD="$place/build" tests/sim/bugs.sh a-bug; }
program "$bug" "${fails[@]}"
program "$place/build/sim/sim" "${passes[@]}"
bugs
check 'bugs.sh: a bug is found' ended 0 'ok 1 a-bug is found: seed 7, job 7'
program "$place/build/sim/sim" "${fails[@]}"
bugs
check 'bugs.sh: what fails without the bug, too, is not found' ended 1 'not ok 1 a-bug'
program "$place/build/sim/sim" "${passes[@]}"
program "$bug" "${fails[0]}" 'echo "the simulator ended with status 11"' "${fails[@]:2}"
bugs
check 'bugs.sh: a crash of the simulator is not found' ended 1 'not ok 1 a-bug'
program "$bug" 'exit 0'
bugs
check 'bugs.sh: a bug that is not found' ended 1 'not ok 1 a-bug is not found'

# ---- tests/gpu/inspect.sh ----

# machine_code LINE...: what cuobjdump prints of a fold
machine_code() {
	echo '		Function : _Z9kernel_ofI9fold_workI7sum_f32EEvNT_4argsE'
	printf '        /*0000*/                   %s ;  /* 0x0 */\n' "$@"
}
# compiled ARCHITECTURE SPILLED: what the assembler said of it
compiled() {
	echo "ptxas info    : Compiling entry function '_Z9kernel_ofI9fold_workI7sum_f32EEvNT_4argsE' for '$1'"
	echo "    0 bytes stack frame, $2 bytes spill stores, 0 bytes spill loads"
}
inspect() { get env PATH="$place/cuda-tools:$PATH" tests/gpu/inspect.sh "$place/gpu"; }
loads=('LDG.E.EF.128 R12, desc[UR10][R12.64]' '@!P0 LDG.E.EF.128 R8, desc[UR10][R24.64]')
stores=('STG.E.EF.128 [R16.64], R12' '@!P0 STG.E.EF.128 [R2.64], R8')
inspect
check 'inspect.sh: no plug-in' ended 77 'is not built'
mkdir -p "$place/gpu/cuda"
touch "$place/gpu/collctl-cuda.so"
echo 'nvcc -arch=sm_80' >"$place/gpu/cuda/flags"
compiled sm_80 0 >"$place/gpu/cuda/fold.log"
program "$place/cuda-tools/nvdisasm" 'exit 1'
program "$place/cuda-tools/cuobjdump" "cat $place/machine_code"
machine_code "${loads[@]}" "${stores[@]}" >"$place/machine_code"
inspect
check 'inspect.sh: a good fold' ended 0 'sm_80: 1 folds and fills inspected'
machine_code "${loads[@]}" 'STG.E [R16.64], R12' 'STG.E [R16.64+0x4], R13' "${stores[1]}" >"$place/machine_code"
inspect
check 'inspect.sh: stores of 4 bytes' ended 1 'for sm_80: 1 stores of 16 bytes'
machine_code 'LDG.E [R12.64], R14' "${stores[@]}" >"$place/machine_code"
inspect
check 'inspect.sh: loads of 4 bytes' ended 1 'for sm_80: 0 bytes of loads of 16 bytes under way, not 32'
machine_code "${loads[0]}" 'FADD R0, R14, R1' "${loads[1]}" "${stores[@]}" >"$place/machine_code"
inspect
check 'inspect.sh: a load is waited for before the next' ended 1 'for sm_80: 16 bytes of loads of 16 bytes under way, not 32'
: >"$place/machine_code"
inspect
check 'inspect.sh: no machine code' ended 1 'sm_80: 0 folds and fills inspected'
machine_code "${loads[@]}" "${stores[@]}" >"$place/machine_code"
compiled sm_80 8 >"$place/gpu/cuda/fold.log"
inspect
check 'inspect.sh: spilled registers' ended 1 'for sm_80: 0 bytes of stack, 8 spilled'
compiled sm_90 0 >"$place/gpu/cuda/fold.log"
inspect
check 'inspect.sh: an architecture is missing' ended 1 'no code for sm_80'

# ---- tests/gpu/sanitize.sh ----

# A collctl that sees a device, or none, and a compute-sanitizer that records its tools.
sanitize() { # [VARIABLE=VALUE...]
	rm -f "$place/tools"
	get env "$@" tests/gpu/sanitize.sh "$place/collctl" check plugin.so
}
# shellcheck disable=SC2016 # for the programs
program "$place/collctl" 'echo "GPU plug-in    name, $COLLCTL_PLUGIN_PATH: ${DEVICES-1 device}"'
# shellcheck disable=SC2016
program "$place/sanitizer/compute-sanitizer" "echo \"\$2 \${*: -3}\" >>$place/tools" '[[ $2 != "${BAD-}" ]] || exit 99'
with=PATH="$place/sanitizer:$PATH"
mkdir "$place/only"
ln -s "$(command -v bash)" "$place/only"
sanitize PATH="$place/only"
check 'sanitize.sh: no compute-sanitizer' ended 77 'compute-sanitizer: skipped: it is not on PATH'
sanitize "$with" DEVICES='no driver'
check 'sanitize.sh: no device' ended 77 'compute-sanitizer: skipped: name, '
check 'sanitize.sh: nothing runs then' test ! -e "$place/tools"
sanitize "$with"
check 'sanitize.sh: no tool finds anything' ended 0 initcheck
check 'sanitize.sh: all tools run, with a sample' grep -qx 'memcheck check plugin.so 13' "$place/tools"
sanitize "$with" BAD=memcheck
check 'sanitize.sh: a tool finds something' ended 1 'failed: memcheck (99)'
check 'sanitize.sh: the tools after it run' grep -q '^initcheck' "$place/tools"

# ---- tests/compdb.sh ----

sources() { # of the program; some are compiled again for toys
	tests/compdb.sh all unit sim | jq -r '.[].file' | grep -E '^(algorithms|cmd|completions|lib)/' | sort -u
}
get diff <(git ls-files 'algorithms/*.c' 'cmd/*.c' 'completions/*.c' 'lib/*.c' | sort) <(sources)
check 'compdb.sh: how every source of the program is compiled' ended 0 ''
get tests/compdb.sh no-such-goal
check 'compdb.sh: a goal that make does not have' ended 1 no-such-goal

# ---- tests/run.sh ----

# A tree with this runner, suites of a line each, and a make that records what it is to build.
tree=$place/tree
mkdir -p "$tree/tests"/{cli,fault,launchers,sim}
cp tests/run.sh "$tree/tests"
touch "$tree/tests/fault/none.bats" "$tree/tests/cli/none.bats" "$tree/tests/launchers/none.bats"
program "$place/bin/bats" 'echo 1..1; echo ok 1'
program "$place/bin/make" "echo \"\$*\" >>$place/made"
program "$tree/build/unit/test_good" 'echo 1..1; echo ok 1'
program "$tree/tests/unit/test_good.c"
run() { # [--part PART] REGEX
	rm -f "$place/made"
	get env -u COLLCTL_LONG PATH="$place/bin:$PATH" MAKE="$place/bin/make" "$tree/tests/run.sh" "$@"
}
run --part units '^unit/'
check 'run.sh: a suite passes' ended 0 '3 passed, 0 failed'
check 'run.sh: programs are built, whichever suites are wanted' grep -q 'BUILD=build .*unit' "$place/made"
program "$tree/build/unit/test_good" 'echo nothing'
run --part units '^unit/'
check 'run.sh: a suite without a plan fails' ended 1 'no plan'
program "$tree/tests/unit/test_lost.c"
program "$tree/build/unit/test_good" 'echo 1..1; echo ok 1'
run --part units '^unit/'
check 'run.sh: a unit test that was not built fails' ended 1 'unit/lost'
check 'run.sh: a suite that fails runs once more' test "$(grep -c '^FAILED *unit/lost' <<<"$out")" = 2
program "$tree/build/unit/test_lost" "[[ -e $place/once ]] || { touch $place/once; echo 1..1; echo not ok 1 first; exit 1; }" 'echo 1..1; echo ok 1'
run --part units '^unit/'
check 'run.sh: one that passes then has passed, and is named' ended 0 'unsteady, passed only alone: unit/lost'
check 'run.sh: its first result does not count' test "${out##*$'\n'}" = '4 passed, 0 failed'
program "$tree/build/unit/test_lost" 'echo 1..1; echo not ok 1 never'
for name in a b c; do
	program "$tree/tests/unit/test_$name.c"
done
run --part units '^unit/'
check 'run.sh: many that fail do not run again' test "$(grep -c '^FAILED *unit/' <<<"$out")" = 4
program "$tree/tests/fuzz/fuzz_npy.c"
run --part fuzz-files '^fuzz/'
check 'run.sh: a fuzzer that was not built fails' ended 1 'fuzz/npy'
program "$place/bin/make" 'exit 2'
run --part units '^unit/'
check 'run.sh: a build that fails is reported' ended 1 'build/gcc'

echo "1..$n"
exit "$rc"
