#!/usr/bin/env bats
# Messages during the join: joined and missing ranks, and with -v the sources of settings.

load helpers

setup() {
	common_setup
	make_secret
	start_serve
}

# on_terminal UNTIL COMMAND...: stdout has the bytes sent to the terminal, then its screen
on_terminal() {
	local until=$1
	shift
	TERM=xterm "$PYTHON" "$HELPERS_DIR/terminal.py" "$until" 100 "$@"
}

# bats test_tags=smoke
@test "who waits shows who is missing, on rank 0 and on the others" {
	local r
	for r in 0 1; do
		spawn_rank "$r" on_terminal 'missing: rank' "$COLLCTL" barrier -r "$r" -n 3 -R "$STORE" \
			--secret-file "$SECRET"
		spawn_rank $((1 - r)) "$COLLCTL" barrier -r $((1 - r)) -n 3 -R "$STORE" --secret-file "$SECRET"
		wait_ranks "$r" # SIGINT ends it as soon as the line shows
		kill -TERM "${PIDS[1 - r]}" 2>/dev/null || true
		wait_ranks
		grep -qE 'barrier  [12] of 3 joined, missing: rank(s 1, 2| 2)' "$r.out" || fail "$(<"$r.out")"
	done
}

@test "the line is gone after the join" {
	spawn_rank 0 on_terminal '' "$COLLCTL" barrier -r 0 -n 3 -R "$STORE" --secret-file "$SECRET"
	spawn_rank 1 "$COLLCTL" barrier -r 1 -n 3 -R "$STORE" --secret-file "$SECRET" --progress json
	until grep -qs '"joined":{"here":2' 1.err; do kill -0 "${PIDS[1]}" || break; done
	spawn_rank 2 "$COLLCTL" barrier -r 2 -n 3 -R "$STORE" --secret-file "$SECRET" --progress never
	wait_ranks
	assert_ranks 3 0
	[[ $(tail -n +2 0.out) != *joined* ]] || fail "$(<0.out)"
	[[ $(<2.err) != *joined* ]]
}

@test "as JSON lines" {
	"$COLLCTL" barrier -r 0 -n 3 -R "$STORE" --secret-file "$SECRET" --progress json \
		2> >(tee 0.err | grep -m 1 --line-buffered '"joined":{"here":1' >seen; echo >>seen) &
	STARTED+=($!)
	local pid=$!
	until [[ -s seen ]]; do kill -0 "$pid" || fail "$(<0.err)"; done
	kill -TERM "$pid"
	wait "$pid" || true
	assert_equal "$(head -1 seen | jq -c .progress.joined)" '{"here":1,"size":3,"missing":"1, 2"}'
}

@test "a store that nobody serves and a name that does not resolve are said at the first failure" {
	local port
	port=$(free_port)
	run -5 collctl barrier -r 0 -n 2 -R "http://127.0.0.1:$port" --insecure --join-timeout 300ms
	assert_line --index 0 "collctl: rank 0: http://127.0.0.1:$port: cannot connect: Connection refused: does 'collctl serve' run there? trying for 0.3 s (--join-timeout)"
	assert_line --index 1 "collctl: rank 0: http://127.0.0.1:$port: cannot connect: Connection refused"
	run -5 collctl barrier -r 1 -n 2 -R http://no-such-host.invalid:1 --insecure --join-timeout 300ms
	assert_line --index 0 --regexp 'http://no-such-host.invalid:1: .*resolve.*; trying for 0.3 s'
	run -5 --separate-stderr collctl barrier -q -r 1 -n 2 -R "http://127.0.0.1:$port" --insecure --join-timeout 300ms
	assert_equal "$(wc -l <<<"$stderr")" 1
}

@test "another secret: said as soon as the record is read, and the job goes on without it" {
	collctl keygen other
	spawn_rank 0 "$COLLCTL" barrier -r 0 -n 2 -R "$STORE" --secret-file "$SECRET"
	spawn_rank 1 "$COLLCTL" barrier -r 1 -n 2 -R "$STORE" --secret-file other
	until grep -qs 'the secrets differ; trying for 120 s' 1.err; do kill -0 "${PIDS[1]}"; done
	spawn_rank 2 "$COLLCTL" barrier -r 1 -n 2 -R "$STORE" --secret-file "$SECRET"
	wait_ranks 0 2
	kill -TERM "${PIDS[1]}"
	wait_ranks
	assert_rank 0 0
	assert_rank 2 0
}

@test "one task of a launcher is a job of one rank" {
	RANK=0 WORLD_SIZE=1 collctl barrier
	SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 collctl barrier
	RANK=0 WORLD_SIZE=2 run -2 collctl barrier
	assert_output --partial 'no way to find the other ranks'
	RANK=0 WORLD_SIZE=1 run -2 collctl barrier -n 2
	assert_output --partial 'no way to find the other ranks'
}

@test "-v tells where rank, size, job and addresses came from; -vv each connection" {
	SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 COLLCTL_RENDEZVOUS=$STORE \
		spawn_rank 0 "$COLLCTL" barrier -a all_to_all -v --secret-file "$SECRET"
	COLLCTL_SIZE=2 spawn_rank 1 "$COLLCTL" barrier -a all_to_all -vv --rank 1 -R "$STORE" -j 9.0 \
		--secret-file "$SECRET"
	wait_ranks
	assert_rank 0 0 'rank 0 (SLURM_PROCID) of 2 (SLURM_STEP_NUM_TASKS)' \
		'job 9.0 (SLURM_JOB_ID.SLURM_STEP_ID), started by Slurm' "$STORE (COLLCTL_RENDEZVOUS)" \
		'rank 0: coordinates the job' 'rank 0: all 2 ranks have joined' 'rank 0: phase connect'
	assert_rank 1 0 'rank 1 (--rank) of 2 (COLLCTL_SIZE), job 9.0 (--job)' "$STORE (--rendezvous)" \
		'rank 1: connecting to rank 0 at 127.0.0.1:' 'rank 1: joined as rank 1 of 2' \
		'rank 1: sending to rank 0 at 127.0.0.1:'
	grep -q 'sending to' 0.err && fail "$(<0.err)"
	true
}

@test "-vv of the coordinator names each connection that it accepts" {
	local r
	for r in 0 1; do
		spawn_rank "$r" "$COLLCTL" barrier -vv -r "$r" -n 2 -R "$STORE" -j job --secret-file "$SECRET"
	done
	wait_ranks
	assert_ranks 2 0
	grep -qE 'rank 0: a connection from 127\.0\.0\.1:[0-9]+: rank 1$' 0.err || fail "$(<0.err)"
}
