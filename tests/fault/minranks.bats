#!/usr/bin/env bats
# Ranks that do not come, with --min-ranks. Numbers are the rows of the table of faults.

load ../cli/helpers
load fault

setup_file() { compile_sysfault; }

setup() {
	common_setup
	make_secret
	make_shards 4 f32 20
}

# come R P [OPTIONS...]: rank R of an average of P, which begins with two or more
come() {
	local r=$1 size=$2
	shift 2
	rank "$r" "$size" allreduce --op avg --min-ranks 2 --grace 300ms "in.$r.npy" -o "out.$r.npy" "$@"
}

# without SIZE MISSING RANK...: the average of the ranks, and what they say of the missing ones
without() {
	local size=$1 missing=$2 r ins=() outs=()
	shift 2
	for r; do
		assert_rank "$r" 0
		assert_equal "$(json "$r.out" '.missing | @csv')" "$missing"
		assert_equal "$(json "$r.out" '.size')" "$size"
		ins+=("in.$r.npy")
		outs+=("out.$r.npy")
	done
	check_numpy avg "${outs[@]}" --in "${ins[@]}"
}

# closed R: the round was closed when it came
closed() {
	assert_rank "$1" 5 'the round is closed'
	assert_not_exist "out.$1.npy"
}

# bats test_tags=smoke
@test "91: a rank that never comes: the others succeed without it, and name it; one that comes late ends with 5" {
	start_serve
	mkfifo late
	exec 7<>late # whoever opens it need not wait for the other end
	come 0 4 --json --min-ranks 3 7>&-
	come 3 4 --json --min-ranks 3 7>&-
	spawn_rank 1 "$COLLCTL" allreduce --op avg --min-ranks 3 --grace 300ms --json --format npy late -o out.1.npy \
		-r 1 -n 4 -R "$STORE" -j job --secret-file "$SECRET" 7>&-
	# It has joined, and all wait for its request.
	until grep -q 'the round is closed' 0.err; do kill -0 "${PIDS[0]}"; done
	come 2 4 --min-ranks 3 7>&-
	wait_ranks 2
	closed 2
	cat in.1.npy >&7
	exec 7>&-
	wait_ranks
	assert_rank 0 0 'the round is closed: 3 of 4 ranks take part; missing: rank 2'
	without 4 2 0 1 3
}

@test "91: ranks that have parts in a job that runs wait for its end, and make the next one; also with an input in a pipe" {
	local r part job
	need_sysfault
	no_leak_check
	export SYSFAULT_GO=$PWD/go
	start_serve
	mkfifo go late
	part=("$COLLCTL" allreduce -n 2 -R "$STORE" -j job --secret-file "$SECRET")
	job=("${part[@]}" --min-ranks 1 --grace 100s)
	spawn_rank 0 "${job[@]}" -r 0 in.0.npy -o out.0.npy
	spawn_rank 1 "$SYSFAULT" hold 1 pwrite64 -- "${job[@]}" -r 1 in.1.npy -o out.1.npy
	exec 8>go # it has all but its output
	spawn_rank 2 "${part[@]}" -vv -r 0 in.2.npy -o out.2.npy 8>&-
	spawn_rank 3 "${part[@]}" -vv -r 1 --format npy late -o out.3.npy 8>&-
	for r in 2 3; do
		until grep -q 'closed the connection without an answer' "$r.err"; do kill -0 "${PIDS[r]}"; done
	done
	exec 8>&-
	wait_ranks 0 1
	cat in.3.npy >late
	wait_ranks
	for r in 0 1 2 3; do assert_rank "$r" 0; done
	check_numpy sum out.0.npy out.1.npy --in in.0.npy in.1.npy
	check_numpy sum out.2.npy out.3.npy --in in.2.npy in.3.npy
}

@test "91: all come: nobody waits for --grace, and nobody is missing" {
	start_serve
	for r in 0 1 2; do come "$r" 3 --json --grace 100s; done
	wait_ranks
	without 3 '' 0 1 2
}

