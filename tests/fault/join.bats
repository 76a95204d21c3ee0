#!/usr/bin/env bats
# Faults while the ranks find each other. Numbers are the rows of the table of faults.

load ../cli/helpers
load fault

setup_file() { compile_sysfault; }

setup() {
	common_setup
	make_secret
	make_shards 3 f32 20
}

assert_no_output() {
	local left
	left=$(find . -name 'out*' -o -name '.out*')
	assert_equal "$left" ''
}

by_hostfile() { # R [OPTIONS...]
	local r=$1
	shift
	spawn_rank "$r" "$COLLCTL" allreduce -H hosts -r "$r" --secret-file "$SECRET" --join-timeout 8s \
		"in.$r.npy" -o "out.$r.npy" "$@"
}

# bats test_tags=smoke
@test "1: another secret, by hostfile: the dialler 6, the secrets differ; rank 0 waits on, then 5" {
	make_hostfile hosts 2
	collctl keygen other.key
	by_hostfile 0
	by_hostfile 1 --secret-file other.key
	wait_ranks
	assert_rank 1 6 'secrets differ'
	assert_rank 0 5
	assert_no_output
}

@test "1: after it the right one may still come" {
	make_hostfile hosts 2
	collctl keygen other.key
	by_hostfile 0 --join-timeout 120s
	by_hostfile 1 --secret-file other.key
	wait_ranks 1
	assert_rank 1 6
	by_hostfile 1 --join-timeout 120s
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "2: another job, by hostfile, and no input: the rank says that it is another job" {
	make_hostfile hosts 2
	rm in.1.npy
	by_hostfile 0 -j right
	by_hostfile 1 -j wrong
	wait_ranks
	assert_rank 1 6 job
	[[ $(<1.err) != *in.1.npy* ]]
	assert_rank 0 5
	assert_no_output
}

@test "36: a rank without its input joins, so that all say why: 3" {
	make_hostfile hosts 3
	rm in.1.npy
	for r in 0 1 2; do by_hostfile "$r"; done
	wait_ranks
	assert_ranks 3 3
	for r in 0 1 2; do assert_rank "$r" 3 'rank 1: in.1.npy: cannot open'; done
	assert_no_output
}

@test "2: another job, by hostfile: 6, a text of its own" {
	make_hostfile hosts 2
	by_hostfile 0 -j right
	by_hostfile 1 -j wrong
	wait_ranks
	assert_rank 1 6 job
	[[ $(<1.err) != *'secrets differ'* ]]
	assert_rank 0 5
	assert_no_output
}

@test "2: another session's key at a data listener: refused, the job succeeds" {
	local identity data
	make_hostfile hosts 2
	free_port
	data=$PORT
	by_hostfile 1 --join-timeout 120s --listen "127.0.0.1:$data"
	by_hostfile 0 --join-timeout 120s
	identity="D1|00112233445566778899aabbccddeeff|0|1|0"
	# It may come before, during or after the mesh: it never gets in.
	run timeout 100 openssl s_client -connect "127.0.0.1:$data" -tls1_3 -psk_identity "$identity" \
		-psk "$(printf '%064d' 0)" </dev/null
	((status != 0))
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "2: another session's key at the coordinator: an alert, the job succeeds" {
	make_hostfile hosts 2
	by_hostfile 0 --join-timeout 120s
	wait_listening "$PORT" "${PIDS[0]}"
	run timeout 100 openssl s_client -connect "127.0.0.1:$PORT" -tls1_3 \
		-psk_identity 'D1|00112233445566778899aabbccddeeff|1|0|0' -psk "$(printf '%064d' 0)" </dev/null
	((status != 0))
	[[ $output == *'alert handshake failure'* ]]
	by_hostfile 1 --join-timeout 120s
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "3: connections that say nothing, or HTTP, don't hurt the job" {
	local i
	make_hostfile hosts 2
	by_hostfile 0 --join-timeout 120s
	wait_listening "$PORT" "${PIDS[0]}"
	for ((i = 0; i < (LONG ? 1000 : 100); i++)); do
		: <>"/dev/tcp/127.0.0.1/$PORT"
	done
	curl -s -m 2 -o /dev/null "http://127.0.0.1:$PORT/" || true
	by_hostfile 1 --join-timeout 120s
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "3: garbage and HTTP at a data listener don't hurt the job" {
	local i data
	make_hostfile hosts 2
	free_port
	data=$PORT
	by_hostfile 1 --join-timeout 120s --listen "127.0.0.1:$data"
	by_hostfile 0 --join-timeout 120s
	for ((i = 0; i < 20; i++)); do
		{ head -c 100 /dev/urandom >"/dev/tcp/127.0.0.1/$data"; } 2>/dev/null || true
	done
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "4: 500 connections that dribble are dropped after ten seconds, the job succeeds" {
	((LONG)) || skip 'takes ten seconds: only in the long runs'
	make_hostfile hosts 2
	by_hostfile 0 --join-timeout 60s
	wait_listening "$PORT" "${PIDS[0]}"
	run "$PYTHON" "$FAULT_DIR/slowloris.py" "$PORT" 500
	echo "$output"
	((status == 0))
	by_hostfile 1 --join-timeout 60s
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "5: TLS 1.2, no PSK, other suites don't get in" {
	local options
	make_hostfile hosts 2
	by_hostfile 0 --join-timeout 120s
	wait_listening "$PORT" "${PIDS[0]}"
	for options in -tls1_2 -tls1_3 '-tls1_3 -ciphersuites TLS_AES_256_GCM_SHA384' \
		'-tls1_3 -psk_identity x -psk 00112233445566778899aabbccddeeff'; do
		# shellcheck disable=SC2086
		run timeout 8 openssl s_client -connect "127.0.0.1:$PORT" $options </dev/null
		((status != 0))
	done
	by_hostfile 1 --join-timeout 120s
	wait_ranks
	assert_ranks 2 0
}

@test "7: a rank started twice, by hostfile: the second 7, at once; the job succeeds" {
	make_hostfile hosts 3
	by_hostfile 0 --join-timeout 120s
	by_hostfile 1 --join-timeout 120s
	cp in.1.npy in.9.npy
	spawn_rank 9 "$COLLCTL" allreduce -H hosts -r 1 --secret-file "$SECRET" --join-timeout 120s in.9.npy -o out.9.npy
	# The job waits for rank 2, so what ends now is the one of the two that came second.
	wait -n "${PIDS[1]}" "${PIDS[9]}" || true
	if ! kill -0 "${PIDS[1]}" 2>/dev/null; then # swap: the first is to be rank 1
		local first=${PIDS[9]}
		PIDS[9]=${PIDS[1]}
		PIDS[1]=$first
		mv 1.err swap && mv 9.err 1.err && mv swap 9.err
	fi
	by_hostfile 2 --join-timeout 120s
	wait_ranks
	assert_rank 9 7 'rank 1'
	assert_ranks 3 0
}

@test "8: sizes differ, by hostfile: 7 on every rank, both named" {
	make_hostfile hosts 2
	by_hostfile 0 --join-timeout 120s
	by_hostfile 1 --join-timeout 120s -n 3
	wait_ranks
	assert_ranks 2 7 'rank 1: --size 3 differs from 2 on rank 0'
	assert_no_output
}

# Nobody may wait for --join-timeout, which is longer than the test.
by_store() { # R P [OPTIONS...]
	local r=$1
	spawn_rank "$r" "$COLLCTL" barrier -r "$r" -n "$2" -R "$STORE" --secret-file "$SECRET" \
		--join-timeout 10m "${@:3}"
}

@test "58: one rank has another --size: every rank ends at once with 7, rank 0 too" {
	local odd r
	start_serve
	for odd in 0 2; do
		for r in 0 1 2; do
			by_store "$r" $((r == odd ? 4 : 3))
		done
		wait_ranks
		assert_ranks 3 7 '--size' 'differs from' 'on rank 0'
	done
}

@test "58: ranks that have not come hold nobody" {
	start_serve
	by_store 0 4
	by_store 2 5
	wait_ranks
	assert_rank 0 7 'rank 2: --size 5 differs from 4 on rank 0'
	assert_rank 2 7 'rank 2: --size 5 differs from 4 on rank 0'
}

# bats test_tags=smoke
@test "45: two Slurm steps at one store, without -j, never mix" {
	local job r
	start_serve
	for r in 0 1; do
		for job in 7 8; do
			SLURM_JOB_ID=$job SLURM_STEP_ID=0 SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=2 \
				spawn_rank "$job$r" "$COLLCTL" gather -R "$STORE" --secret-file "$SECRET" \
				--dtype u8 --shape 2 <(printf '%s' "$job$r") --format raw -o "$job.raw"
		done
	done
	wait_ranks
	for r in 70 71 80 81; do
		assert_rank "$r" 0
	done
	assert_equal "$(<7.raw)" 7071
	assert_equal "$(<8.raw)" 8081
}

@test "45: a rank of another launch learns that it needs --job" {
	make_hostfile hosts 2
	PBS_JOBID=1.pbs by_hostfile 0
	PBS_JOBID=2.pbs by_hostfile 1
	wait_ranks
	assert_rank 1 6 '2.pbs' PBS_JOBID --job
	assert_rank 0 5
	# With --job they meet.
	PBS_JOBID=1.pbs by_hostfile 0 -j both --join-timeout 120s
	PBS_JOBID=2.pbs by_hostfile 1 -j both --join-timeout 120s
	wait_ranks
	assert_ranks 2 0
}

@test "46: variables of two launchers that disagree: 2, both named, and the way out" {
	local r
	start_serve
	export RANK=0 WORLD_SIZE=1
	for r in 0 1; do
		OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=2 spawn_rank "$r" "$COLLCTL" barrier \
			-R "$STORE" --secret-file "$SECRET"
	done
	wait_ranks
	assert_rank 0 2 WORLD_SIZE=1 OMPI_COMM_WORLD_SIZE=2 '--rank and --size'
	assert_rank 1 2 'torchrun (RANK=0)' 'Open MPI (OMPI_COMM_WORLD_RANK=1)' '--rank and --size'
	for r in 0 1; do
		OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=2 by_store "$r" 2
	done
	wait_ranks
	assert_ranks 2 0
}

@test "9: the stale record of a dead job is replaced" {
	start_serve
	rank 0 2 allreduce in.0.npy -o out.0.npy
	wait_record
	kill -KILL "${PIDS[0]}"
	wait_ranks
	ranks 2 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 2 0
	check_out sum 2
}

# bats test_tags=smoke
@test "10: a tampered record: 5, its MAC does not verify" {
	start_serve
	rank 0 2 allreduce in.0.npy -o out.0.npy
	wait_record
	kill -KILL "${PIDS[0]}"
	wait_ranks
	record | jq -c '.addr = "127.0.0.1:9"' >tampered
	curl -sf -o /dev/null -X PUT --data-binary @tampered "$STORE/v1/kv/$RECORD"
	rank 1 2 allreduce --join-timeout 3s in.1.npy -o out.1.npy
	wait_ranks
	assert_rank 1 5 MAC
	assert_no_output
}

@test "10: rank 0 with another secret, through a store: 5, the secrets may differ" {
	start_serve
	collctl keygen other.key
	rank 0 2 allreduce --join-timeout 8s in.0.npy -o out.0.npy
	wait_record
	SECRET=other.key rank 1 2 allreduce --join-timeout 5s in.1.npy -o out.1.npy
	wait_ranks
	assert_rank 1 5 MAC secret
	assert_rank 0 5
	assert_no_output
}

@test "10: the record with another secret is withdrawn before the rank gives up: it still says so" {
	start_serve
	collctl keygen other.key
	# Rank 1 comes first, so that the store tells it of the record at once.
	SECRET=other.key rank 1 2 allreduce --join-timeout 10s in.1.npy -o out.1.npy
	rank 0 2 allreduce --join-timeout 4s in.0.npy -o out.0.npy
	wait_ranks
	assert_rank 0 5
	assert_rank 1 5 MAC secret
	assert_no_output
}

@test "11: a store that is not there: 5, its URL named" {
	free_port
	STORE=http://127.0.0.1:$PORT
	rank 0 2 allreduce --join-timeout 2s in.0.npy -o out.0.npy
	rank 1 2 allreduce --join-timeout 2s in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 5 "127.0.0.1:$PORT"
	assert_no_output
}

@test "12: the store may die after the join" {
	start_serve --once
	ranks 3 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 0
	wait "$SERVE_PID"
	check_out sum 3
}

# bats test_tags=smoke
@test "13: a rank is missing: 5, and it is listed" {
	start_serve
	rank 0 3 allreduce --join-timeout 3s in.0.npy -o out.0.npy
	rank 2 3 allreduce --join-timeout 3s in.2.npy -o out.2.npy
	wait_ranks
	assert_rank 0 5
	assert_rank 2 5
	grep -qE '\b1\b.* did not join within .* s \(--join-timeout\)' 0.err
	assert_no_output
}

@test "13: rank 0 is missing: 5" {
	start_serve
	rank 1 3 allreduce --join-timeout 2s in.1.npy -o out.1.npy
	wait_ranks
	assert_rank 1 5 0
	assert_no_output
}

# bats test_tags=smoke
@test "14: a late rank is waited for" {
	start_serve
	rank 0 3 allreduce in.0.npy -o out.0.npy
	rank 1 3 allreduce in.1.npy -o out.1.npy
	wait_record
	rank 2 3 allreduce in.2.npy -o out.2.npy
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "14: with --insecure: a rank that has given up a dial to a stopped coordinator joins when that goes on" {
	local said
	start_serve
	spawn_rank 0 "$COLLCTL" barrier -r 0 -n 2 -R "$STORE" -j job --insecure
	wait_record
	kill -STOP "${PIDS[0]}"
	: >1.err # tail wants a file
	spawn_rank 1 "$COLLCTL" barrier -vv -r 1 -n 2 -R "$STORE" -j job --insecure
	read -r said < <(tail -f -n +1 --pid="${PIDS[1]}" 1.err | grep --line-buffered 'no answer')
	[[ $said == *'no answer'* ]]
	kill -CONT "${PIDS[0]}"
	wait_ranks
	assert_ranks 2 0
}

@test "13: a coordinator stopped beyond --join-timeout says so, and blames nobody who gave up" {
	local i trust=(--insecure "--secret-file=$SECRET")
	for i in 0 1; do # both at once; the end of rank 0's time comes while it is stopped
		make_hostfile "hosts.$i" 3
		spawn_rank "${i}0" "$COLLCTL" barrier -H "hosts.$i" -r 0 "${trust[i]}" --join-timeout 6s
		wait_listening "$PORT" "${PIDS[${i}0]}"
		kill -STOP "${PIDS[${i}0]}"
		spawn_rank "${i}1" "$COLLCTL" barrier -H "hosts.$i" -r 1 "${trust[i]}" --join-timeout 8s
	done
	for i in 0 1; do
		wait_ranks "${i}1"
		assert_rank "${i}1" 5
		kill -CONT "${PIDS[${i}0]}"
		wait_ranks "${i}0"
		assert_rank "${i}0" 5 'ranks 1, 2 did not join' 'did not run'
	done
}

@test "40: SIGTERM while joining: 143, nothing left" {
	start_serve
	rank 0 2 allreduce in.0.npy -o out.0.npy
	wait_record
	kill -TERM "${PIDS[0]}"
	wait_ranks
	assert_rank 0 143
	assert_no_output
}

@test "40: SIGTERM on a rank that waits for others to join: 143 there, 8 elsewhere" {
	local r data
	make_hostfile hosts 3
	free_port
	data=$PORT
	by_hostfile 0 --join-timeout 120s
	by_hostfile 1 --join-timeout 120s --listen "127.0.0.1:$data"
	wait_listening "$data" "${PIDS[1]}" # it listens for data once it has joined
	kill -TERM "${PIDS[1]}"
	wait_ranks 1
	assert_rank 1 143 'rank 1: ended by SIGTERM'
	by_hostfile 2 --join-timeout 120s
	wait_ranks
	for r in 0 2; do
		assert_rank "$r" 8 'rank 1: ended by SIGTERM'
	done
	assert_no_output
}

@test "a job that fails while it joins leaves the next of its name alone" {
	local r
	make_hostfile hosts 3
	make_shards 3 f32 11
	two_commands() { # R INPUT-OF-THE-FIRST
		local code=0
		"$COLLCTL" allreduce -H hosts -r "$1" --secret-file "$SECRET" "$2" -o "first.$1.npy" || code=$?
		echo "$code" >"first.$1.code"
		"$COLLCTL" allreduce -H hosts -r "$1" --secret-file "$SECRET" "in.$1.npy" -o "out.$1.npy"
	}
	# Rank 1 fails and is at its second command before rank 2 has come to the first.
	spawn_rank 0 two_commands 0 in.0.npy
	spawn_rank 1 two_commands 1 missing.npy
	until [[ -s first.1.code ]]; do :; done
	spawn_rank 2 two_commands 2 in.2.npy
	wait_ranks
	assert_ranks 3 0
	for r in 0 1 2; do
		assert_equal "$(<"first.$r.code")" 3
	done
	check_out sum 3
}

@test "a record whose address does not resolve is stale" {
	start_serve
	rank 0 2 allreduce --advertise gone.invalid in.0.npy -o out.0.npy
	wait_record
	kill -KILL "${PIDS[0]}"
	wait_ranks
	ranks 2 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 2 0
	check_out sum 2
}

@test "a rank listens on any address and publishes a real one" {
	start_serve
	rank 0 2 allreduce --listen 0.0.0.0 in.0.npy -o out.0.npy
	wait_record
	assert_equal "$(record | jq -r '.addr | sub(":.*"; "")')" 127.0.0.1
	rank 1 2 allreduce --listen 0.0.0.0 in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "40: SIGTERM while rank 0 is looked for: 143, and told as JSON" {
	start_serve
	mkfifo started
	rank 1 2 allreduce --json --join-timeout 60s in.1.npy -o out.1.npy
	# It has asked the store, and waits there for an answer.
	until [[ $(cat "/proc/${PIDS[1]}/wchan" 2>/dev/null) == *poll* ]]; do :; done
	kill -TERM "${PIDS[1]}"
	wait_ranks
	assert_rank 1 143 'ended by SIGTERM'
	assert_equal "$(json 1.out '[.ok, .error.code] | @json')" '[false,143]'
}

@test "40: SIGINT as a rank makes its request, before it is welcome: 130, and the others hear of it" {
	local k
	need_sysfault
	no_leak_check
	make_hostfile hosts 2
	for k in 2 3; do # the listeners for data; the first is the link to rank 0
		by_hostfile 0 -v
		until grep -q 'coordinates the job' 0.err; do kill -0 "${PIDS[0]}"; done
		spawn_rank 1 "$SYSFAULT" signal=2 "$k" socket -- "$COLLCTL" allreduce -H hosts -r 1 --secret-file "$SECRET" in.1.npy -o out.1.npy
		wait_ranks
		assert_rank 1 130 'ended by SIGINT'
		assert_rank 0 8 'rank 1: ended by SIGINT'
		rm 0.err
	done
	assert_no_output
}

@test "81: 80 HELLOs of another version that stay open, and 64 descriptors: the honest rank joins" {
	make_hostfile hosts 2
	mkfifo ready
	(
		ulimit -n 64
		exec "$COLLCTL" allreduce -H hosts -r 0 --insecure in.0.npy -o out.0.npy
	) 3>&- >0.out 2>0.err &
	PIDS[0]=$! STARTED+=($!)
	"$PYTHON" -B "$FAULT_DIR/guests.py" "$PORT" 80 3 ready 3>&- 2>guests.err &
	STARTED+=($!)
	read -r -t 60 <ready || fail "$(<guests.err)"
	spawn_rank 1 "$COLLCTL" allreduce -H hosts -r 1 --insecure in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}
