#!/usr/bin/env bats
# --congestion: TCP's congestion control of what a rank sends to others.

load helpers

# Sets OTHER_NAME to a congestion control that is not reno, which connections inside a machine have without the option
find_other() {
	for OTHER_NAME in cubic bbr; do
		! "$COLLCTL" barrier -q -n 1 --congestion "$OTHER_NAME" || return 0
	done
	skip 'this user may choose reno alone'
}

# controls_of PID: the congestion controls of its established connections, each once
controls_of() {
	ss -Htinp state established | grep -A1 "pid=$1," | grep -owE 'reno|cubic|bbr' | sort -u | paste -sd' '
}

@test "each rank chooses that of its data connections and control links" {
	find_other
	make_hostfile hosts 2
	make_secret
	local job=(bench allreduce -H hosts --secret-file "$SECRET" --lanes tcp -b 4 -e 4 --iters 1000000 -v)
	spawn_rank 0 "$COLLCTL" "${job[@]}" -r 0 --congestion "$OTHER_NAME"
	spawn_rank 1 "$COLLCTL" "${job[@]}" -r 1
	# Until all connections are made.
	until grep -q 'phase run' 0.err && grep -q 'phase run' 1.err; do
		kill -0 "${PIDS[0]}" "${PIDS[1]}" || fail "$(<0.err) $(<1.err)"
	done
	assert_equal "$(controls_of "${PIDS[0]}") / $(controls_of "${PIDS[1]}")" "$OTHER_NAME / reno"
	kill -TERM "${PIDS[@]}"
	wait_ranks
	grep -F "using the congestion control $OTHER_NAME (--congestion)" 0.err
	! grep -F 'using the congestion control' 1.err || fail "$(<1.err)"
}

# bats test_tags=smoke
@test "a name that the kernel lacks is an error before anything is opened" {
	run -2 --separate-stderr collctl barrier -n 2 -r 0 -R http://192.0.2.1:1 --insecure --congestion no-such-name
	[[ $stderr == *"--congestion: this kernel has no congestion control 'no-such-name'; it has: $(</proc/sys/net/ipv4/tcp_available_congestion_control) "* ]]
	run -2 --separate-stderr collctl barrier -n 1 --congestion ''
	[[ $stderr == *'--congestion: its value is empty'* ]]
	COLLCTL_CONGESTION=no-such-name run -2 --separate-stderr collctl barrier -n 1
	[[ $stderr == *"'no-such-name'"* ]]
	collctl barrier -n 1 --congestion no-such-name --congestion reno # the last one counts
	COLLCTL_CONGESTION=reno collctl barrier -n 1 -v 2>err
	grep -F 'using the congestion control reno (COLLCTL_CONGESTION)' err
}

@test "a name that is for root alone" {
	another_user
	local name allowed
	allowed=$(</proc/sys/net/ipv4/tcp_allowed_congestion_control)
	for name in $(</proc/sys/net/ipv4/tcp_available_congestion_control); do
		[[ " $allowed " != *" $name "* ]] || continue
		run -2 --separate-stderr "${AS_OTHER[@]}" "$OTHER/collctl" barrier -n 1 --congestion "$name"
		[[ $stderr == *"--congestion: this kernel allows '$name' only to root; others may use: $allowed"* ]]
		return
	done
	skip 'this kernel allows all that it has'
}