@test "91: as many come as are needed after --grace; weights of the others count nowhere; --rank auto; over TLS and two lanes" {
	start_serve
	for r in 1 3; do
		spawn_rank "$r" "$COLLCTL" allreduce --op avg --weight $((r + 1)) --min-ranks 2 --grace 100ms --lanes tcp --streams 2 --json \
			"in.$r.npy" -o "out.$r.npy" -r auto -n 3 -R "$STORE" -j job --secret-file "$SECRET"
	done
	wait_ranks
	for r in 1 3; do
		assert_rank "$r" 0
		assert_equal "$(json "$r.out" '.missing | @csv')" 2
	done
	"$PYTHON" - <<-'EOF2'
		import numpy as np
		a, b = (np.load(f"in.{r}.npy").astype("f8") for r in (1, 3))
		want = ((2 * a + 4 * b) / 6).astype("f4")
		for r in (1, 3):
		    np.testing.assert_allclose(np.load(f"out.{r}.npy"), want, rtol=1e-6)
	EOF2
}

@test "91: too few come: 5, and the missing ones are named; too few are left: the failure of the last" {
	start_serve
	come 0 3 --join-timeout 1s
	wait_ranks
	assert_rank 0 5 'ranks 1, 2 did not join within 1 s (--join-timeout)'
	run -3 --separate-stderr collctl run -n 3 -- allreduce --min-ranks 3 'nosuch.{rank}.npy' -o 'out.{rank}.npy'
	assert_not_exist out.0.npy
}

@test "91: run: a rank that fails before the job begins, or is lost, does not end the others; rank 0 and the root do" {
	rm in.2.npy
	run --separate-stderr -0 collctl run -n 4 -- allreduce --op avg --min-ranks 3 --grace 500ms 'in.{rank}.npy' -o 'out.{rank}.npy' --json
	[[ $stderr == *'rank 2: in.2.npy: cannot open'* && $stderr == *'takes no part'* ]] || fail "$stderr"
	assert_equal "$(jq -sr 'map(.error.code // 0 | tostring) | join(" ")' <<<"$output")" '0 0 3 0'
	check_numpy avg out.0.npy out.1.npy out.3.npy --in in.0.npy in.1.npy in.3.npy
	run --separate-stderr -3 collctl run -n 4 -- reduce --root 2 --min-ranks 3 --grace 500ms 'in.{rank}.npy' -o 'new.{rank}.npy'
	mv in.0.npy in.2.npy
	run --separate-stderr -3 collctl run -n 4 -- allreduce --min-ranks 3 --grace 500ms 'in.{rank}.npy' -o 'new.{rank}.npy'
	assert_not_exist new.1.npy
}

@test "91: reduce, broadcast and barrier without a rank; algorithms by name, windows, threads; a hostfile" {
	local a r
	make_hostfile hosts 4
	for a in 'barrier -a all_to_all' barrier 'broadcast --root 1 -a ring' 'reduce --root 3 -a direct' 'allreduce -a recursive_doubling --memory 64K' \
		'allreduce --op median' 'allreduce -a hosts --threads 2 --streams 2'; do
		for r in 0 1 3; do
			local ins=("in.$r.npy") outs=(-o "out.$r.npy" --force)
			[[ $a != barrier* ]] || ins=() outs=()
			# shellcheck disable=SC2086 # several words
			spawn_rank "$r" "$COLLCTL" $a --min-ranks 3 --grace 50ms -H hosts -r "$r" --secret-file "$SECRET" --json \
				"${ins[@]}" "${outs[@]}"
		done
		wait_ranks
		for r in 0 1 3; do
			assert_rank "$r" 0
			assert_equal "$(json "$r.out" '.missing | @csv')" 2
		done
		case $a in
		broadcast*) cmp in.1.npy out.0.npy && cmp in.1.npy out.3.npy ;;
		reduce*) check_numpy sum out.3.npy --in in.0.npy in.1.npy in.3.npy ;;
		*median*) check_numpy median out.{0,1,3}.npy --in in.0.npy in.1.npy in.3.npy ;;
		allreduce*) check_numpy sum out.{0,1,3}.npy --in in.0.npy in.1.npy in.3.npy ;;
		esac
		rm -f out.*.npy
	done
}

