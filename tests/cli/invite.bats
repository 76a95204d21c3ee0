#!/usr/bin/env bats
# collctl invite: one ticket for all ranks of a job.

load helpers

setup() {
	common_setup
	"$PYTHON" -c 'import numpy
for r in range(3): numpy.save(f"in.{r}.npy", numpy.arange(1000.) + r)'
	unset COLLCTL_TICKET
}

# invite ...: in the background; the ticket is in the file ticket once this returns
invite() {
	mkfifo ready
	"$COLLCTL" invite --advertise 127.0.0.1 "$@" >ready 2>invite.err 3>&- &
	STARTED+=($!)
	INVITE=$!
	read -r TICKET <ready || fail "$(<invite.err)"
	rm ready
}

# invited ...: the same with a command, whose stdout is the file invite.out
invited() {
	rm -f line
	"$COLLCTL" invite --advertise 127.0.0.1 "$@" >invite.out 2> >(tee invite.err | grep --line-buffered '^COLLCTL_TICKET' >line) 3>&- &
	STARTED+=($!)
	INVITE=$!
	until [[ -s line ]]; do kill -0 "$INVITE" || fail "$(<invite.err)"; done
	TICKET=$(sed -E 's/^COLLCTL_TICKET=([^ ]*) .*/\1/' line)
}

# bats test_tags=smoke
@test "three ranks with nothing but the ticket; a fourth and a later one are refused; it ends in a minute" {
	local r
	invite -n 3
	for r in 0 1 2; do
		COLLCTL_TICKET=$TICKET spawn_rank "$r" "$COLLCTL" allreduce --op avg "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 3 0
	check_numpy avg out.0.npy out.1.npy out.2.npy --in in.0.npy in.1.npy in.2.npy
	grep -q 'all 3 ranks have joined; this ends in a minute' invite.err
	COLLCTL_TICKET=$TICKET run -5 collctl barrier
	assert_output "collctl: the ticket has been used: all ranks of its job have joined; 'collctl invite' makes a new one"
	kill -TERM "$INVITE"
	local rc=0
	wait "$INVITE" || rc=$?
	assert_equal "$rc" 143
	COLLCTL_TICKET=$TICKET run -5 collctl barrier --join-timeout 200ms
	assert_line --index 0 --partial "cannot connect: Connection refused: does 'collctl invite' run there?"
}

@test "run starts some of the invited ranks" {
	invite -n 3
	(umask 077 && echo "$TICKET" >file)
	COLLCTL_TICKET=$TICKET spawn_rank 2 "$COLLCTL" barrier -r 2
	collctl run -n 2 -- barrier -n 3 --ticket-file file
	wait_ranks
	assert_rank 2 0
}

@test "with a command the inviter is rank 0, prints the line to paste, and ends as the command" {
	local rc=0
	invited -n 2 -- collctl gather in.0.npy -o 'all of them.npy'
	grep -qF "collctl gather in.0.npy -o 'all of them.npy'" line
	# The line itself, which names the root, on another machine.
	mkdir other
	cp in.1.npy other/in.0.npy
	(cd other && bash -c "PATH=${COLLCTL%/*}:\$PATH; $(<../line)")
	wait "$INVITE" || rc=$?
	assert_equal "$rc" 0
	"$PYTHON" -c 'import numpy
assert (numpy.load("all of them.npy") == numpy.concatenate([numpy.load("in.0.npy"), numpy.load("in.1.npy")])).all()'
	assert_equal "$(cat invite.out)" ''
	COLLCTL_TICKET=$TICKET run -5 collctl barrier
	assert_output --partial 'the ticket has been used: all ranks of its job have joined'
	invited -n 2 --valid 1h -- allreduce nosuch.npy -o out.npy
	COLLCTL_TICKET=$TICKET run -3 collctl allreduce in.1.npy -o out.1.npy
	rc=0
	wait "$INVITE" || rc=$?
	assert_equal "$rc" 3
	COLLCTL_TICKET=$TICKET run -5 collctl barrier
	assert_output --partial 'the job of the ticket has ended'
}

@test "what answers for a minute after the command keeps no file of others; a signal ends all" {
	local rc=0
	mkfifo inherited
	cat inherited 3>&- &
	STARTED+=($!)
	exec 9>inherited
	invited -n 2 -- barrier --join-timeout 1ms
	exec 9>&-
	wait "$INVITE" || rc=$?
	assert_equal "$rc" 5
	wait "${STARTED[0]}" # nobody has it open any more
	COLLCTL_TICKET=$TICKET run -5 collctl barrier
	assert_output --partial "the job of the ticket has ended; 'collctl invite' makes a new one"
	# Nothing stays on a port that the user has named, nor after a mistake in the command.
	free_port
	rc=0
	# shellcheck disable=SC2153 # free_port sets it
	invited -n 2 --listen "127.0.0.1:$PORT" -- barrier --join-timeout 1ms
	wait "$INVITE" || rc=$?
	assert_equal "$rc" 5
	COLLCTL_TICKET=$TICKET run -5 collctl barrier --join-timeout 200ms
	assert_output --partial 'Connection refused'
	invited -n 2 -- barrier
	kill -TERM "$INVITE"
	rc=0
	wait "$INVITE" || rc=$?
	assert_equal "$rc" 143
	COLLCTL_TICKET=$TICKET run -5 collctl barrier --join-timeout 200ms
	assert_output --partial 'Connection refused'
}

