#!/usr/bin/env bats
# check: every link is tested and measured, and rank 0 prints them.

load helpers

# bats test_tags=smoke
@test "1, 2, 3 and 7 ranks: every link works, and only rank 0 prints" {
	local size
	for size in 1 2 3 7; do
		run -0 --separate-stderr collctl run -n "$size" -- check --time 5ms
		assert_equal "$(grep -cE "^# $size ranks?, TLS" <<<"$output")" 1
		assert_equal "$stderr" ''
		((size == 1)) || assert_line --regexp '^TLS handshake: median .* [mu]s, longest .* [mu]s: rank [0-6] -> rank [0-6]$'
		((size == 1)) || assert_equal "$(grep -cE '^ +[0-9]+( +(-|[0-9.]+))+$' <<<"$output")" $((2 * size + 2))
	done
}

# bats test_tags=smoke
@test "--json: each ordered pair of ranks once, with figures" {
	collctl run -n 4 -- check --time 5ms --json >all.json
	assert_equal "$(wc -l <all.json)" 4
	jq -c 'select(.links)' all.json >rank0.json
	assert_equal "$(json rank0.json '.rank, .size, .ok, .error')" $'0\n4\ntrue\nnull'
	assert_equal "$(json rank0.json '[.links[] | select(.from != .to) | .from * 4 + .to] | unique | length')" 12
	assert_equal "$(json rank0.json '.links | length')" 12
	json rank0.json '.links | map(.state == "works" and .why == null and .bandwidth > 0 and
		.round_trip.min > 0 and .round_trip.median >= .round_trip.min and
		.connect > 0 and .handshake > 0) | all' | grep -qx true
	json rank0.json '.median | .bandwidth > 0 and .round_trip > 0 and .connect > 0 and .handshake > 0' | grep -qx true
}

@test "--insecure; --rank auto" {
	run -0 --separate-stderr collctl run -n 3 -- check --time 5ms --insecure
	assert_line --regexp '^# 3 ranks, plain TCP'
	assert_line --regexp '^connect: median [0-9.]+ [mu]s, longest [0-9.]+ [mu]s: rank [0-2] -> rank [0-2]$'
	refute_output --partial handshake
	collctl run -n 2 -- check --time 5ms --insecure --json >all.json
	jq -c 'select(.links)' all.json >rank0.json
	json rank0.json '.median.handshake == null and (.links | map(.connect > 0 and .handshake == null) | all)' | grep -qx true
	make_secret
	start_serve
	for r in 0 1 2; do spawn_rank "$r" "$COLLCTL" check -n 3 -r auto --time 5ms -R "$STORE" --secret-file "$SECRET"; done
	wait_ranks
	assert_ranks 3 0
	assert_equal "$(cat 0.out 1.out 2.out | grep -c '^# 3 ranks')" 1
}

@test "more than 16 ranks: a character for each link" {
	run -0 --separate-stderr collctl run -n 18 -- check --time 2ms
	assert_equal "$(grep -cE '^ +[0-9]+ [ █▓▒░]+$' <<<"$output")" 18
	refute_output --partial 'x'$'\n'
}

# bats test_tags=smoke
@test "a link that is slower than demanded: 8 on every rank; it still works, and its figures are there" {
	run -8 --separate-stderr collctl run -n 3 -- check --time 5ms --min-bandwidth 100000Gbit
	assert_equal "$(grep -c '6 links failed: less than --min-bandwidth: rank 0 .*<-> rank 1' <<<"$stderr")" 3
	assert_line --regexp '^ +0 +- +[0-9.]+ +[0-9.]+$'
	run -8 --separate-stderr collctl run -n 2 -- check --time 5ms --max-latency 1us
	assert_equal "$(grep -c '2 links failed: longer than --max-latency' <<<"$stderr")" 2
	collctl run -n 2 -- check --time 5ms --min-bandwidth 1kbit --max-latency 1m >out
	collctl run -n 2 -- check --time 5ms --max-latency 1us --json >all.json || true
	jq -c 'select(.links)' all.json >rank0.json
	assert_equal "$(json rank0.json '.ok, .error.code, .links[0].state, .links[0].why')" \
		$'false\n8\ntoo slow\nlonger than --max-latency'
}