@test "94: another rank 0 replaces the record while the round runs: the round gives no result: 5" {
	start_serve
	mkfifo late
	exec 7<>late
	come 0 4 7>&-
	wait_record
	spawn_rank 1 "$COLLCTL" allreduce --op avg --min-ranks 2 --grace 300ms --format npy late -o out.1.npy \
		-r 1 -n 4 -R "$STORE" -j job --secret-file "$SECRET" 7>&-
	until grep -q 'the round is closed' 0.err; do kill -0 "${PIDS[0]}"; done
	curl -sf -X PUT --data-binary 'of another rank 0' "$STORE/v1/kv/$RECORD"
	cat in.1.npy >&7
	exec 7>&-
	wait_ranks
	assert_ranks 2 5 'another rank 0 may have begun'
	assert_not_exist out.0.npy
	assert_not_exist out.1.npy
}

@test "94: without a store more than half of the ranks must take part; options that do not fit: 2" {
	make_hostfile hosts 4
	try() { # TEXT OPTION...
		run --separate-stderr -2 collctl allreduce -H hosts -r 0 --insecure in.0.npy -o out.0.npy "${@:2}"
		[[ $stderr == *"$1"* ]] || fail "$stderr"
	}
	try 'more than half of the 4 ranks must take part' --min-ranks 2
	try 'the job has 4 ranks' --min-ranks 5
	try 'give --min-ranks K, too' --grace 2s
	try 'is not shorter than --join-timeout' --min-ranks 3 --grace 3m
	try "'' is not a number" --min-ranks ''
	run --separate-stderr -2 collctl run -n 4 -- allreduce --min-ranks 2 x -o y
	all_say 'more than half'
	run --separate-stderr -2 collctl run -n 4 -- gather --min-ranks 3 x -o y
	all_say '--min-ranks is not an option of gather'
	start_serve
	run --separate-stderr -2 collctl barrier -R "$STORE" -r auto -n 4 --insecure --min-ranks 2
	all_say 'with --rank auto, more than half'
	rank 0 3 allreduce --min-ranks 2 --grace 100s in.0.npy -o out.0.npy
	rank 1 3 allreduce --min-ranks 2 --grace 90s in.1.npy -o out.1.npy
	rank 2 3 allreduce --min-ranks 2 --grace 90s in.2.npy -o out.2.npy
	wait_ranks
	assert_ranks 3 7 '--grace'
}

# ---- ranks that are lost once the job has begun ----

# start_held SESSIONS ARGS...: four ranks stand still while data move, each of the first sessions in its middle;
# `resume` lets them go on. Rank 0's data go to rank 1 through a proxy.
start_held() {
	local r options times=$1
	shift
	start_serve
	make_shards 4 f32 200000
	hold_data 300000 --times "$times"
	exec 8<>held # its lines stay, whoever closes it
	for r in 0 1 2 3; do
		options=()
		((r != 1)) || options=("${THROUGH[@]}")
		rank "$r" 4 "$@" --streams 1 --lanes tcp --grace 20s --json "in.$r.npy" -o "out.$r.npy" "${options[@]}" 8>&-
	done
	await_held
}

await_held() { read -r -t 60 <&8; }

# bats test_tags=smoke
@test "91: a rank killed while data move: the others begin again without it; weights; a rank that comes back: 5" {
	start_held 2 allreduce --op avg -a ring_chunked --min-ranks 2 --weight 3
	kill -KILL "${PIDS[2]}"
	await_held
	spawn_rank 4 "$COLLCTL" allreduce --op avg --weight 3 --min-ranks 2 --grace 20s in.2.npy -o out.2.npy \
		-r 2 -n 4 -R "$STORE" -j job --secret-file "$SECRET" 8>&-
	wait_ranks 4
	assert_rank 4 5 'the round is closed: it goes on without this rank, with 3 of 4 ranks'
	resume
	wait_ranks
	assert_rank 2 137
	assert_rank 0 0 'rank 2 takes no part in the job any more: lost while data were moving'
	without 4 2 0 1 3
	assert_not_exist out.2.npy
	assert_no_record
}

