# Shared by the tests of the command. A test file begins with `load helpers` (or `load ../cli/helpers`).
#
# Each test runs in a separate folder, $BATS_TEST_TMPDIR, without any launcher's or collctl's
# variables; every process that it starts carries the test's mark in its environment and is ended by
# teardown. A file with its own setup, teardown or teardown_file calls common_setup, common_teardown or common_teardown_file.
# shellcheck shell=bash

bats_require_minimum_version 1.5.0
# Bash takes 30 ms to read these libraries, and each test reads them: the first of a run leaves their functions.
if [[ -n ${BATS_RUN_TMPDIR-} && -s $BATS_RUN_TMPDIR/libraries ]]; then
	# shellcheck source=/dev/null
	source "$BATS_RUN_TMPDIR/libraries"
else
	load_libraries() {
		local before after
		before=$(compgen -A function)
		bats_load_library bats-support
		bats_load_library bats-assert
		bats_load_library bats-file
		mapfile -t after < <(compgen -A function | grep -vxF "$before")
		declare -f "${after[@]}" >"$BATS_RUN_TMPDIR/libraries.$$"
		mv "$BATS_RUN_TMPDIR/libraries.$$" "$BATS_RUN_TMPDIR/libraries"
	}
	load_libraries
fi

# Bats calls this before each command, to say where a test failed: up to a third of a file's processor time. This does what
# its own does on Linux, but names the line of the test where a helper fails, and not that of the helper.
if declare -F bats_debug_trap bats_capture_stack_trace bats_emit_trace >/dev/null; then
	# shellcheck disable=SC2034 # for bats
	bats_debug_trap() { # PATH
		[[ $1 != "$BATS_ROOT"/lib* && $1 != */helpers.bash && -z ${BATS_INTERRUPTED+x}${BATS_TIMED_OUT+x} ]] || return 0
		BATS_DEBUG_LASTLAST_STACK_TRACE=("${BATS_DEBUG_LAST_STACK_TRACE[@]}")
		BATS_DEBUG_LAST_LINENO=("${BASH_LINENO[@]}")
		BATS_DEBUG_LAST_SOURCE=("${BASH_SOURCE[@]}")
		bats_capture_stack_trace
		((BATS_TRACE_LEVEL == 0)) || bats_emit_trace
	}
fi

HELPERS_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HELPERS_DIR/../.." && pwd)
COLLCTL=$(realpath -m "${COLLCTL:-$ROOT/build/collctl}")
if [[ -z ${PYTHON-} ]]; then
	PYTHON=/usr/bin/python3
	[[ -x $PYTHON ]] || PYTHON=python3
fi
# shellcheck disable=SC2034 # for the test files
LONG=${COLLCTL_LONG:-0} # 1: the long runs
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-600}

common_setup() {
	local v
	for v in "${!COLLCTL_@}" "${!OMPI_@}" "${!PMI@}" "${!PALS_@}" "${!JSM_@}" "${!FLUX_@}" "${!SLURM_@}" "${!MPI_LOCAL@}" \
		"${!TORCHELASTIC_@}"; do
		unset "$v"
	done
	unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT JOB_COMPLETION_INDEX PBS_NODEFILE PBS_JOBID LSB_JOBID
	unset http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY
	export LC_ALL=C TERM=xterm no_proxy='*' XDG_CACHE_HOME=$BATS_TEST_TMPDIR.cache
	# A hang becomes a failure that tells what it waited for, long before the test's time limit.
	export COLLCTL_JOIN_TIMEOUT=120s COLLCTL_TIMEOUT=100s
	export COLLTEST_MARK=$$.$RANDOM.$RANDOM
	cd "$BATS_TEST_TMPDIR" || return
	PIDS=() RC=() STARTED=() LOCKS=() TAGS=() MOUNTS=() STORE='' SECRET='' OTHER='' SERVES=0 ORACLE_CALLS=0
}

