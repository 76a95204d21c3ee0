#!/usr/bin/env bats
# bench: its table, CSV and JSON, checked values, tuning files, and errors.

load helpers

# bats test_tags=smoke
@test "the table has nccl-tests' columns, a row a size" {
	collctl run -n 2 -- bench allreduce -b 1K -e 16K -f 4 -w 1 --iters 3 --check >out
	grep -q '^# .*size .*count .*type .*op .*algorithm .*time (us).*algbw .*busbw .*#wrong' out
	assert_equal "$(awk '!/^#/ { print $1, $2, $3, $4, NF, $NF }' out)" \
		$'1024 256 f32 sum 11 0\n4096 1024 f32 sum 11 0\n16384 4096 f32 sum 11 0'
}

@test "only rank 0 prints; --label shows whose lines they are" {
	collctl run --label -n 3 -- bench barrier --iters 2 -w 0 >out
	run -1 grep -v '^\[0\]' out
}

# bats test_tags=smoke
@test "every algorithm of every collective has no wrong element, also where sizes don't divide" {
	local kind steps
	for kind in $(collctl algorithms | awk '/^[a-z]/ { print $1 }' | grep -vx collective | sort -u); do
		[[ $kind == exchange ]] && steps=(--steps 1) || steps=()
		for n in 4 3; do
			((n == 4)) || [[ $kind != exchange ]] || continue
			collctl run -n $n -- bench "$kind" "${steps[@]}" -a all -b 4 -e 4100 -f 1025 -w 1 --iters 2 --check \
				--root 1 --csv --insecure >out
			# shellcheck disable=SC2016 # awk's own
			run -0 awk -F, 'NR > 1 && $11 != 0 { exit 1 } END { exit NR < 2 }' out
		done
	done
}

@test "operations and types are verified too" {
	local opts
	for opts in '--op avg --dtype f16' '--op prod --dtype bf16' '--op min --dtype i8' '--op bxor --dtype u64' \
		'--op max --dtype f64' '--op sum --dtype i16' \
		'--op sum --dtype c64' '--op avg --dtype c128' '--op sum --dtype bool' '--op sum --dtype f8e5m2'; do
		# shellcheck disable=SC2086 # several words
		collctl run -n 3 -- bench allreduce -a all $opts -b 1002 -e 1002 -w 0 --iters 1 --check --csv >out
		# shellcheck disable=SC2016 # awk's own
		run -0 awk -F, 'NR > 1 && $11 != 0 { exit 1 } END { exit NR < 5 }' out
	done
}

@test "CSV: a line of names, numbers that fit together" {
	collctl run -n 4 -- bench allgather -a ring,bruck -b 64K -e 64K -w 1 --iters 4 --csv >out
	"$PYTHON" - out <<-'E'
		import csv, sys
		rows = list(csv.DictReader(open(sys.argv[1])))
		assert [r["algorithm"] for r in rows] == ["ring", "bruck"], rows
		for r in rows:
		    assert (r["size"], r["count"], r["type"], r["op"], r["wrong"]) == ("65536", "4096", "f32", "none", "")
		    assert 0 < float(r["min_us"]) <= float(r["p50_us"]) <= float(r["p99_us"])
		    assert abs(float(r["algbw"]) - 65536 / float(r["p50_us"]) / 1e3) < 1e-3 * float(r["algbw"]) + 1e-5
		    assert abs(float(r["busbw"]) - 0.75 * float(r["algbw"])) < 1e-5
	E
}

# long_numbers FILE...: numbers with more than 6 significant digits that are not integers
long_numbers() {
	jq -r '.. | numbers | select(. != floor) | tostring | sub("e.*"; "") | gsub("[-.]"; "") | sub("^0+"; "") |
		select(length > 6)' "$@"
}

@test "JSON: what is measured has at most 6 digits" {
	collctl run -n 2 --json -- bench barrier --iters 9 --tuning-out rates.json >bench.json
	make_shards 2 f32 1000
	collctl run -n 2 --json -- allreduce --progress json 'in.{rank}.npy' -o 'out.{rank}.npy' >job.json 2>progress.json
	assert_equal "$(long_numbers bench.json job.json progress.json rates.json)" ''
}