@test "91: two ranks killed at once; the weights of those that are left; certificates" {
	local r
	collctl -q ca init pki
	for r in 0 1 2 3; do collctl -q ca issue pki --rank "$r"; done
	rank() { # by certificates instead of the secret; each with its own weight
		spawn_rank "$1" env COLLCTL_TLS_CERT=pki/rank-"$1".pem COLLCTL_TLS_KEY=pki/rank-"$1".key COLLCTL_TLS_CA=pki/ca.pem \
			"$COLLCTL" "${@:3}" --weight $(($1 + 1)) -r "$1" -n "$2" -R "$STORE" -j job
	}
	start_held 1 allreduce --op avg -a ring_chunked --min-ranks 2
	kill -KILL "${PIDS[2]}" "${PIDS[3]}"
	wait_ranks
	for r in 0 1; do
		assert_rank "$r" 0
		assert_equal "$(json "$r.out" '.missing | @csv')" 2,3
	done
	"$PYTHON" - <<-'EOF2'
		import numpy as np
		a, b = (np.load(f"in.{r}.npy").astype("f8") for r in (0, 1))
		for r in (0, 1):
		    np.testing.assert_allclose(np.load(f"out.{r}.npy"), (a + 2 * b) / 3, rtol=1e-6)
	EOF2
	assert_not_exist out.3.npy
}

# all_keep CODE TEXT RANK...: those ranks end with it, and all outputs are the old ones
all_keep() {
	local r
	wait_ranks
	for r in "${@:3}"; do assert_rank "$r" "$1" "$2"; done
	assert_equal "$(cat out.?.npy | sort -u)" old
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "91: rank 0, the root, or one rank too many is killed while data move: 8, and the old outputs" {
	local what
	for what in 'allreduce -a ring_chunked --min-ranks 2:0:rank 0' 'broadcast --root 3 -a ring --min-ranks 2:3:rank 3' \
		'allreduce -a ring_chunked --min-ranks 3:2 3:rank '; do
		for r in 0 1 2 3; do echo old >"out.$r.npy"; done
		IFS=: read -r command lost text <<<"$what"
		# shellcheck disable=SC2086 # several words
		start_held 2 $command
		local victims=() others=()
		for r in 0 1 2 3; do
			if [[ " $lost " == *" $r "* ]]; then victims+=("${PIDS[r]}"); else others+=("$r"); fi
		done
		kill -KILL "${victims[@]}"
		all_keep 8 "$text" "${others[@]}"
	done
}

@test "91: a rank that stands still is left out; when it goes on it ends with 9 and its old output" {
	echo old >out.2.npy
	start_held 1 allreduce --op avg -a ring_chunked --min-ranks 3 --timeout 3s
	kill -STOP "${PIDS[2]}"
	wait_ranks 0 1 3
	without 4 2 0 1 3
	kill -CONT "${PIDS[2]}"
	wait_ranks
	assert_rank 2 9 'no message for'
	assert_equal "$(<out.2.npy)" old
}

@test "91: SIGTERM for a rank while data move: 143 there, and the others begin again without it" {
	start_held 1 allreduce --op avg -a ring_chunked --min-ranks 3
	kill -TERM "${PIDS[3]}"
	wait_ranks
	assert_rank 3 143 'ended by SIGTERM'
	without 4 3 0 1 2
}

@test "91: a rank killed as it writes, or as it stores: the others begin again; windows, streams, threads, memory lanes, pipes" {
	local a r at
	need_sysfault
	make_shards 4 f32 60000
	make_hostfile hosts 4
	for a in '-a direct --memory 256K' '-a hosts --threads 2 --streams 2' '--op median' '-a recursive_doubling --lanes tcp' \
		'--op avg --wire q8 --max-error 9 --lanes tcp' '--order rank --trace trace.json'; do
		for at in pwrite64 fsync; do
			for r in 0 1 2 3; do
				# shellcheck disable=SC2206 # several words
				local part=(allreduce $a --min-ranks 3 --grace 20s -H hosts -r "$r" --secret-file "$SECRET" --json --force -o "out.$r.npy")
				case $r in
				1) spawn_rank 1 bash -c 'cat in.1.npy | "$@"' - "$COLLCTL" "${part[@]}" --format npy - ;;
				2) spawn_rank 2 "$SYSFAULT" kill 1 "$at" -- "$COLLCTL" "${part[@]}" in.2.npy ;;
				*) spawn_rank "$r" "$COLLCTL" "${part[@]}" "in.$r.npy" ;;
				esac
			done
			wait_ranks
			assert_rank 2 137
			for r in 0 1 3; do
				assert_rank "$r" 0
				assert_equal "$(json "$r.out" '.missing | @csv')" 2
			done
			case $a in
			*median*) check_numpy median out.{0,1,3}.npy --in in.0.npy in.1.npy in.3.npy ;;
			*q8*) cmp out.0.npy out.1.npy && cmp out.0.npy out.3.npy ;;
			*) check_numpy sum out.{0,1,3}.npy --in in.0.npy in.1.npy in.3.npy ;;
			esac
			assert_equal "$(find . -name '.out.*' ! -name '.out.2.*')" ''
			rm -f out.*.npy
		done
	done
}

