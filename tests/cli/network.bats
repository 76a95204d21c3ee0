#!/usr/bin/env bats
# What is known of the network before an algorithm is chosen: --link-rate, interfaces, round trips.

load helpers

setup() {
	common_setup
}

# on_hosts N ARG...: a job of N ranks, each on its own host; rank R adds the arguments $LINK_R
on_hosts() {
	local n=$1
	shift
	# shellcheck disable=SC2016
	COLLCTL_BIN=$COLLCTL collctl run -n "$n" -- bash -c 'x=LINK_$COLLCTL_RANK
		COLLCTL_HOST_ID=n$COLLCTL_RANK exec "$COLLCTL_BIN" "$@" ${!x-}' - "$@"
}

# bats test_tags=smoke
@test "each host's rates are told, priced and reported, with their source" {
	make_shards 3 f32 1000
	export LINK_0='--link-rate 400Mbit' LINK_1='--link-rate 400Mbit' LINK_2='--link-rate 200Mbit,100Mbit --limit-rate 150Mbit'
	on_hosts 3 allreduce --json --explain 'in.{rank}.npy' -o 'out.{rank}.npy' >j 2>err
	check_out sum 3
	grep -F 'the link of the hosts of ranks 0, 1: sends 400 Mbit/s, receives 400 Mbit/s (--link-rate)' err
	grep -F 'the link of the host of rank 2: sends 200 Mbit/s, receives 100 Mbit/s (--link-rate), sends at most 150 Mbit/s (--limit-rate)' err
	grep -F 'the longest round trip is ' err
	jq -es 'sort_by(.rank) | map(.network.rate) == [{up: 50000000, down: 50000000}, {up: 50000000, down: 50000000}, {up: 25000000, down: 12500000}]' j
	jq -es 'map(.network.from) == ["--link-rate", "--link-rate", "--link-rate"]' j
	jq -es 'sort_by(.rank) | .[0].network.rtt == null and .[1].network.rtt > 0' j
}

@test "without --explain -v tells; a host without a rate counts as the slowest; ranks of a host may disagree" {
	make_shards 3 f32 1000
	export LINK_1='--link-rate 1Gbit'
	on_hosts 3 allreduce -v 'in.{rank}.npy' -o 'out.{rank}.npy' 2>err
	grep -F 'rank 0: the link of the host of rank 1: sends 1 Gbit/s, receives 1 Gbit/s (--link-rate)' err
	grep -F 'rank 0: the link of the hosts of ranks 0, 2: not known; counts as the slowest that is known' err
	[[ $(grep -c 'the link of' err) == 2 ]] # rank 0 alone tells
	# on one host there is no network
	collctl run -n 3 -- allreduce -v --force --link-rate 1Gbit 'in.{rank}.npy' -o 'out.{rank}.npy' 2>err
	! grep -F 'the link of' err || false
	collctl run -n 2 -- broadcast --json --force --link-rate 1Gbit in.0.npy -o 'b.{rank}.npy' >j
	jq -es 'map(has("network")) == [false, false]' j
}

@test "rates that are none" {
	local bad
	for bad in '' ',' '1Gbit,' ',1Gbit' 1Gbit,2Gbit,3Gbit 0 1 -1Gbit 1Gbit,0 fast 99999999999999999999999999999999Gbit; do
		run -2 collctl allreduce -n 1 --link-rate "$bad" in.npy -o out.npy
		assert_output --partial "--link-rate: '$bad' is not a rate of at least 1K, such as 1Gbit, or two"
	done
}

# ---- unequal links ----

@test "auto takes weighted where links differ, and a slow host adds nothing" {
	make_shards 4 f32 200,1000
	export LINK_0='--link-rate 1Gbit' LINK_1='--link-rate 1Gbit' LINK_2='--link-rate 1Gbit' LINK_3='--link-rate 100Mbit'
	on_hosts 4 allreduce --json --explain --memory 128K 'in.{rank}.npy' -o 'out.{rank}.npy' >j 2>err
	check_out sum 4
	grep -E 'weighted +.* predicted, chosen: the fastest by formula' err
	jq -es 'map(.algorithm) | unique == ["weighted"]' j
	# rank 3 sends its vector once, and receives the result
	(($(jq -s '.[] | select(.rank == 3) | .bytes_sent' j) == 800000))
	# the bits do not depend on the cuts
	unset LINK_3
	on_hosts 4 allreduce --json --force -a weighted 'in.{rank}.npy' -o 'even.{rank}.npy' >j
	(($(jq -s '.[] | select(.rank == 3) | .bytes_sent' j) == 1200000))
	cmp out.0.npy even.0.npy
}

