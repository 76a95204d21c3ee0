# Network namespaces for tests: net_open P makes P hosts 10.77.0.1 ... on a bridge, in namespaces
# $NET-0 ..., and wan_open makes hosts that are far from each other; `on R COMMAND...` runs a command on
# host R. net_close takes them away. Where they can't be had the test is skipped.
# shellcheck shell=bash

NET='' NET_SIZE=0

net_close() {
	local r
	[[ -n $NET ]] || return 0
	for ((r = 0; r < NET_SIZE; r++)); do
		ip netns del "$NET-$r" 2>/dev/null || true
	done
	ip netns del "$NET-s" 2>/dev/null || true
	NET=''
}

net_address() { echo "10.77.0.$(($1 + 1))"; }

on() { ip netns exec "$NET-$1" "${@:2}"; }

net_make() {
	local r
	ip netns add "$NET-s" && ip -n "$NET-s" link add bridge0 type bridge && ip -n "$NET-s" link set bridge0 up || return
	for ((r = 0; r < NET_SIZE; r++)); do
		ip netns add "$NET-$r" &&
			ip -n "$NET-$r" link add eth0 type veth peer name "p$r" netns "$NET-s" &&
			ip -n "$NET-s" link set "p$r" master bridge0 up &&
			ip -n "$NET-$r" addr add "$(net_address "$r")/24" dev eth0 &&
			ip -n "$NET-$r" link set eth0 up && ip -n "$NET-$r" link set lo up || return
	done
}

# wan_make OPTION...: a router, and from each host a line to it
wan_make() {
	local r
	ip netns add "$NET-s" && on s sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' || return
	for ((r = 0; r < NET_SIZE; r++)); do
		ip netns add "$NET-$r" && mkfifo "line.$r" || return
		"${COLLCTL%/*}/bench/delay_line" "$@" --seed "$r" "$NET-$r" eth0 "$NET-s" "p$r" >"line.$r" 3>&- &
		STARTED+=($!)
		read -r <"line.$r" &&
			ip -n "$NET-$r" addr add "$(net_address "$r")/32" dev eth0 &&
			ip -n "$NET-$r" link set eth0 up && ip -n "$NET-$r" link set lo up &&
			ip -n "$NET-$r" route add default dev eth0 &&
			ip -n "$NET-s" link set "p$r" up && ip -n "$NET-s" route add "$(net_address "$r")" dev "p$r" || return
	done
}

# net_begin P COMMAND...: P hosts that COMMAND makes; and the hostfile
net_begin() {
	local r
	NET=cc$BASHPID.$RANDOM NET_SIZE=$1
	"${@:2}" 2>net.err || {
		net_close
		skip "network namespaces can't be had here: $(<net.err)"
	}
	for ((r = 0; r < NET_SIZE; r++)); do net_address "$r"; done >hosts
}

net_open() { net_begin "$1" net_make; }

# wan_open P OPTION...: P hosts, each with a line of its own to a router; the options are those of
# delay_line.c in tests/bench
wan_open() {
	[[ -x ${COLLCTL%/*}/bench/delay_line ]] || skip "no ${COLLCTL%/*}/bench/delay_line: make unit"
	[[ -c /dev/net/tun ]] || skip 'no /dev/net/tun here'
	net_begin "$1" wan_make "${@:2}"
}

# shaped R RATE QUEUE: what host R sends goes through a token bucket: tbf's rate and limit
shaped() {
	tc -n "$NET-$1" qdisc replace dev eth0 root tbf rate "$2" burst 5k limit "$3" 2>net.err ||
		skip "links can't be shaped here: $(<net.err)"
}

# filter R BYTECODE: classic BPF over the packets that come from host R, at the switch and from the
# Ethernet header on; its answer 2 drops the packet, 4294967295 asks the next filter
filter() {
	tc -n "$NET-s" qdisc add dev "p$1" clsact 2>/dev/null || true # there already
	tc -n "$NET-s" filter add dev "p$1" ingress bpf da bytecode "$2" 2>net.err ||
		skip "packets can't be dropped here: $(<net.err)"
}

# drop_to R PEER: what host R sends to PEER is lost
drop_to() {
	filter "$1" "4,32 0 0 30,21 0 1 $((0x0a4d0000 + $2 + 1)),6 0 0 2,6 0 0 4294967295"
}

# drop_full R PEER: what host R sends to PEER in packets of 1000 bytes and more is lost
drop_full() {
	filter "$1" "6,32 0 0 30,21 0 3 $((0x0a4d0000 + $2 + 1)),40 0 0 16,53 0 1 1000,6 0 0 2,6 0 0 4294967295"
}

# lossy R: one packet in 16 that host R sends is lost
lossy() { filter "$1" '5,32 0 0 4294963256,84 0 0 15,21 0 1 0,6 0 0 2,6 0 0 4294967295'; }

# net_rank R COMMAND [ARGS...]: rank R of a job of the hosts, on host R, by the hostfile
net_rank() {
	spawn_rank "$1" ip netns exec "$NET-$1" "$COLLCTL" "${@:2}" -H hosts -r "$1" --secret-file "$SECRET"
}

net_ranks() {
	local r
	for ((r = 0; r < NET_SIZE; r++)); do net_rank "$r" "$@"; done
	wait_ranks
}
