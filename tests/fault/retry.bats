#!/usr/bin/env bats
# --retry: a job that has lost a rank or a link begins again. Numbers are the rows of the table of faults.

load ../cli/helpers
load fault


setup() {
	common_setup
	make_secret
	make_shards 3 f32 1000000
	for r in 0 1 2; do
		echo old >"out.$r.npy"
	done
}

# try_rank R [OPTION...]: rank R of the job; that of rank 1 gets its data through the proxy, if there is one
try_rank() {
	local through=()
	(($1 != 1)) || through=("${THROUGH[@]}")
	spawn_rank "$1" "$COLLCTL" allreduce -a ring_chunked --streams 1 --memory 8M "${MEET[@]}" -r "$1" -n 3 --secret-file "$SECRET" \
		"in.$1.npy" -o "out.$1.npy" "${through[@]}" "${@:2}"
}

# start_held [OPTION...]: three ranks by $MEET, stopped in the middle of the run; `resume` lets them go on
start_held() {
	local r
	hold_data 1000000
	for r in 0 1 2; do
		try_rank "$r" "$@"
	done
	read -r -t 60 <held
}

by_store() {
	start_serve
	MEET=(-R "$STORE")
}

by_hostfile() {
	make_hostfile hosts 3
	MEET=(-H hosts)
}

# the process that is the rank now
try_of() { pgrep -P "${PIDS[$1]}"; }

# lost_and_back R: kill rank R in the middle, start it again
lost_and_back() {
	start_held --retry 1
	kill -KILL "$(try_of "$1")"
	wait_ranks "$1"
	assert_rank "$1" 137
	resume
	try_rank "$1"
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
	for r in 0 1 2; do
		((r == $1)) || assert_rank "$r" 0 "rank $1: lost while data were moving" 'the job begins again (try 2 of 2)'
	done
}

# bats test_tags=smoke
@test "66: a rank killed in the middle and started again, by a store: every rank has the result" {
	by_store
	lost_and_back 2
}

@test "66: the same by a hostfile" {
	by_hostfile
	lost_and_back 1
}

@test "66: rank 0 killed in the middle and started again, by a store and by a hostfile" {
	by_store
	lost_and_back 0
	by_hostfile
	lost_and_back 0
}

# bats test_tags=smoke
@test "66: a link is reset more often than a job goes back, all ranks live: they begin again by themselves" {
	local r
	by_store
	data_through reset 1500 --times 9
	for r in 0 1 2; do
		try_rank "$r" --retry 2 --json
	done
	wait_ranks
	assert_ranks 3 0 'the job begins again (try 2 of 3)'
	check_out sum 3
	for r in 0 1 2; do
		assert_equal "$(json "$r.out" .ok)" true
	done
}

@test "66: the secret in the environment, an output on stdout, and one in place of the input" {
	local r
	by_hostfile
	data_through reset 1500 --times 9
	cp in.0.npy inplace.npy
	for r in 0 1 2; do
		local through=() out=out.$r.npy in=in.$r.npy
		((r != 1)) || through=("${THROUGH[@]}")
		((r != 2)) || out=-
		((r != 0)) || in=inplace.npy out=inplace.npy
		spawn_rank "$r" env COLLCTL_SECRET="$(<"$SECRET")" "$COLLCTL" allreduce -a ring_chunked --streams 1 --memory 8M \
			"${MEET[@]}" -r "$r" -n 3 "$in" -o "$out" "${through[@]}" --retry 1
	done
	wait_ranks
	assert_ranks 3 0 'try 2 of 2'
	mv inplace.npy out.0.npy
	mv 2.out out.2.npy
	check_out sum 3
}

@test "66: a hangup of the terminal ends a job" {
	need_terminal
	by_store
	run "$PYTHON" - "$COLLCTL" "$STORE" "$SECRET" <<-'END'
		import os, pty, signal, sys
		collctl, store, secret = sys.argv[1:]
		pid, fd = pty.fork()
		if pid == 0:
		    signal.signal(signal.SIGHUP, signal.SIG_DFL)
		    os.execv(collctl, [collctl, *f"barrier -n 4 -r 1 -R {store} -j other --retry 3 -v --secret-file {secret}".split()])
		sent = b""
		while b"phase join" not in sent and b"meeting at" not in sent:
		    sent += os.read(fd, 4096)
		os.close(fd)  # the kernel sends SIGHUP to the leader of the session
		print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	END
	assert_output 129
}

@test "66: the tries are used up: 8 or 9, the outputs are the old ones, one JSON value" {
	local r
	by_hostfile
	data_through reset 1000000
	kill "$PROXY_PID"
	for r in 0 1 2; do
		try_rank "$r" --retry 2 --timeout 3s --json
	done
	wait_ranks
	for r in 0 1 2; do
		((RC[r] == 8 || RC[r] == 9)) || fail "rank $r: ${RC[r]}"
		assert_rank "$r" "${RC[r]}" 'try 2 of 3' 'try 3 of 3' 'rank 1'
		[[ $(<"$r.err") != *'try 4'* ]]
		assert_equal "$(json "$r.out" .error.code)" "${RC[r]}"
		assert_equal "$(<"out.$r.npy")" old
	done
}

@test "66: the lost rank does not come back: 5, it is named" {
	by_store
	start_held --retry 5 --join-timeout 3s
	kill -KILL "$(try_of 2)"
	resume
	wait_ranks
	assert_rank 2 137
	assert_rank 0 5 'rank 2: did not join within 3 s'
	assert_rank 1 5 'rank 2: did not join within 3 s'
}

@test "66: other failures are no reason to begin again" {
	by_store
	echo broken >in.1.npy
	for r in 0 1 2; do
		try_rank "$r" --retry 5
	done
	wait_ranks
	assert_ranks 3 3 'in.1.npy'
	[[ $(cat ./*.err) != *'begins again'* ]]
}

# bats test_tags=smoke
@test "66: SIGTERM ends the try and the waiting, SIGKILL leaves nothing behind" {
	local living
	by_store
	mkfifo alive
	cat alive 3>&- & # as long as some process of the job lives
	living=$!
	exec 7>alive
	start_held --retry 5
	exec 7>&-
	kill -TERM "${PIDS[0]}"
	wait_ranks 0
	assert_rank 0 143 'rank 0: ended by SIGTERM'
	kill -KILL "${PIDS[1]}"
	wait_ranks 1
	assert_rank 1 137
	kill -HUP "${PIDS[2]}"
	wait_ranks 2
	assert_rank 2 129
	kill "${STARTED[1]}" # the proxy
	wait "$living"
}

@test "66: what can be read only once: 2, by name" {
	collctl -q ca init pki
	collctl -q ca issue pki --rank 0
	mkfifo pipe
	run -2 --separate-stderr collctl allreduce -n 1 --retry 1 - -o out.npy <in.0.npy
	[[ $stderr == *'--retry: the input - can be read only once'* ]]
	run -2 --separate-stderr collctl allreduce -n 1 --retry 1 pipe -o out.npy
	[[ $stderr == *'--retry: the input pipe can be read only once'* ]]
	run -2 --separate-stderr collctl barrier -n 1 --retry 1 --secret-fd 5 5<job.key
	[[ $stderr == *'--retry: --secret-fd can be read only once'* ]]
	run -2 --separate-stderr collctl barrier -n 1 --retry 1 --tls-key-password-fd 5
	[[ $stderr == *'--retry: --tls-key-password-fd can be read only once'* ]]
	run -0 collctl allreduce -n 1 --retry 1 in.0.npy -o out.npy
}
