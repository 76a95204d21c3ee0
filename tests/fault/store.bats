#!/usr/bin/env bats
# Faults of the store and of what it holds. Numbers are the rows of the table of faults.

load ../cli/helpers

setup() {
	common_setup
	make_secret
	KEY=(--secret-file "$SECRET")
	make_shards 2 f32 20
}

# impostor MODE PORT [LOG]: in the background, until the test ends. Sets PORT.
impostor() {
	mkfifo impostor.ready
	"$PYTHON" "$HELPERS_DIR/../fault/impostor.py" "$@" >impostor.ready 3>&- 2>impostor.err &
	STARTED+=($!)
	read -r -t 60 PORT <impostor.ready || fail "no impostor: $(<impostor.err)"
}

# stale_record: the record of a rank 0 that was killed. Sets PORT to its port.
stale_record() {
	start_serve
	free_port
	start_rank 0 --listen "127.0.0.1:$PORT"
	wait_record
	kill -KILL "${PIDS[0]}"
	wait_ranks
}

# start_rank R [OPTIONS...]
start_rank() {
	local r=$1
	shift
	spawn_rank "$r" "$COLLCTL" allreduce -r "$r" -n 2 -R "$STORE" -j job "${KEY[@]}" \
		--join-timeout 120s "$@" "in.$r.npy" -o "out.$r.npy"
}

assert_replaced() {
	start_rank 1
	start_rank 0
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

# bats test_tags=smoke
@test "47: a stale record whose port is HTTP's by now is replaced" {
	stale_record
	impostor http "$PORT"
	assert_replaced
}

@test "47: a stale record whose port is SSH's by now is replaced" {
	stale_record
	impostor ssh "$PORT"
	assert_replaced
}

@test "47: a stale record whose port is another job's coordinator's by now is replaced" {
	stale_record
	collctl keygen other.key
	echo "127.0.0.1:$PORT" >hosts
	echo 127.0.0.1 >>hosts
	spawn_rank 7 "$COLLCTL" barrier -H hosts -r 0 -j job --secret-file other.key --join-timeout 120s
	wait_listening "$PORT" "${PIDS[7]}"
	start_rank 1
	start_rank 0
	wait_ranks 0 1
	assert_ranks 2 0
	check_out sum 2
	# It lives, and its own rank still gets in.
	spawn_rank 8 "$COLLCTL" barrier -H hosts -r 1 -j job --secret-file other.key --join-timeout 120s
	wait_ranks
	assert_rank 7 0
	assert_rank 8 0
}

@test "47: a stale record whose port is silent by now is replaced" {
	stale_record
	impostor silent "$PORT"
	assert_replaced
}

@test "47: a stale record whose port closes every connection by now is replaced" {
	((LONG)) || skip 'takes five seconds: only in the long runs'
	stale_record
	impostor close "$PORT"
	assert_replaced
}

@test "47: with --insecure: HTTP, and another job's coordinator" {
	KEY=(--insecure)
	stale_record
	impostor http "$PORT"
	assert_replaced
	stale_record
	echo "127.0.0.1:$PORT" >hosts
	echo 127.0.0.1 >>hosts
	spawn_rank 7 "$COLLCTL" barrier -H hosts -r 0 -j other --insecure --join-timeout 120s
	wait_listening "$PORT" "${PIDS[7]}"
	rm out.*
	start_rank 1
	start_rank 0
	wait_ranks 0 1
	assert_ranks 2 0
	check_out sum 2
}

@test "47: with --insecure: silence" {
	((LONG)) || skip 'takes five seconds: only in the long runs'
	KEY=(--insecure)
	stale_record
	impostor silent "$PORT"
	assert_replaced
}

@test "47: the record of a coordinator that lives stays: rank 0 twice is 7, the job succeeds" {
	local before
	start_serve
	start_rank 0
	wait_record
	before=$(record)
	spawn_rank 9 "$COLLCTL" allreduce -r 0 -n 2 -R "$STORE" -j job --secret-file "$SECRET" \
		--join-timeout 120s in.0.npy -o out.9.npy
	wait_ranks 9
	assert_rank 9 7 'rank 0 has joined already'
	assert_equal "$(record)" "$before"
	start_rank 1
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "47: without rank 0: 5, with what answers at the record's address" {
	stale_record
	impostor http "$PORT"
	start_rank 1 --join-timeout 6s
	wait_ranks
	assert_rank 1 5 'rank 0: not found within 6 s' "127.0.0.1:$PORT" "record collctl/job in $STORE"
}

@test "49: the store is restarted while ranks wait: published again" {
	free_port
	start_serve --listen "127.0.0.1:$PORT"
	start_rank 0
	wait_record
	kill "$SERVE_PID"
	wait "$SERVE_PID" || true
	# One rank comes while there is no store.
	start_rank 1
	start_serve --listen "127.0.0.1:$PORT"
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
	assert_no_record
}

@test "49: the record is forgotten while ranks wait: published again, and withdrawn at the end" {
	start_serve
	start_rank 0
	wait_record
	curl -sf -o /dev/null -X DELETE "$STORE/v1/kv/$RECORD"
	wait_record
	curl -sf -o /dev/null -X DELETE "$STORE/v1/kv/$RECORD"
	start_rank 1
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
	assert_no_record
}

@test "49: SIGTERM while rank 0 waits withdraws the record" {
	start_serve
	start_rank 0
	wait_record
	kill -TERM "${PIDS[0]}"
	wait_ranks
	assert_rank 0 143
	assert_no_record
}

# What a job asks of a store that is none: at most a few requests a second.
assert_few_requests() { # SECONDS RANKS
	local n
	n=$(wc -l <requests)
	((n <= $2 * (20 + 5 * $1))) || fail "$n requests in $1 s: $(sort requests | uniq -c)"
}

# Start two ranks with an impostor at STORE: both end with 5, and rank 0 says each TEXT.
assert_both_give_up() { # TEXT...
	start_rank 0 --join-timeout 6s
	start_rank 1 --join-timeout 6s
	wait_ranks
	assert_rank 0 5 "$@"
	assert_rank 1 5 'no record collctl/job' "$STORE"
	assert_few_requests 6 2
}

@test "50: a store that answers false to every PUT: few requests, 5 and why" {
	impostor false 0 requests
	STORE=http://127.0.0.1:$PORT
	assert_both_give_up 'rejects PUT' "$STORE"
}

@test "50: a store that forgets what it takes and lets nobody wait: few requests, 5" {
	impostor hasty 0 requests
	STORE=http://127.0.0.1:$PORT
	assert_both_give_up 'rank 1'
}

@test "50: an etcd that holds nothing and lets nobody wait: few requests, 5 and why" {
	impostor etcd 0 requests
	STORE=etcd+http://127.0.0.1:$PORT,127.0.0.1:$PORT
	assert_both_give_up 'rejects PUT' "$STORE"
}

@test "50: a store that answers nothing more: the message at the deadline has its last answer" {
	local mode
	for mode in mute ill; do
		impostor "$mode" 0 requests
		rm impostor.ready
		STORE=http://127.0.0.1:$PORT
		start_rank 0 --join-timeout 6s
		wait_ranks
		cp 0.err "$mode.err"
	done
	run cat mute.err
	assert_output --partial 'rejects PUT'
	run cat ill.err
	assert_output --partial 'HTTP 500'
	assert_rank 0 5 "$STORE"
}
