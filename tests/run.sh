#!/usr/bin/env bash
# Build, and run the tests; `make check` after its set-up.
#
#   tests/run.sh [--more | --part PART] [--list] [REGEX]     REGEX: only the suites whose name matches (builds always run)
#
# Without --more, what proves the product (`make check`): a build of gcc; commands, units, faults, simulation, launchers. With --more,
# what the developers check besides (`make check-more`): builds with the sanitizers of addresses and undefined behaviour, and of
# threads, clang, aarch64, the fuzzers, the bugs planted in the simulation and in the plug-in for GPUs, the plug-in of the CUDA toolkit,
# the torch of this machine, the formats of the sources, the programs that run the tests.
# --list prints each suite's name and its command, separated by a tab, and runs nothing.
#
# The parts of the long runs, which have both, each at most 45 minutes on two processors: commands (tests/cli, tests/launchers,
# tests/gpu, and what is static), faults (tests/fault, whole jobs with random faults, and simulated ones), units (also of clang), the same with the
# prefixes asan- and tsan-, where faults are sampled, fuzz-files and fuzz-wire, and bare (tests/bare.sh). PART may also be i/n: the
# i-th of n shares of all parts, of about the same length.
#
# In the long runs the unit tests draw their long samples in the plain gcc build alone, and only the smoke tests of
# plan and price run under sanitizers: all of them would take hours. The short runs have neither there.
#
# COLLCTL_LONG=1 makes the long runs. JOBS is how many suites run at once (four more than the processors,
# as many tests wait). If at most three suites fail, each runs once more, alone, and its second result counts: beside others, on a
# machine that others use, a time limit may end what is right. Prints a line per suite, what a failing one said, the suites that
# passed only alone, the processor time of all, and last `N passed, N failed[, N skipped]`. Exit code 1 if anything failed. A suite is a program that prints TAP
# or one test by its exit code (77: skipped), within a time limit.
set -euo pipefail

# Under nohup SIGHUP is ignored, and what is started here would ignore it, too: tests send it.
ignored=0x$(awk '/^SigIgn/ { print $2 }' /proc/self/status)
((!(ignored & 1))) || exec env --default-signal=HUP "$0" "$@"

cd "$(dirname "$0")/.."
parts=(commands faults units asan-commands asan-faults asan-units tsan-commands tsan-faults tsan-units
	fuzz-files fuzz-wire bare)
weights=(20 40 30 30 30 15 35 35 15 30 20 40) # minutes, about

# share I N: the I-th of N shares of all parts. In their order each goes to the share that is the lightest.
share() {
	local sums=() s k lightest
	for ((s = 0; s < $2; s++)); do sums[s]=0; done
	for k in "${!parts[@]}"; do
		lightest=0
		for s in "${!sums[@]}"; do
			((sums[s] >= sums[lightest])) || lightest=$s
		done
		sums[lightest]=$((sums[lightest] + weights[k]))
		((lightest + 1 != $1)) || echo "${parts[k]}"
	done
}

long=${COLLCTL_LONG:-0}
((long)) || unset COLLCTL_LONG # programs look whether it is there
list=0 product=1 more=$long # what is to be run
chosen=("${parts[@]}")
if [[ ${1-} == --more ]]; then
	product=$long more=1
	shift
