#!/usr/bin/env bats
# Links that fail while `check` looks at them, over hosts of their own. Numbers are the rows of the
# table of faults.

load ../cli/helpers
load fault
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
	grep -qE '^rank 0.* -> rank 2.*: fails, the reverse direction works: connected, but full-size packets' found
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
	says_line '^rank 3.*: all its links fail, except those with rank 0'
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
	assert_rank 0 8
	grep -q 'rank 2' 0.err
}

@test "63: a host that answers nobody does not join: 5, and it is named" {
	net_open 3
	make_secret
	drop_to 2 0
	net_ranks check --join-timeout 4s
	assert_rank 0 8
	assert_rank 1 8
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

@test "63: a host of two ranks whose links to other hosts fail, but those with rank 0's: named in one line" {
	local r
	need_hosts
	net_open 4
	make_secret
	for r in 0 1 2 3; do echo "$(net_address "$r") slots=2"; done >hosts
	drop_to 3 1
	drop_to 3 2
	for r in {0..7}; do
		spawn_rank "$r" on_host "node$((r / 2))" ip netns exec "$NET-$((r / 2))" \
			"$COLLCTL" check -H hosts -r "$r" --secret-file "$SECRET" --timeout 4s --time 20ms
	done
	wait_ranks
	assert_ranks 8 8 '16 links failed: '
	says_line '^host node3 \(ranks 6, 7\): all its links with other hosts fail, except those with host node0 \(ranks 0, 1\)$'
	run ! grep -E '<->| -> .*fails|^rank [0-9].*fail' 0.out
}

# proxied R PROXY_ARGUMENTS...: what other ranks send to rank R goes through a proxy. Sets AT[R], the
# options of that rank.
proxied() {
	free_port
	start_proxy "$PORT" "${@:2}"
	AT[$1]="--listen 127.0.0.1:$PORT --advertise 127.0.0.1:$PROXY"
}

# check_proxied P TIMEOUT
check_proxied() {
	local r
	start_serve
	for ((r = 0; r < $1; r++)); do
		# shellcheck disable=SC2086
		spawn_rank "$r" "$COLLCTL" check -n "$1" -r "$r" -R "$STORE" --secret-file "$SECRET" \
			--timeout "$2" --time 10ms --json ${AT[r]:-}
	done
	wait_ranks
}

# state FROM TO: of that link, and why it fails
state() { json 0.out ".links[] | select(.from == $1 and .to == $2) | .state, .why"; }

@test "63: bytes that are changed in each TLS handshake, and after each: the states differ" {
	local AT=()
	make_secret
	# The randoms of ServerHello and ClientHello, and a byte of the data.
	proxied 1 flip 160 --down --on every
	proxied 2 flip 160 --on every
	proxied 3 flip 240000 --on every
	check_proxied 4 3s
	assert_ranks 4 8 '9 links failed: ' 'the TLS handshake failed: ' 'TLS: the secrets differ, for 3 s'
	for r in 0 2 3; do
		state "$r" 1 | tee -a states | grep -qx TLS
		grep -qE '^the TLS handshake failed: .*, for 3 s$' states
	done
	for r in 0 1 3; do assert_equal "$(state "$r" 2)" $'TLS\nTLS: the secrets differ, for 3 s'; done
	for r in 0 1 2; do assert_equal "$(state "$r" 3 | head -n 1)" 'wrong bytes'; done
	for r in 1 2 3; do assert_equal "$(state "$r" 0)" $'works\nnull'; done
	json 0.out '[.links[] | (.state == "works") == (.connect != null and .handshake != null)] | all' | grep -qx true
}

@test "63: the first connection of a link works, the next one does not: the link fails" {
	local AT=()
	make_secret
	proxied 1 flip 160 --down --on later
	check_proxied 2 4s
	assert_ranks 2 8 '1 link failed: the TLS handshake failed: '
	assert_equal "$(state 0 1 | head -n 1)" TLS
	assert_equal "$(state 1 0)" $'works\nnull'
}