@test "--svg: a picture with a cell for each link and figure; the old one stays if it can't be written" {
	local size
	for size in 1 2 4 20; do
		collctl run -n "$size" -- check --time 2ms --svg "links.$size.svg" >out
		"$PYTHON" - "links.$size.svg" "$size" <<-'END'
			import sys, xml.etree.ElementTree as tree
			svg, size = tree.parse(sys.argv[1]).getroot(), int(sys.argv[2])
			assert svg.tag == "{http://www.w3.org/2000/svg}svg"
			cells = [g for g in svg.iter("{http://www.w3.org/2000/svg}g")]
			assert len(cells) == 2 * size * (size - 1), len(cells)
			assert all(g.find("{*}title").text.startswith("rank ") for g in cells)
			# The legends stand beside each other: each ends before the next one, and in the picture.
			notes = [t for t in svg.iter("{http://www.w3.org/2000/svg}text") if "or better" in t.text]
			room = [float(notes[1].get("x")) - 128, float(svg.get("width"))]
			assert all(float(t.get("x")) + 7 * len(t.text) < r for t, r in zip(notes, room, strict=True))
			assert all(", TLS handshake " in g.find("{*}title").text for g in cells)
		END
	done
	collctl run -n 2 -- check --time 2ms --svg - >out
	cmp <(head -c 4 out) <(printf '<svg')
	run -2 collctl run -n 2 -- check --time 2ms --json --svg -
	mkdir folder
	run -4 --separate-stderr collctl run -n 2 -- check --time 2ms --svg folder
	all_say 'folder'
	run -4 --separate-stderr collctl run -n 2 -- check --time 2ms --svg missing/links.svg
	all_say 'missing'
}

@test "--tuning-out: rates that plan and the collectives take; measurements stay" {
	collctl run -n 2 -- bench allreduce -b 4K -e 4K --iters 2 --tuning-out tune.json >out
	local measured
	measured=$(jq -c .measured tune.json)
	collctl run -n 3 -- check --time 5ms --tuning-out tune.json >out
	assert_equal "$(jq -c .measured tune.json)" "$measured"
	collctl run -n 3 -- check --time 5ms --tuning-out new.json --json >all.json
	jq -c 'select(.links)' all.json >rank0.json
	jq -e --argjson trip "$(json rank0.json .median.round_trip)" \
		'.rates.latency * 2 / $trip | . > 0.9999 and . < 1.0001' new.json # six digits are written
	jq -e --argjson rate "$(json rank0.json .median.bandwidth)" \
		'(.rates.egress * $rate - 1 | fabs) < 1e-3 and .rates.ingress == .rates.egress' new.json
	collctl plan allreduce -n 4 --tuning new.json >plan.txt
	echo broken >tune.json
	run -3 --separate-stderr collctl run -n 2 -- check --time 2ms --tuning-out tune.json
	assert_equal "$(<tune.json)" broken
}

# bats test_tags=smoke
@test "rates and times that are none are refused, and operands" {
	local rate
	for rate in 0 -1 1.5G Mbit 10Xbit 1Gbits 1G/m 99999999999Tbit ''; do
		run -2 --separate-stderr collctl check -n 2 --min-bandwidth "$rate"
		[[ $stderr == *"--min-bandwidth: '$rate' is not a rate"* ]] || fail "$stderr"
	done
	run -2 collctl check -n 2 --time 0
	run -2 collctl check -n 2 in.npy
	for rate in 100Mbit 1Gbit/s 10M 125000000 100kbit 8bit; do # only the ranks are missing
		run -2 --separate-stderr collctl check -n 2 --min-bandwidth "$rate"
		[[ $stderr != *min-bandwidth* ]] || fail "$stderr"
	done
}

@test "a rank whose command is not check: 7" {
	make_secret
	start_serve
	rank 0 2 check
	rank 1 2 barrier
	wait_ranks
	assert_ranks 2 7 check barrier
}

# by_hand SIZE RANK...: check with those ranks of SIZE, to their ends
by_hand() {
	local size=$1 r
	shift
	make_secret
	start_serve
	for r; do rank "$r" "$size" check --time 5ms --join-timeout 2s --json --svg links.svg; done
	wait_ranks
}