common_teardown() {
	end_marked
	((${#MOUNTS[@]} == 0)) || umount "${MOUNTS[@]}"
	((${#LOCKS[@]} == 0)) || rm -f "${LOCKS[@]}"
	[[ -z $OTHER ]] || rm -rf "$OTHER"
}

common_teardown_file() {
	[[ ! -s $BATS_FILE_TMPDIR/python/pid ]] || kill "$(<"$BATS_FILE_TMPDIR/python/pid")" 2>/dev/null || true
	check_fields
}

# What `--json` has printed into files of this file's tests: fields that the JSON Schema does not have are a failure.
check_fields() {
	local found
	mapfile -t found < <(grep -rIls -m1 '^{"command":"' "$BATS_RUN_TMPDIR/test")
	((${#found[@]})) || return 0
	"$COLLCTL" help --json-schema | jq -r -f "$HELPERS_DIR/fields.jq" >"$BATS_FILE_TMPDIR/fields"
	jq -nrR --rawfile known "$BATS_FILE_TMPDIR/fields" -f "$HELPERS_DIR/unknown.jq" "${found[@]}" >"$BATS_FILE_TMPDIR/unknown"
	[[ ! -s $BATS_FILE_TMPDIR/unknown ]] || {
		echo "printed, but not in cmd/json/fields.c: $(<"$BATS_FILE_TMPDIR/unknown")"
		return 1
	}
}

setup() { common_setup; }
teardown() { common_teardown; }
teardown_file() { common_teardown_file; }

collctl() { "$COLLCTL" "$@"; }

# Kill the remaining processes of the test, then every process that has its mark.
end_marked() {
	local env pid found pass alive
	for pid in $(jobs -p); do
		[[ " ${STARTED[*]} " == *" $pid "* ]] || continue # not ours: bats has jobs too
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	for pass in 1 2 3; do # a process may have been forking
		found=0
		alive=(/proc/[0-9]*/environ) # before grep, which has the mark itself
		while read -r env; do
			kill -KILL "${env//[^0-9]/}" 2>/dev/null && found=$pass
		done < <(grep -lzxF "COLLTEST_MARK=$COLLTEST_MARK" "${alive[@]}" 2>/dev/null)
		((found)) || break
	done
}

# all_say REGEX: $stderr has the same message of all ranks of `run`, printed once; on a busy machine `run` waits for them
# shellcheck disable=SC2154 # set by bats
all_say() {
	[[ $(grep -v 'collctl: waiting for rank' <<<"$stderr" | grep -c 'collctl: ') == 1 && $stderr =~ $1 ]] || fail "$stderr"
}

# another_user: skip unless root. A folder of nobody's, $OTHER, with the program under test, $OTHER/collctl (the tree and
# the test's folder may be closed to others); the words before a command that nobody runs: "${AS_OTHER[@]}".
another_user() {
	((EUID == 0)) || skip 'only root can run a program as another user'
	OTHER=$(mktemp -d /tmp/collctl-other.XXXXXX)
	install -m 755 "$COLLCTL" "$OTHER/collctl"
	chown nobody "$OTHER"
	AS_OTHER=(env TMPDIR="$OTHER" setpriv --reuid=nobody --regid=nogroup --clear-groups)
	"${AS_OTHER[@]}" "$OTHER/collctl" --version || skip "nobody can't run a program in /tmp here"
}

# image KIND FOLDER: mount an empty file system (xfs, btrfs) of 512 MiB at the new FOLDER; skip where that can't be done
image() {
	((EUID == 0)) || skip 'only root can mount an image'
	[[ -x $(command -v "mkfs.$1") ]] || skip "no mkfs.$1 here"
	mkdir "$2"
	truncate -s 512M "$2.img"
	"mkfs.$1" -q "$2.img" >/dev/null
	mount -o loop "$2.img" "$2" 2>/dev/null || skip "no $1 in a loop device to be had here"
	MOUNTS+=("$PWD/$2")
}

# no_sanitizers WHY: skip the test where the binary under test has address or thread sanitizers
no_sanitizers() {
	! grep -qE '__(asan|tsan)_init' "$COLLCTL" || skip "sanitizers $1"
}

# blocks FILE NAME...: the blocks of $ROOT/FILE whose fences are ```LANGUAGE NAME
blocks() {
	local name
	for name in "${@:2}"; do
		awk -v name="$name" '/^```$/ { show = 0 } show; /^```/ && $2 == name { show = found = 1 }
			END { exit !found }' "$ROOT/$1" || return
	done
}

# ---- files ----

# oracle MODULE ARGS...: run MODULE.py, in this file's server (python_server.py), which the first call starts
# and which keeps the environment of that call
oracle() {
	local home=$BATS_FILE_TMPDIR/python reply fields rc
	reply=$BATS_TEST_TMPDIR.reply.$BASHPID.$((++ORACLE_CALLS)) # a new one: the last writer of an old one may still be there
	printf -v fields '\x1f%s' "$PWD" "$BASHPID" "$reply" "$@"
	if ((${#fields} > 1000)) || [[ $fields == *$'\n'* ]]; then # more than a FIFO takes at once
		"$PYTHON" -B "$HELPERS_DIR/$1.py" "${@:2}"
		return
	fi
	# A test that ran out of time has taken it along.
	[[ ! -s $home/pid ]] || kill -0 "$(<"$home/pid")" 2>/dev/null || rm -rf "$home"
	if mkdir "$home" 2>/dev/null; then
		mkfifo "$home/requests"
		# Not a process of the test's: tests look for those that are left.
		env -u COLLTEST_MARK "$PYTHON" "$HELPERS_DIR/python_server.py" "$home/requests" \
			</dev/null >/dev/null 2>"$home/errors" 3>&- &
		echo $! >"$home/new"
		disown $!
		mv "$home/new" "$home/pid"
	fi
	until [[ -s $home/pid ]]; do :; done
	mkfifo "$reply"
	printf '%s\n' "${fields#$'\x1f'}" >"$home/requests"
	read -r rc <"$reply"
	return "$rc"
}

# make_shard FILE DTYPE SHAPE SEED [exact|random|special]
make_shard() { oracle oracle make "$@"; }

# make_shards P DTYPE SHAPE [DATA]: in.0.npy ... in.P-1.npy
make_shards() {
	local r shapes=()
	for ((r = 0; r < $1; r++)); do
		shapes+=("$3")
	done
	shards "$2" "${4:-exact}" "${shapes[@]}"
}

# shards DTYPE DATA SHAPE...: in.R.npy of the R-th shape
shards() { oracle oracle shards "$@"; }

# check_coll [OPTIONS] KIND P [TAG...]: out.TAG.R.npy, or out.R.npy, of every rank against numpy
check_coll() { oracle oracle coll "$@"; }

# check_numpy [--data D] [--order rank] [--dtype D --shape S] OP OUT... --in IN...
check_numpy() { oracle oracle check "$@"; }

# numbered PREFIX P SUFFIX: the names PREFIX0SUFFIX ... on one line
numbered() {
	local r
	for ((r = 0; r < $2; r++)); do
		printf '%s%d%s ' "$1" "$r" "$3"
	done
}

# check_out OP P [options]: out.R.npy of P ranks against in.R.npy
check_out() {
	local op=$1 size=$2
	shift 2
	# shellcheck disable=SC2046 # names without blanks
	check_numpy "$@" "$op" $(numbered out. "$size" .npy) --in $(numbered in. "$size" .npy)
}

# The option for a dtype $1 whose name .npy does not store.
hints() { [[ $1 != bf16 && $1 != f8* ]] || echo "--dtype $1"; }

# every KIND P [OPTIONS...]: each algorithm of a collective, from in.R.npy to out.KIND.ALGORITHM.R.npy.
# Adds KIND.ALGORITHM to TAGS.
every() {
	local kind=$1 size=$2 a
	shift 2
	for a in $(algorithms_of "$kind"); do
		collctl run -n "$size" -- "$kind" --no-sync --insecure -a "$a" "$@" \
			'in.{rank}.npy' -o "out.$kind.$a.{rank}.npy" 2>err || fail "$kind $a, $size ranks: $(<err)"
		TAGS+=("$kind.$a")
	done
}

# No temporary file of an output may remain: the folder may have only the files named.
assert_only_files() {
	local want got
	want=$(printf '%s\n' "$@" | sort)
	got=$(find . -type f ! -name 'separate-stderr-*' -printf '%P\n' | sort) # bats keeps those
	assert_equal "$got" "$want"
}

# json FILE FILTER: the jq filter's raw output on a file that holds exactly one JSON value
json() {
	jq -rs "if length == 1 then .[0] | ($2) else error(\"$1: \\(length) values, not one\") end" "$1"
}

# both P KIND [OPTIONS...] INPUT...: the collective with and without $DEVICES (cuda:0,1); the outputs,
# cpu.RANK$SUFFIX and cuda.RANK$SUFFIX (.npy), are the same
both() {
	local size=$1 kind=$2 where=${DEVICES:-cuda:0,1} r
	shift 2
	rm -f cpu.* cuda.*
	collctl run -n "$size" -- "$kind" --no-sync --insecure -q "$@" -o "cpu.{rank}${SUFFIX-.npy}"
	collctl run -n "$size" -- "$kind" --no-sync --insecure -q --device "$where" "$@" -o "cuda.{rank}${SUFFIX-.npy}" \
		2>err || fail "$kind $*, $where: $(<err)"
	for ((r = 0; r < size; r++)); do
		[[ ! -e cpu.$r${SUFFIX-.npy} ]] || cmp "cpu.$r${SUFFIX-.npy}" "cuda.$r${SUFFIX-.npy}" || fail "$kind $*, $where: rank $r"
	done
}

# shellcheck disable=SC2034 # for the test files
DTYPES=(f32 bf16 f16 f64 f8e4m3 f8e5m2 i8 i16 i32 i64 u8 u16 u32 u64 bool c64 c128)

# ops_of DTYPE: the operations that it has
ops_of() {
	case $1 in
	c*) echo sum prod avg ;;
	f* | bf16) echo sum prod min max avg ;;
	*) echo sum prod min max band bor bxor land lor lxor ;;
	esac
}

# The names of the algorithms of a collective that need no device, one a line; there must be some.
algorithms_of() {
	local collective name found=1
	while read -r collective name; do
		[[ $collective == "$1" && $name != cuda_* ]] || continue
		echo "$name"
		found=0
	done < <(all_algorithms)
	return "$found"
}

# use_standin DEVICES [VARIABLE=VALUE...]: devices of host memory (cuda/standin/runtime.cc)
use_standin() {
	local v
	export COLLCTL_PLUGIN_PATH=${COLLCTL%/*}/collctl-standin.so COLLCTL_STANDIN_DEVICES=$1
	shift
	for v; do
		export "${v?}"
	done
	[[ -r $COLLCTL_PLUGIN_PATH ]] || skip "no $COLLCTL_PLUGIN_PATH: make standin"
}

# use_nccl [SETTING]: the stand-in's devices have NCCL (cuda/standin/nccl.cc)
use_nccl() {
	export COLLCTL_NCCL_PATH=${COLLCTL_PLUGIN_PATH%.so}-nccl.so COLLCTL_STANDIN_NCCL=${1-}
}

# All of them as "COLLECTIVE NAME". The first call of a file of tests asks the program.
all_algorithms() {
	local list=$BATS_FILE_TMPDIR/algorithms${COLLCTL//\//-} new
	if [[ ! -s $list ]]; then
		new=$list.$BASHPID
		collctl algorithms --json | jq -r '.[] | .collective + " " + .algorithm' >"$new"
		mv "$new" "$list"
	fi
	grep . "$list"
}

# ---- processes ----

# Skips a test that needs a pseudo-terminal if there is none, for example in a chroot without devpts.
need_terminal() {
	"$PYTHON" -c 'import os; os.openpty()' 2>/dev/null || skip 'no pseudo-terminal is to be had here'
}

# on_terminal UNTIL COLUMNS COMMAND...: see terminal.py. $output: the bytes sent to it, then the screen.
on_terminal() {
	need_terminal
	run "$PYTHON" "$HELPERS_DIR/terminal.py" "$@"
}

# start_serve [OPTION...]: a store on a port of the kernel's choice. Sets STORE and SERVE_PID.
start_serve() {
	local n=$((++SERVES))
	mkfifo "serve.$n.ready"
	"$COLLCTL" serve --listen 127.0.0.1:0 --port-file "serve.$n.port" --ready-fd 9 "$@" \
		9>"serve.$n.ready" 3>&- >"serve.$n.out" 2>"serve.$n.err" &
	# shellcheck disable=SC2034 # for the test files
	SERVE_PID=$!
	STARTED+=($!)
	read -r -t 60 <"serve.$n.ready" || true # ready, or it has ended
	[[ -s serve.$n.port ]] || fail "serve did not start: $(<"serve.$n.err")"
	STORE=http://127.0.0.1:$(tr -d '[:space:]' <"serve.$n.port")
}

# make_secret: a job secret. Sets SECRET.
make_secret() {
	SECRET=$PWD/job.key
	collctl keygen "$SECRET"
}

# spawn_rank R COMMAND...: in the background; stdout to R.out, stderr to R.err
spawn_rank() {
	local rank=$1
	shift
	"$@" 3>&- >"$rank.out" 2>"$rank.err" &
	PIDS[rank]=$!
	STARTED+=($!)
}

# wait_ranks [R...]: wait for the ranks (all) and keep their exit codes in RC
wait_ranks() {
	local rank
	(($#)) || set -- "${!PIDS[@]}"
	for rank; do
		RC[rank]=0
		wait "${PIDS[rank]}" || RC[rank]=$?
		unset "PIDS[$rank]"
	done
}

# assert_rank R CODE [TEXT...]: the exit code, and texts that its stderr must contain
assert_rank() {
	local rank=$1 code=$2 text
	shift 2
	[[ ${RC[rank]} == "$code" ]] ||
		fail "rank $rank ended with ${RC[rank]} instead of $code: $(<"$rank.err")"
	for text; do
		grep -qF -e "$text" "$rank.err" ||
			fail "rank $rank does not say '$text': $(<"$rank.err")"
	done
}

# assert_ranks P CODE [TEXT...]: the same of ranks 0..P-1
assert_ranks() {
	local size=$1 r
	shift
	for ((r = 0; r < size; r++)); do
		assert_rank "$r" "$@"
	done
}

# on_host HOST COMMAND...: run it with the host name HOST
on_host() {
	local host=$1
	shift
	# shellcheck disable=SC2016 # for the inner shell
	unshare -u sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
}

need_hosts() {
	unshare -u true 2>/dev/null || skip "host names of their own need root"
}

# rank R P COMMAND [ARGS...]: one rank of a job of P through the store $STORE, secret $SECRET
rank() {
	local rank=$1 size=$2
	shift 2
	spawn_rank "$rank" "$COLLCTL" "$@" -r "$rank" -n "$size" -R "$STORE" \
		-j "${JOB:-job}" --secret-file "$SECRET"
}

# ranks P COMMAND [ARGS...]: all of them, to their ends
ranks() {
	local size=$1 r
	shift
	for ((r = 0; r < size; r++)); do
		rank "$r" "$size" "$@"
	done
	wait_ranks
}

# wait_record: until rank 0's record is in the store. Sets RECORD to its key.
wait_record() {
	local index=0 answer
	RECORD=collctl/${JOB:-job}
	while true; do # blocks until the key changes if the store can; else it is a paced retry
		answer=$(curl -s -i "$STORE/v1/kv/$RECORD?index=$index&wait=1s") || true
		[[ $answer != HTTP/*' 200 '* ]] || return 0
		index=$(tr -d '\r' <<<"$answer" | sed -n 's/^X-Consul-Index: //p')
	done
}

# record: rank 0's record, after wait_record
record() { curl -sf "$STORE/v1/kv/$RECORD" | jq -r '.[0].Value | @base64d'; }

# assert_no_record [JOB]: the store has none of that job
assert_no_record() {
	assert_equal "$(curl -s -o /dev/null -w '%{http_code}' "$STORE/v1/kv/collctl/${1-job}")" 404
}

# wait_listening PORT PID: until a process listens there, or PID has ended
wait_listening() {
	until [[ -n $(ss -Htln "sport = :$1") ]]; do
		kill -0 "$2" || return
	done
}

# free_port: sets PORT, a port below the ephemeral range that nobody listens on. A lock file that
# lives as long as the test keeps parallel tests from taking the same one.
free_port() {
	local dir=/tmp/collctl-test-ports.$UID lock fd p=$((20000 + RANDOM % 8000))
	for (( ; ; p = p == 27999 ? 20000 : p + 1)); do
		lock=$dir/$p
		mkdir -p "$dir"
		exec {fd}>"$lock"
		# Its last holder may have removed the file after it was opened here.
		if flock -n "$fd" && [[ /proc/self/fd/$fd -ef $lock ]] && [[ -z $(ss -Htln "sport = :$p") ]]; then
			PORT=$p
			LOCKS+=("$lock")
			return 0
		fi
		exec {fd}>&-
	done
}

# make_hostfile FILE P: P ranks on this machine, the coordinator on a free port. Sets PORT.
make_hostfile() {
	local r
	free_port
	echo "127.0.0.1:$PORT" >"$1"
	for ((r = 1; r < $2; r++)); do
		echo 127.0.0.1 >>"$1"
	done
}

# ---- jobs of `run`, and their files ----

# py: run the program on stdin with the names of files.py
py() {
	PYTHONPATH=$HELPERS_DIR PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -c "from files import *
$(cat)"
}

# go P COMMAND...: a job that succeeds; its messages are in `err`
go() {
	local size=$1
	shift
	collctl run -n "$size" -- "$@" --no-sync --insecure 2>err || fail "$*: $(<err)"
}

# refused CODE TEXT P COMMAND...: a job that ends with CODE and says TEXT
# shellcheck disable=SC2154 # bats sets status and stderr
refused() {
	local code=$1 text=$2 size=$3
	shift 3
	run --separate-stderr collctl run -n "$size" -- "$@" --no-sync --insecure
	((status == code)) || fail "$*: $status instead of $code: $stderr"
	[[ $stderr == *"$text"* ]] || fail "$*: does not say '$text': $stderr"
}

# listing FOLDER: every file and folder with its kind, mode, size and contents, and its time with -t
listing() {
	local times=''
	[[ $1 != -t ]] || {
		times='%T@ '
		shift
	}
	(
		cd "$1" || exit
		find . -printf "%P %y %m $times\n" | sort
		find . -type f -print0 | sort -z | xargs -0 -r sha1sum
	)
}

# linked FOLDER: which names are one file
linked() {
	(cd "$1" && find . -type f -printf '%i %P\n' | sort -k2 | awk '{ if (!($1 in n)) n[$1] = ++k; print n[$1], $2 }')
}