@test "auto takes weighted for a broadcast where hosts send slowly; a slow root sends its vector once" {
	make_shards 4 f32 200,1000
	export LINK_{1,2,3}='--link-rate 40Mbit,200Mbit' LINK_0='--link-rate 200Mbit'
	on_hosts 4 broadcast --json --explain --memory 128K in.0.npy -o 'out.{rank}.npy' >j 2>err
	for r in 0 1 2 3; do cmp in.0.npy "out.$r.npy"; done
	grep -E 'weighted +.* predicted, chosen: the fastest by formula' err
	jq -es 'map(.algorithm) | unique == ["weighted"]' j
	# all send for as long: rank 0 five times as much as each of the others
	jq -es 'sort_by(.rank) | map(.bytes_sent) | .[0] / .[3] | . > 4.5 and . < 5.5' j
	on_hosts 4 broadcast --json --force --root 2 -a weighted 'in.{rank}.npy' -o 'out.{rank}.npy' >j
	for r in 0 1 2 3; do cmp in.2.npy "out.$r.npy"; done
	(($(jq -s '.[] | select(.rank == 2) | .bytes_sent' j) == 800000))
	# where no link differs, a chain is as good
	export LINK_{0,1,2,3}='--link-rate 100Mbit'
	on_hosts 4 broadcast --json --force --explain in.0.npy -o 'out.{rank}.npy' >j 2>err
	jq -es 'map(.algorithm) | unique != ["weighted"]' j
	grep -E 'weighted +.* predicted, is for links that differ' err
}

@test "ranks of one host receive a weighted broadcast from the first of them" {
	make_shards 7 f16 3001
	export LINK_0='--link-rate 1Gbit' LINK_4='--link-rate 50Mbit,1Gbit'
	# shellcheck disable=SC2016
	COLLCTL_BIN=$COLLCTL collctl run -n 7 -- bash -c 'x=LINK_$COLLCTL_RANK
		COLLCTL_HOST_ID=n$((COLLCTL_RANK % 3)) exec "$COLLCTL_BIN" "$@" ${!x-}' - \
		broadcast --json --root 5 -a weighted 'in.{rank}.npy' -o 'out.{rank}.npy' >j
	for r in 0 1 2 3 4 5 6; do cmp in.5.npy "out.$r.npy"; done
	jq -es 'map(.algorithm) | unique == ["weighted"]' j
	collctl run -n 2 -- broadcast --force -a weighted in.0.npy -o 'out.{rank}.npy' 2>err
	grep -F 'weighted falls back to' err
}

@test "ranks of one host add first, but not in rank order" {
	local a
	make_shards 5 f16 3001
	export LINK_0='--link-rate 1Gbit' LINK_4='--link-rate 50Mbit'
	for a in --op=max --op=avg --order=rank; do
		# shellcheck disable=SC2016
		COLLCTL_BIN=$COLLCTL collctl run -n 5 -- bash -c 'x=LINK_$COLLCTL_RANK
			COLLCTL_HOST_ID=n$((COLLCTL_RANK / 2)) exec "$COLLCTL_BIN" "$@" ${!x-}' - \
			allreduce --json --force -a weighted "$a" 'in.{rank}.npy' -o 'out.{rank}.npy' >j 2>err
		if [[ $a == --order=rank ]]; then
			check_out sum 5 --order rank
			jq -es 'map(.algorithm) | unique == ["weighted"]' j
		else
			check_out "${a#--op=}" 5
			jq -es 'map(.algorithm) | unique == ["weighted_hosts"]' j
			grep -F 'weighted falls back to weighted_hosts' err
		fi
	done
}

@test "bench chooses and cuts by the links" {
	export LINK_0='--link-rate 1Gbit' LINK_1='--link-rate 1Gbit' LINK_2='--link-rate 200Mbit'
	on_hosts 3 bench allreduce --check --csv -b 1M -e 1M -w 0 --iters 1 >out
	grep -F ,weighted, out
	on_hosts 3 bench allreduce --check --csv -b 4K -e 64K -f 16 -w 0 --iters 1 -a auto,weighted,direct >out
	(($(grep -c -F ,weighted, out) >= 2))
}

@test "plan --rates shows it offline" {
	local bad
	collctl plan allreduce -n 4 --bytes 16M --rates 400Mbit,400Mbit,400Mbit,200Mbit:100Mbit --verify --json >p
	jq -e '.algorithm == "weighted" and .verified' p
	# rank 3 owns nothing
	jq -e '[.ranks[3].steps[] | select(.op == "recv" or .op == "recv_reduce")] | length == 3' p
	collctl plan allreduce --hosts 4x2 --bytes 16M --rates 400Mbit,400Mbit,400Mbit,200Mbit --verify --json >p
	jq -e '.algorithm == "weighted_hosts" and .verified' p
	collctl plan broadcast -n 4 --bytes 16M --root 1 --rates 100Mbit,100Mbit,20Mbit:100Mbit,20Mbit:100Mbit --verify --json >p
	jq -e '.algorithm == "weighted" and .verified' p
	collctl plan broadcast -n 4 --bytes 16M --rates 400Mbit,400Mbit,400Mbit,200Mbit --json >p
	jq -e '.algorithm != "weighted"' p
	run -0 collctl plan allreduce -n 3 --rates 1M,1M,2M --compare
	assert_line --partial '; TLS, links of --rates'
	for bad in 1M,1M 1M,1M,1M,1M 1M; do
		run -2 collctl plan allreduce -n 3 --rates "$bad"
		assert_output --partial "--rates: there are "
	done
	for bad in '' x 1M,,1M 1M:2M:3M,1M,1M 0,1M,1M; do
		run -2 collctl plan allreduce -n 3 --rates "$bad"
		assert_output --partial "--rates: '$bad' is not a list of rates, such as"
	done
	run -2 collctl plan allreduce -n 3 --host-cpus 2 --rates 1M,1M,1M
	assert_output --partial '--rates and --host-cpus'
}