elif [[ ${1-} == --part ]]; then
	part=${2-} more=1
	if [[ $part =~ ^([1-9][0-9]?)/([1-9][0-9]?)$ ]] &&
		((BASH_REMATCH[1] <= BASH_REMATCH[2] && BASH_REMATCH[2] <= ${#parts[@]})); then
		mapfile -t chosen < <(share "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
	elif [[ -n $part && " ${parts[*]} " == *" $part "* ]]; then
		chosen=("$part")
	else
		echo "tests/run.sh: no part '$part', but: ${parts[*]}, or i/n, at most ${#parts[@]} shares" >&2
		exit 2
	fi
	shift 2
fi
if [[ ${1-} == --list ]]; then
	list=1
	shift
fi
only=${1-}
jobs=${JOBS:-$(($(nproc) + 4))}
make=${MAKE:-make}
unset MAKE MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES GNUMAKEFLAGS CDPATH

work=$(mktemp -d "${TMPDIR:-/tmp}/collctl-check.XXXXXX")
mkdir "$work/tmp" "$work/log"
export TMPDIR=$work/tmp COLLTEST_RUN=$work # the mark of every process of this run

finish() {
	local left
	mapfile -t left < <(marked)
	((${#left[@]} == 0)) || kill -KILL "${left[@]}" 2>/dev/null || true
	rm -rf "$work"
	rmdir "/tmp/collctl-test-ports.$UID" 2>/dev/null || true
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The processes that this run has started, one a line (this shell took the mark after it began).
marked() {
	local alive=(/proc/[0-9]*/environ) # before grep, which has the mark itself
	grep -lzxF "COLLTEST_RUN=$work" "${alive[@]}" 2>/dev/null | tr -cd '0-9\n' || true
}

# ---- suites ----

# suite NAME LIMIT tap|one COMMAND...: run it to its end, print and record its result; 1: it failed
suite() {
	local name=$1 limit=$2 format=$3 rc=0 start=$EPOCHREALTIME cpu TIMEFORMAT='%U %S'
	local log=$work/log/${name//\//_} passed=0 failed=0 skipped=0 planned=0 plans=0 note=''
	shift 3
	if ((list)); then
		printf '%s\t%s\n' "$name" "$*"
		return
	fi
	cpu=$({ time timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null; } 2>&1) || rc=$?
	if [[ $format == tap ]]; then
		read -r passed failed skipped planned plans < <(awk '
			/^1\.\.[0-9]+/ { planned += substr($1, 4); plans++ }
			/^ok / { if (/ # skip/) skipped++; else passed++ }
			/^not ok / { if (/^not ok [0-9]+ # SKIP/) skipped++; else failed++ }
			END { print passed + 0, failed + 0, skipped + 0, planned + 0, plans + 0 }' "$log")
		# What was announced and never reported has failed; so has a program that says so.
		if ((passed + failed + skipped < planned)); then
			note="$((planned - passed - failed - skipped)) did not report"
			failed=$((planned - passed - skipped))
		elif ((rc && failed == 0)); then
			failed=1
		fi
		if ((plans == 0)); then
			note="no plan${note:+, $note}"
			failed=$((failed > 0 ? failed : 1))
		fi
	elif ((rc == 77)); then
		skipped=1 note=$(tail -n 1 "$log")
	elif ((rc)); then
		failed=1
	else
		passed=1
	fi
	((rc != 124 && rc != 137)) || note="over its $limit s${note:+, $note}"
	((rc == 0 || failed == 0)) || note="${note:+$note, }exit code $rc"
	echo "$passed $failed $skipped $cpu $name" >>"$work/results"
	((failed == 0)) || printf '%s %s\n' "$name" "$(printf '%q ' "$limit" "$format" "$@")" >>"$work/failed"
	local text
	text=$(awk -v n="$name" -v p="$passed" -v f="$failed" -v s="$skipped" -v t0="$start" \
		-v t1="$EPOCHREALTIME" -v cpu="$cpu" -v note="$note" 'BEGIN {
			split(cpu, used)
			printf "%-6s %-34s %4d passed", f ? "FAILED" : "ok", n, p
			if (f) printf ", %d failed", f
			if (s) printf ", %d skipped", s
			printf "  %.1f s, CPU %.1f s%s", t1 - t0, used[1] + used[2], note ? "  (" note ")" : "" }')
	if ((failed)); then
		if [[ $format == tap ]]; then # the failing tests with what they said
			text+=$'\n'$(awk '/^ok |^1\.\./ { show = 0; next } /^not ok/ { show = 1 } show || !/^#/ { print }' "$log" |
				head -n 150 | sed 's/^/    /')
		else
			text+=$'\n'$(tail -n 60 "$log" | sed 's/^/    /')
		fi
	fi
	if ((skipped)) && [[ $format == tap ]]; then # each with its reason
		text+=$'\n'$(sed -nE 's/^(not )?ok [0-9]+ (.*)# (skip|SKIP) ?(.*)/    skipped: \2(\4)/p' "$log")
	fi
	printf '%s\n' "$text"
	((failed == 0))
}

# runs PART...: is one of these parts to be run?
runs() {
	local p
	for p; do
		[[ " ${chosen[*]} " != *" $p "* ]] || return 0
	done
	return 1
}

wanted() { [[ -z $only || $1 =~ $only ]]; }

# now NAME ...: a suite alone, before what follows
now() {
	wanted "$1" || return 0
	suite "$@"
}

# Run the suites that failed once more, one after the other, unless these are many. What passes alone is named in unsteady.
unsteady=''
again() {
	local name command
	[[ -f $work/failed ]] && (($(wc -l <"$work/failed") <= 3)) || return 0
	mv "$work/failed" "$work/first"
	while read -r name command; do
		[[ $name != build/* ]] || continue
		echo "once more, alone: $name"
		sed -i "\\, $name\$,d" "$work/results"
		! eval "suite $name $command" || unsteady+="${unsteady:+, }$name"
	done <"$work/first"
}

# later NAME ...: a suite beside the others, as soon as there is room
running=0
later() {
	wanted "$1" || return 0
	while ((running >= jobs)); do
		wait -n || true
		running=$((running - 1))
	done
	suite "$@" &
	running=$((running + 1))
}

# ---- one-test commands ----

check_format() {
	git ls-files -z '*.c' '*.h' '*.cu' '*.cuh' '*.cc' | xargs -0r clang-format --dry-run -Werror
}

check_shell() {
	# bats runs each test in a subshell and sets `stderr` and the like.
	git ls-files -z '*.bats' | xargs -0r shellcheck -e SC2030,SC2031,SC2154 &&
		git ls-files -z '*.sh' '*.bash' .ci/run | xargs -0r shellcheck -x
}

# Names that are undefined, and functions of one name in one file. An import may be all that a test asks for.
check_python() {
	local said
	said=$(git ls-files -z '*.py' | xargs -0r pyflakes3 2>&1 | grep -vE 'imported but unused|star imports') || return 0
	echo "$said"
	return 1
}

check_man() {
	local pages=() page
	for page in man/*.[1-8] build/*.[1-8] build/man/*.[1-8]; do
		[[ ! -f $page ]] || pages+=("$page")
	done
	if ((${#pages[@]} == 0)); then
		echo 'no manual page is built'
		return 77
	fi
	mandoc -Tlint -Wwarning "${pages[@]}"
}

# The document of the wire describes the version that the program speaks.
check_protocol() {
	local code text
	code=$(sed -nE 's/^#define PROTO_VERSION +([0-9]+)$/\1/p' lib/job/proto.h)
	text=$(sed -nE 's/^Version ([0-9]+)\..*/\1/p' lib/net/PROTOCOL.md)
	[[ -n $code && $code == "$text" ]] || {
		echo "lib/net/PROTOCOL.md describes version '$text', lib/job/proto.h defines '$code'"
		return 1
	}
}

# Does this tree build by the public goals: install into a folder, with nothing left outside?
check_install() {
	$make -s BUILD=build WERROR=1 install DESTDIR="$TMPDIR/root" PREFIX=/usr
	"$TMPDIR/root/usr/bin/collctl" --version
}

# The plug-in's code over devices of host memory: one, and two with and without access to each other.
check_standin() {
	local peers
	build/gpu/standin build/collctl-standin.so || return
	for peers in 0 1; do
		COLLCTL_STANDIN_DEVICES=2 COLLCTL_STANDIN_PEERS=$peers \
			build/gpu/check build/collctl-standin.so $((${COLLCTL_LONG:-0} ? 1 : 13)) || return
	done
}

# Does the stand-in's runtime declare what CUDA's own header does?
check_runtime() {
	local header nccl flags=(-std=c++20 -I.)
	header=$(dirname "$(realpath "$(command -v nvcc || echo .)")")/../include
	if [[ ! -f $header/cuda_runtime_api.h ]]; then
		echo "no CUDA toolkit: the stand-in's runtime was not compared with CUDA's header, nor cuda/nccl_api.h with NCCL's"
		return 77
	fi
	g++ "${flags[@]}" -fsyntax-only -isystem "$header" cuda/standin/runtime.cc || return 1
	nccl=$header/nccl.h
	[[ -f $nccl ]] || nccl=/usr/include/nccl.h
	if [[ ! -f $nccl ]]; then
		echo "no header of NCCL: cuda/nccl_api.h was not compared with it"
		return 0
	fi
	g++ "${flags[@]}" -fsyntax-only -isystem "$header" -DNCCL_HEADER="\"$nccl\"" cuda/standin/nccl.cc || return 1
	g++ "${flags[@]}" -isystem "$header" -DNCCL_HEADER="\"$nccl\"" -o build/gpu/nccl_theirs tests/gpu/nccl_api.cc || return 1
	g++ "${flags[@]}" -isystem "$header" -o build/gpu/nccl_ours tests/gpu/nccl_api.cc || return 1
	diff <(build/gpu/nccl_theirs) <(build/gpu/nccl_ours)
}

# The code of the GPU's kernels on the CPU.
check_elements() {
	if [[ ! -x build/gpu/check_elements ]]; then
		echo 'no CUDA toolkit: the code of the GPU kernels was not run on the CPU'
		return 77
	fi
	build/gpu/check_elements
}

export -f check_elements check_standin check_runtime check_format check_shell check_python check_man check_protocol check_install
export make

# ---- builds ----

# Sanitizers want the address space as they know it; some kernels randomise more than they bear.
fixed=()
if setarch -R true 2>/dev/null; then
	fixed=(setarch -R)
fi

build() { # NAME DIR GOALS VARIABLES...
	local name=$1 dir=$2 goals=$3
	shift 3
	# shellcheck disable=SC2086 # the goals are words
	suite "build/$name" 1800 one "${fixed[@]}" "$make" -s -j"$jobs" BUILD="$dir" WERROR=1 "$@" $goals
}

export ASAN_OPTIONS=exitcode=99:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:exitcode=99
export TSAN_OPTIONS=exitcode=99:halt_on_error=1:second_deadlock_stack=1

((list)) || echo "collctl: $(git describe --always --dirty 2>/dev/null || echo 'no version'), $(uname -m), $jobs at once$( ((long == 0)) || echo ', long runs')"

# What knows no threads, files or sockets says the same in every build, and has no races.
pure='sched|verify|figures|defects|mutants|radix|rooted|tuned|simulate|npy|options|hostfile|launch|secret'

# Time limits only end what hangs: on a machine that others use, too, everything takes many times as long.
# The names of all unit tests. What takes longest begins first, so that nothing long runs alone at the end.
longest=(verify exec exec_parts store_server store coord mutants simulate figures radix)
unit_names() {
	local name
	for name in "${longest[@]}"; do
		[[ ! -f tests/unit/test_$name.c ]] || echo "$name"
	done
	for name in tests/unit/test_*.c; do
		name=${name##*/test_} name=${name%.c}
		[[ " ${longest[*]} " == *" $name "* ]] || echo "$name"
	done
}

units() { # PREFIX DIR SKIP-REGEX: every unit test of a build
	local program name short
	for name in $(unit_names); do # one that was not built fails
		program=$2/unit/test_$name
		[[ -n $3 && $name =~ ^($3)$ ]] && continue
		short=()
		[[ $1 == unit ]] || short=(-u COLLCTL_LONG)
		later "$1/$name" $((long ? 2400 : 600)) tap env "${short[@]}" CMOCKA_MESSAGE_OUTPUT=TAP \
			"${fixed[@]}" "$program"
	done
}

tests() { # FOLDER PREFIX DIR [BATS OPTIONS...]: every test in tests/FOLDER against a build
	local folder=$1 prefix=$2 dir=$3 limit=$((long ? 2400 : 1800)) file name env options
	shift 3
	for file in tests/"$folder"/*.bats; do
		name=${file#tests/} env=() options=("$@")
		[[ $name != cli/torch_real.bats || $more == 1 ]] || continue # torch alone takes seconds to start
		# plan computes for minutes under sanitizers what the unit tests compute there, too.
		if [[ -n $prefix && $name =~ /(plan|price)\.bats$ ]]; then
			((long)) || continue
			options=("${sample[@]}")
		fi
		# Under sanitizers faults are sampled in the long runs, too.
		[[ $folder != fault || -z $prefix ]] || env=(-u COLLCTL_LONG)
		env+=(COLLCTL="$PWD/$dir/collctl" BATS_TEST_TIMEOUT=$((long ? 1200 : 600)))
		later "$prefix${name%.bats}" "$limit" tap \
			env "${env[@]}" "${fixed[@]}" bats --tap "${options[@]}" "$file"
	done
}

# device_jobs PREFIX DIR [BATS OPTIONS...]: whole jobs over the stand-in, with one device and with three, which do what CUDA permits
device_jobs() {
	local prefix=$1 dir=$PWD/$2 n late
	shift 2
	for n in 1 3; do
		late=$((n == 3 ? 100 : 0)),$n
		later "${prefix}gpu/jobs-$n" $((long ? 2400 : 1800)) tap env COLLCTL="$dir/collctl" BATS_TEST_TIMEOUT=$((long ? 1200 : 600)) \
			COLLTEST_PLUGIN="$dir/collctl-standin.so" COLLCTL_NCCL_PATH="$dir/collctl-standin-nccl.so" \
			COLLCTL_STANDIN_DEVICES=$n COLLCTL_STANDIN_PEERS=1 COLLCTL_STANDIN_DELAY=$late "${fixed[@]}" bats --tap "$@" tests/gpu/jobs.bats
	done
}

# The smoke tests are the sample that sanitizers see; in the long runs they see everything.
sample=(--filter-tags smoke)
sanitized=("${sample[@]}")
((long == 0)) || sanitized=()

# jobs_with_faults PREFIX DIR N: N whole jobs with random faults (tests/fault/jobs.py)
jobs_with_faults() {
	later "$1fault/jobs" $((900 + 2 * $3)) one env COLLCTL="$PWD/$2/collctl" "${fixed[@]}" \
		tests/fault/jobs.sh --seed 1 --jobs "$3"
}

# all_of PREFIX DIR JOBS SKIPPED-UNITS [BATS OPTIONS...]: the parts of a build
all_of() {
	local p=${1%/} prefix=$1 dir=$2 n=$3 skipped=$4
	shift 4
	p=${p:+$p-}
	if runs "${p}faults"; then # the longest first
		((n == 0)) || jobs_with_faults "$prefix" "$dir" "$n"
		tests fault "$prefix" "$dir" "$@"
	fi
	if runs "${p}commands"; then
		tests cli "$prefix" "$dir" "$@"
		tests launchers "$prefix" "$dir" "$@"
		device_jobs "$prefix" "$dir" "$@"
	fi
	! runs "${p}units" || units "${prefix}unit" "$dir" "$skipped"
}

# The CUDA toolkit is for `make check-more`.
((more)) || export NVCC=
goals='all unit sim gpu-tests'
((!more)) || goals+=' sim-bugs standin-bugs'

if runs commands faults units && build gcc build "$goals"; then
	if runs commands && ((more)); then
		later static/format 600 one bash -c check_format
		later static/shell 600 one bash -c check_shell
		later static/python 600 one bash -c check_python
		later static/man 600 one bash -c check_man
		later static/harness 600 tap tests/harness.sh
		later gpu/kernels 600 one tests/gpu/inspect.sh build
		later gpu/runtime 600 one bash -c check_runtime
		later gpu/elements 600 one bash -c check_elements
		later gpu/check 1200 one build/gpu/check build/collctl-cuda.so
		later gpu/first-run 1800 tap env COLLCTL="$PWD/build/collctl" BATS_TEST_TIMEOUT=1200 bats --tap tests/gpu/first_run.bats
		((product)) || later cli/torch_real 1800 tap env COLLCTL="$PWD/build/collctl" BATS_TEST_TIMEOUT=600 \
			"${fixed[@]}" bats --tap tests/cli/torch_real.bats
		later arm64 1800 tap env COLLCTL="$PWD/build/collctl" tests/arm64.sh
	fi
	if runs commands && ((product)); then
		later static/protocol 600 one bash -c check_protocol
		later static/layers 600 one tests/layers.sh
		later static/rows 600 one tests/rows.sh
		later static/faults 600 one tests/fault/table.sh
		later gpu/standin 1200 one bash -c check_standin
		later static/install 600 one bash -c check_install
	fi
	if runs faults && ((product)); then # whole jobs in one thread
		later sim/jobs $((long ? 2400 : 1200)) one build/sim/sim --workers "$(nproc)" --jobs $((long ? 50000 : 2000))
		later sim/same 1200 one build/sim/sim --twice --seed 500000 --jobs 200
	fi
	if runs faults && ((more)); then # the bugs that are planted there must be found
		later sim/bugs 1200 tap tests/sim/bugs.sh --jobs $((long ? 20000 : 10000))
		later gpu/bugs 1800 tap tests/gpu/bugs.sh --seeds $((long ? 100 : 20))
	fi
	((!product)) || all_of '' build $((long ? 600 : 60)) ''
fi

# clang's warnings; its programs run in the long runs alone.
if ((more)) && runs units && build clang build-clang 'all unit' CC=clang NVCC= CFLAGS="-O$((long ? 1 : 0)) -g1"; then
	((long == 0)) || units clang/unit build-clang ''
fi
if ((more)) && runs asan-commands asan-faults asan-units && build asan build-asan 'all unit' SANITIZE=address,undefined CFLAGS='-O1 -g1'; then
	all_of asan/ build-asan $((long ? 120 : 0)) "$( ((long)) || echo 'verify|simulate|figures|mutants|radix')" "${sanitized[@]}"
fi
if ((more)) && runs tsan-commands tsan-faults tsan-units && build tsan build-tsan 'all unit' SANITIZE=thread CFLAGS='-O1 -g1'; then
	all_of tsan/ build-tsan $((long ? 60 : 0)) "$pure" "${sanitized[@]}"
fi
wait
running=0

# Fuzzers, by what they read.
files='npy|npz|safetensors|index|hostfile|pickle|torch|dcp'
if ((more)) && runs fuzz-files fuzz-wire && build fuzz build-fuzz fuzz CC=clang; then
	jobs=$((long ? 2 * $(nproc) : $(nproc))) # they compute all the time
	seconds=$((long ? 600 : 4))
	for source in tests/fuzz/fuzz_*.c; do
		name=${source##*/fuzz_} name=${name%.c}
		fuzzer=build-fuzz/fuzz/fuzz_$name
		if [[ $name =~ ^($files)$ ]]; then runs fuzz-files; else runs fuzz-wire; fi || continue
		mkdir -p "$work/corpus/$name"
		seeds=()
		[[ ! -d tests/fuzz/corpus/$name ]] || seeds=("tests/fuzz/corpus/$name")
		dict=()
		[[ ! $name =~ ^(agree|coord|frame|job)$ ]] || dict=(-dict=build-fuzz/fuzz/messages.dict)
		later "fuzz/$name" $((seconds + 600)) one "${fixed[@]}" "$fuzzer" \
			-error_exitcode=99 -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 "${dict[@]}" \
			-artifact_prefix="$work/" "$work/corpus/$name" "${seeds[@]}"
	done
fi
wait

# Both commands of the README in an empty root. Only long runs have it: it is a short run itself.
if ((long)) && runs bare; then
	suite bare 5400 tap tests/bare.sh || true
fi

((list)) || again

# Nothing may run on when the tests have ended.
remaining=$(marked)
# A process that is ending as this looks is none that runs on.
[[ -z $remaining ]] || remaining=$(ps -o pid=,stat=,args= -p "${remaining//$'\n'/,}" | awk '$2 !~ /^Z/')
export remaining
# shellcheck disable=SC2016 # for the inner shell
now cleanup 600 one bash -c '[[ -z $remaining ]] || { printf "left running:\n%s\n" "$remaining"; exit 1; }' || true

((list == 0)) || exit 0
[[ -z $unsteady ]] || echo "unsteady, passed only alone: $unsteady"
# The processor time by the first word of the suites' names, and the sums.
awk '{ p += $1; f += $2; s += $3; all += $4 + $5; split($6, words, "/"); name = words[1] }
	!(name in used) { names[++n] = name }
	{ used[name] += $4 + $5 }
	END {
		printf "CPU %.0f s", all
		for (i = 1; i <= n; i++) printf "%s %s %.0f", i == 1 ? ":" : ",", names[i], used[names[i]]
		printf "\n%d passed, %d failed", p, f; if (s) printf ", %d skipped", s; print ""
		exit f > 0 || p == 0
	}' "$work/results"