@test "the ticket comes from a private file, or from stdin; what it says is not said again" {
	invite -n 1
	umask 077
	echo " $TICKET" >ticket
	run -2 collctl barrier --ticket-file ticket -R http://127.0.0.1:1
	assert_output --partial '--rendezvous: the ticket says where and how the ranks meet'
	run -2 collctl barrier --ticket-file ticket --insecure
	run -2 collctl barrier --ticket-file ticket -j name
	run -2 collctl barrier --ticket-file ticket -n 4
	assert_output --partial '--size 4: the ticket is for a job of 1 ranks'
	run -2 collctl barrier --ticket-file ticket --ticket-file ticket
	run -2 collctl barrier --ticket-file - <<<"${TICKET%?????}"
	assert_output --partial 'the ticket is not whole, or was mistyped'
	[[ $output != *"${TICKET:10:20}"* ]]
	run -6 collctl barrier --ticket-file /dev/null
	chmod 644 ticket
	run -6 collctl barrier --ticket-file ticket
	assert_output --partial 'mode 0644 lets other users read or write it'
	collctl barrier --ticket-file - <<<"$TICKET"
}

@test "an expired ticket is refused, and ends the inviter with 5" {
	invite -n 2 --valid 1s
	until grep -q 'the ticket has expired before all 2 ranks had joined' invite.err; do kill -0 "$INVITE"; done
	COLLCTL_TICKET=$TICKET run -5 collctl barrier
	assert_output --partial "the ticket has expired, by the inviter's clock"
	kill "$INVITE"
}

@test "a job that fails before all have joined does not use the ticket up" {
	local rc=0
	invite -n 2
	COLLCTL_TICKET=$TICKET "$COLLCTL" allreduce nosuch.npy -o out.0.npy -r 0 2>fails.err 3>&- &
	STARTED+=($!)
	COLLCTL_TICKET=$TICKET run -3 collctl allreduce in.1.npy -o out.1.npy -r 1
	wait "${STARTED[-1]}" || rc=$?
	assert_equal "$rc" 3
	refute grep 'have joined' invite.err
	COLLCTL_TICKET=$TICKET spawn_rank 0 "$COLLCTL" allreduce in.0.npy -o out.0.npy
	COLLCTL_TICKET=$TICKET spawn_rank 1 "$COLLCTL" allreduce in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 0
	check_numpy sum out.0.npy out.1.npy --in in.0.npy in.1.npy
	COLLCTL_TICKET=$TICKET run -5 collctl barrier
	assert_output --partial 'the ticket has been used'
	kill "$INVITE"
}

@test "with --listen of one address the ticket has that address, at a free port" {
	mkfifo ready
	"$COLLCTL" invite -n 1 --listen 127.0.0.1 >ready 2>invite.err 3>&- &
	STARTED+=($!)
	INVITE=$!
	read -r TICKET <ready || fail "$(<invite.err)"
	COLLCTL_TICKET=$TICKET collctl barrier
	assert [ "$(ss -Htlnp | awk -v pid="pid=$INVITE," 'index($0, pid) { print $4 }')" != 127.0.0.1:8500 ]
	kill "$INVITE"
}

@test "a stranger without the ticket cannot write to the store" {
	invite -n 2
	local port
	port=$(ss -Htlnp | awk -v pid="pid=$INVITE," 'index($0, pid) { n = split($4, a, ":"); print a[n] }' | head -1)
	assert_equal "$(curl -s -o body -w '%{http_code}' -X PUT -d x "http://127.0.0.1:$port/v1/kv/collctl/x")" 403
	kill "$INVITE"
}

@test "usage" {
	run -2 collctl invite
	assert_output --partial 'no size: give --size'
	run -2 collctl invite -n 2 -- serve
	assert_output --partial 'serve: is no command of a job'
	run -2 collctl invite -n 70000
	run -2 collctl invite -n 2 --valid 0s
	run -2 collctl invite -n 2 --valid 900000h
	assert_output --partial '--valid: a ticket can be valid until the year 2106'
	run -2 collctl invite -n 2 --advertise :80
	assert_output --partial 'names no host'
	run -2 collctl invite -n 2 --json -- barrier
	assert_output --partial 'give --json after barrier'
	run -2 --separate-stderr collctl invite -n 2 --json -- barrier
	jq -e '.command == "invite" and .ok == false and .error.code == 2' <<<"$output"
	# The ticket replaces what the environment says of the meeting; a far end has its date.
	COLLCTL_SIZE=3 COLLCTL_JOB=j COLLCTL_RENDEZVOUS=http://127.0.0.1:1 COLLCTL_SECRET_FILE=nosuch \
		collctl invite -n 1 --advertise 127.0.0.1 --valid 48h -- barrier 2>far.err
	grep -qE 'until [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8};' far.err
	invite -n 2 --json
	jq -e '.ok and .size == 2 and (.ticket | startswith("cc1-")) and .expires > 1700000000' <<<"$TICKET"
	kill "$INVITE"
}