@test "JSON: one value, the same rows from every rank" {
	collctl run --json -n 2 -- bench reduce-scatter -b 4K -e 16K -w 0 --iters 2 --check >out
	"$PYTHON" - out <<-'E'
		import json, sys
		job = json.load(open(sys.argv[1]))
		assert job["ok"] and job["size"] == 2
		a, b = job["ranks"]
		assert (a["command"], a["collective"], a["rank"], b["rank"]) == ("bench", "reduce-scatter", 0, 1)
		assert a["rows"] == b["rows"] and [r["size"] for r in a["rows"]] == [4096, 16384]
		assert all(r["wrong"] == 0 and r["seconds"]["min"] <= r["seconds"]["p99"] for r in a["rows"])
	E
}

@test "a tuning file is written, added to and chosen by" {
	collctl run -n 2 -- bench allreduce -a ring_chunked -b 4K -e 4K --iters 2 --tuning-out tuning >/dev/null
	collctl run -n 2 -- bench allreduce -b 4K -e 4K -w 0 --iters 1 --tuning tuning --csv >out
	assert_equal "$(awk -F, 'NR == 2 { print $5 }' out)" ring_chunked
	collctl run -n 2 -- bench broadcast -a binomial -b 4K -e 4K --iters 2 --tuning-out tuning >/dev/null
	"$PYTHON" - tuning <<-'E'
		import json, sys
		t = json.load(open(sys.argv[1]))
		assert [m["collective"] for m in t["measured"]] == ["allreduce", "broadcast"], t
		assert all(v > 0 for m in t["measured"] for v in m["times"].values())
	E
}

@test "what it refuses" {
	run -2 collctl bench gossip -n 1
	assert_output --partial "'gossip' is not a collective"
	run -2 collctl bench allreduce -n 1 -b 2M -e 1M
	run -2 collctl bench allreduce -n 1 --json --csv
	run -2 collctl bench allreduce -n 1 -a nonsense
	assert_output --partial nonsense
	run -2 collctl bench allreduce -n 1 --op band
	assert_output --partial 'band is not defined on f32'
	run -2 collctl bench scan -n 1 --op avg
	assert_output --partial 'avg is not defined for scan'
	run -2 collctl bench allreduce -n 1 -a ring
	assert_output --partial --allow-divergent
	run -2 collctl bench broadcast -n 1 --root 1
	run -2 collctl bench exchange -n 1
	assert_output --partial --steps
	collctl bench allreduce -n 1 -a ring --allow-divergent -e 4K --check
	collctl bench allreduce -n 1 -a ring --dtype i32 -e 4K --check
}

@test "ranks that would measure something else disagree" {
	# shellcheck disable=SC2016 # for the ranks' shells
	run -7 collctl run -n 2 -- sh -c 'exec "$0" bench allreduce -e "$((4 + COLLCTL_RANK))K"' "$COLLCTL"
	assert_output --partial '-e 5120'
}

@test "ranks whose tuning files choose otherwise in a late case disagree" {
	local algorithms r names=(circulant bcube)
	algorithms=$(printf 'direct,%.0s' {1..80})auto
	for r in 0 1; do
		printf '{"version": 1, "measured": [{"collective": "allreduce", "size": 2, "secure": true,
			"bytes": 4096, "times": {"%s": 1}}]}\n' "${names[r]}" >tuning.$r
	done
	# shellcheck disable=SC2016 # for the ranks' shells
	run -7 collctl run -n 2 -- sh -c 'exec "$0" bench allreduce -b 4K -e 4K -w 0 --iters 1 \
		--tuning "tuning.$COLLCTL_RANK" -a "$1"' "$COLLCTL" "$algorithms"
	assert_output --partial 'algorithms direct direct'
	# shellcheck disable=SC2016
	run -7 collctl run -n 2 -- sh -c '[ "$COLLCTL_RANK" = 0 ] || export COLLCTL_TUNING=tuning.1
		exec "$0" bench allreduce -b 4K -e 4K -w 0 --iters 1' "$COLLCTL"
	assert_output --partial '--tuning given differs from not given'
}

@test "a bench and a collective are not taken for one another" {
	# shellcheck disable=SC2016 # for the ranks' shells
	run -7 collctl run -n 2 -- sh -c '
		case $COLLCTL_RANK in
		0) exec "$0" bench broadcast -e 4K ;;
		1) exec "$0" barrier ;;
		esac' "$COLLCTL"
	assert_output --partial 'collective barrier differs from bench broadcast'
}