# bats test_tags=smoke
@test "by hand, one of three or two of four never come: the others are tested, and the missing ones named: 8" {
	by_hand 3 0 2
	for r in 0 2; do
		assert_rank "$r" 8 'collctl: rank 1: did not join within 2 s (--join-timeout)'
		assert_equal "$(json "$r.out" '.size, .missing, .error.code, .error.rank' | jq -c .)" $'3\n[1]\n8\n1'
		assert_equal "$(wc -l <"$r.err")" 1
	done
	assert_equal "$(json 0.out '[.links[] | "\(.from)-\(.to) \(.state)"] | join(" ")')" '0-2 works 2-0 works'
	json 0.out '.links | map(.bandwidth > 0 and .round_trip.median > 0) | all' | grep -qx true
	grep -q '<title>rank 2  to rank 0 ' links.svg
	grep -q 'check: 2 of 3 ranks' links.svg
	make_hostfile hosts 4
	for r in 0 3; do
		spawn_rank "$r" "$COLLCTL" check --time 5ms --join-timeout 2s -H hosts -r "$r" --secret-file "$SECRET"
	done
	wait_ranks 0 3
	for r in 0 3; do assert_rank "$r" 8 'ranks 1, 2 did not join within 2 s'; done
	grep -q '^# 2 of 4 ranks, TLS' 0.out
	grep -qx 'did not join: ranks 1, 2' 0.out
	assert_equal "$(grep -cE '^ +[03]( +(-|[0-9.]+)){2}$' 0.out)" 4
}

@test "by hand, a link that fails is said before a rank that is missing: 8" {
	make_secret
	start_serve
	for r in 0 1; do rank "$r" 3 check --time 5ms --join-timeout 2s --max-latency 1us --json; done
	wait_ranks
	assert_ranks 2 8 'longer than --max-latency'
	assert_equal "$(json 1.out .missing | jq -c .)" '[2]'
}

@test "by hand, nobody but rank 0, or all but rank 0: 5, and which it is" {
	by_hand 4 0
	assert_rank 0 5 'collctl: rank 0: none of the other 3 ranks joined within 2 s (--join-timeout)'
	make_hostfile hosts 3
	for r in 1 2; do
		spawn_rank "$r" "$COLLCTL" check --join-timeout 500ms -H hosts -r "$r" --secret-file "$SECRET"
	done
	wait_ranks 1 2
	for r in 1 2; do assert_rank "$r" 5 'rank 0: not found within 0.5 s (--join-timeout)'; done
}

@test "--hosts-out: the hosts that reach each other, as a hostfile" {
	local name
	name=$(collctl run -n 2 -- check --time 2ms --hosts-out hosts 2>&1 >out | grep -o 'hosts: 1 of 1 hosts reach each other')
	assert_equal "$name" 'hosts: 1 of 1 hosts reach each other'
	assert_equal "$(wc -l <hosts)" 1
	grep -qx '[A-Za-z0-9].* slots=2' hosts
	# each rank its own host, by the names of the hostfile; the file is written though links are too slow
	# shellcheck disable=SC2016
	COLLCTL_BIN=$COLLCTL collctl run -n 2 -- sh -c 'COLLCTL_HOST_ID=n$COLLCTL_RANK exec "$COLLCTL_BIN" check --time 2ms --hosts-out hosts.$COLLCTL_RANK' \
		>out 2>err || [[ $? == 2 ]]
	grep -F -- '--hosts-out: the names of all 2 hosts are' err
	[[ ! -e hosts.0 ]]
	run -8 --separate-stderr collctl run -n 2 -- check --time 2ms --max-latency 1us --hosts-out hosts
	[[ $stderr == *'hosts: 0 of 1 hosts reach each other'* ]] || fail "$stderr"
	[[ -e hosts && ! -s hosts ]]
	run -2 collctl check -n 2 --hosts-out -
	assert_output --partial "--hosts-out: - is not a file: give the name of one"
	run -2 collctl check -n 1 --hosts-out same --tuning-out ./same
	assert_output --partial same
	run -2 collctl allreduce -n 1 --hosts-out x in.npy -o out.npy
}
