#!/usr/bin/env bats
# Links that fail while `check` looks at them, over hosts of their own. Numbers are the rows of the
# table of faults.

load ../cli/helpers
load nets

teardown() {
	net_close
	common_teardown
}

# says_line REGEX: rank 0 prints such a line
says_line() { grep -qE -e "$1" 0.out || fail "no line '$1': $(<0.out)"; }

@test "63: pairs cut off one way and both, full-size packets lost, a slow link: each is named in one run" {
	net_open 6
	make_secret
	drop_to 1 3
	drop_to 3 1
	drop_full 0 2
	ip -n "$NET-5" route add unreachable 10.77.0.5/32 # rank 5 can't dial rank 4, nor answer it
	shaped 4 2mbit 20k
	net_ranks check --timeout 6s --time 300ms --json
	assert_ranks 6 8 'links failed: ' 'rank 0 (10.77.0.1) -> rank 2 (10.77.0.3)' 'full-size packets do not arrive' \
		'no answer for 6 s: rank 1 (10.77.0.2) <-> rank 3 (10.77.0.4)' 'No route to host'
	state() { json 0.out ".links[] | select(.from == $1 and .to == $2) | .state"; }
	assert_equal "$(state 0 2)" 'large packets lost'
	assert_equal "$(state 2 0)" works
	assert_equal "$(state 1 3),$(state 3 1)" 'timed out,timed out'
	assert_equal "$(state 5 4)" 'no route'
	assert_equal "$(json 0.out '[.links[] | select(.state != "works")] | length')" 5
	json 0.out '.findings[]' >found
	grep -qE '^rank 0.* -> rank 2.*: fails, the way back works: connected, but full-size packets' found
	grep -qE '^rank 1.* <-> rank 3.*: fails both ways: no answer' found
	json 0.out '[.links[] | select(.from == 4 and .bandwidth) | .bandwidth < 500000] | all' | grep -qx true
	grep -qE '^rank 4.*: sends at [123][0-9.]* Mbit/s' found
}

@test "63: a rank whose links all fail but those with rank 0 is named in one line" {
	net_open 5
	make_secret
	for r in 1 2 4; do drop_to 3 "$r"; done
	net_ranks check --timeout 4s --time 50ms
	assert_ranks 5 8 '6 links failed: '
	says_line '^rank 3.*: all its links fail, but those with rank 0'
	run ! grep '<->' 0.out
}

@test "63: another secret on one rank: 6, and it is named" {
	net_open 3
	make_secret
	"$COLLCTL" keygen other
	net_rank 0 check --join-timeout 6s
	net_rank 1 check --join-timeout 6s
	spawn_rank 2 ip netns exec "$NET-2" "$COLLCTL" check -H hosts -r 2 --secret-file other --join-timeout 6s
	wait_ranks
	assert_rank 2 6
	assert_rank 0 5
	grep -q 'rank 2' 0.err
}

@test "63: a host that answers nobody does not join: 5, and it is named" {
	net_open 3
	make_secret
	drop_to 2 0
	net_ranks check --join-timeout 4s
	assert_rank 0 5
	assert_rank 1 5
	grep -q 'rank 2' 0.err
	grep -q 'rank 2' 1.err
}

@test "63: a rank that dies while links are measured: 8, and it is named" {
	net_open 3
	make_secret
	for r in 0 1 2; do shaped "$r" 50mbit 50k; done
	for r in 0 1 2; do net_rank "$r" check --timeout 6s --time 60s; done
	until (($(on 1 cat /sys/class/net/eth0/statistics/tx_bytes) > 2000000)); do
		kill -0 "${PIDS[1]}"
	done
	kill -KILL "${PIDS[2]}"
	wait_ranks
	assert_rank 0 8 2
	assert_rank 1 8 2
}

@test "63: a link that breaks while it is measured: 8, the link named, the others measured" {
	net_open 3
	make_secret
	for r in 0 1 2; do shaped "$r" 50mbit 50k; done
	for r in 0 1 2; do net_rank "$r" check --timeout 3s --time 3s --json; done
	until (($(on 1 cat /sys/class/net/eth0/statistics/tx_bytes) > 2000000)); do
		kill -0 "${PIDS[1]}"
	done
	drop_to 1 2
	wait_ranks
	assert_ranks 3 8 'links failed: ' 'rank 1 (10.77.0.2)' 'rank 2 (10.77.0.3)'
	json 0.out '[.links[] | select(.from == 0 or .to == 0) | .state == "works" and .bandwidth > 0] | all' | grep -qx true
}