# start_run OPTION...: `run` of four ranks, of which three are enough; all wait as they store their outputs. Sets $ranks, their
# processes.
start_run() {
	local r
	rm -f go
	mkfifo go
	spawn_rank 9 env LD_PRELOAD="$BATS_FILE_TMPDIR/flaky.so" FLAKY=fsync FLAKY_GO="$PWD/go" "$COLLCTL" run -n 4 -- \
		allreduce --op avg --min-ranks 3 --grace 20s -v --json "$@" 'in.{rank}.npy' -o 'out.{rank}.npy'
	for r in 0 1 2 3; do
		until grep -q "rank $r: phase run" 9.err; do kill -0 "${PIDS[9]}"; done
	done
	read -ra ranks <"/proc/${PIDS[9]}/task/${PIDS[9]}/children" || true # in the order of their start
}

# Let the outputs be stored, and wait for the end.
end_run() {
	while :; do : >go; done 3>&- &
	local feeder=$!
	wait_ranks
	kill "$feeder"
}

# killed_in_run CODE VICTIM...: the victims are killed before they have stored their outputs
killed_in_run() {
	local code=$1 r ranks
	shift
	start_run
	for r; do
		kill -KILL "${ranks[r]}"
		until grep -q "rank $r: killed" 9.err; do kill -0 "${PIDS[9]}" || break; done
	done
	end_run
	assert_rank 9 "$code" "rank $1: killed by signal 9"
}

build_flaky() {
	no_sanitizers 'what is preloaded'
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$BATS_FILE_TMPDIR/flaky.so" "$FAULT_DIR/flaky.c" -ldl
}

@test "91: run: a rank killed while data move does not end the others; one too many is the exit code" {
	build_flaky
	killed_in_run 0 2
	assert_equal "$(jq -sr 'map(.missing | @csv) | join(" ")' 9.out)" '2 2 2'
	check_numpy avg out.{0,1,3}.npy --in in.0.npy in.1.npy in.3.npy
	rm out.*.npy
	killed_in_run 137 2 3
	assert_equal "$(find . -name 'out.*')" ''
}

@test "91: run: a rank that stands still while the others succeed is ended" {
	local ranks
	build_flaky
	start_run --timeout 2s
	kill -STOP "${ranks[2]}"
	until grep -q 'rank 2 takes no part in the job any more' 9.err; do kill -0 "${PIDS[9]}"; done
	end_run
	assert_rank 9 0 'waiting for rank 2 to end'
	assert_equal "$(jq -sr 'map(select(.ok).missing | @csv) | join(" ")' 9.out)" '2 2 2'
	check_numpy avg out.{0,1,3}.npy --in in.0.npy in.1.npy in.3.npy
	assert_equal "$(find . -name '*out.2*')" ''
}
