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

@test "--barrier: every collective, every algorithm, over memory and TLS; all ranks must give it" {
	local kind lanes
	for lanes in memory tcp; do
		for kind in $(collctl algorithms | awk '/^[a-z]/ { print $1 }' | grep -vx -e collective -e exchange | sort -u); do
			collctl run -n 3 -- bench "$kind" -a all -b 4 -e 40K -f 100 -w 1 --iters 3 --check --barrier \
				--lanes $lanes --csv >out
			# shellcheck disable=SC2016 # awk's own
			run -0 awk -F, 'NR > 1 && $11 != 0 { exit 1 } END { exit NR < 2 }' out
		done
	done
	collctl run -n 2 -- bench scan -b 4K -e 4K --iters 2 --barrier >out
	grep -q '^# .*; a barrier before each iteration$' out
	collctl run -n 2 -- bench scan -b 4K -e 4K --iters 2 --tuning-out tuning >out
	grep -q '^# .*; a barrier before each iteration$' out
	# shellcheck disable=SC2016 # the shell's own
	run -7 collctl run -n 2 -- sh -c 'exec "$0" bench scan -b 4K -e 4K $([ $COLLCTL_RANK = 1 ] || echo --barrier)' "$COLLCTL"
	assert_output --partial -- '--barrier not given differs from given (or implied by --tuning-out) on rank 0'
}

@test "a tuning file may be a pipe, and what is none is named; a file that cannot be written fails before a measurement" {
	local name option held
	bench=(bench allreduce -b 4K -e 4K -w 0 --iters 1)
	"$PYTHON" -c 'import numpy; numpy.save("in.npy", numpy.arange(6.))'
	collctl run -n 2 -- "${bench[@]}" --tuning-out tuning >out
	collctl allreduce -n 1 in.npy -o out.npy --tuning <(head -c 100 tuning && tail -c +101 tuning)
	cmp in.npy out.npy
	mkfifo pipe
	mkdir folder
	refused() { # refused CODE WHAT ARGUMENTS
		run -"$1" --separate-stderr collctl run -n 2 -- "${@:3}"
		[[ $stderr == *"$2"* ]] || fail "$stderr"
		assert_output ''
	}
	: >pipe &
	refused 3 'pipe: is not a tuning file: line 1: ' allreduce in.npy -o out.npy --tuning pipe
	wait $!
	refused 3 'in.npy: is not a tuning file: line 1: ' "${bench[@]}" --tuning in.npy
	refused 3 'folder: is a directory: expected a file' "${bench[@]}" --tuning folder
	refused 3 'nothing: cannot open: No such file' "${bench[@]}" --tuning nothing
	if ((LONG)); then
		refused 3 'pipe: nothing has come from this pipe for 10 s' allreduce in.npy -o out.npy --tuning pipe
		exec {held}<>pipe # so that it does not end after a whole tuning file
		cat tuning >&"$held"
		run -3 collctl allreduce -n 1 in.npy -o out.npy --tuning pipe
		assert_output --partial 'pipe: nothing has come from this pipe for 10 s'
		exec {held}>&-
	fi
	for name in pipe folder nowhere/x /dev/null; do
		for option in --tuning-out --svg; do
			refused 4 "$name: " "${bench[@]}" $option $name
			refused 4 "$name: " check --time 1ms $option $name
		done
		refused 4 "$name: " check --time 1ms --hosts-out $name
	done
	[[ -p pipe && -z $(ls -A folder) ]]
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
	assert_output --partial -- '--maxbytes 5120 differs from 4096'
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

# check_chart PICTURE JSON: a circle for each row of rank 0 with a size, lines, names and colours apart
check_chart() {
	"$PYTHON" - "$@" <<-'E'
		import collections, json, math, re, sys, xml.etree.ElementTree as tree
		svg, job = tree.parse(sys.argv[1]).getroot(), json.load(open(sys.argv[2]))
		rows = [r for r in job["ranks"][0]["rows"] if r["size"]]
		number = r"([0-9.e+-]+)"
		words = re.compile(rf"{number} (bytes|[KMG]iB) by (\w+)( \(\d+\))?: median {number} (us|ms), "
		                   rf"algbw {number} GB/s, busbw {number} GB/s")
		scale = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "us": 1e-6, "ms": 1e-3}
		drawn = []
		for c in svg.findall(".//{*}circle"):
		    if c.find("{*}title") is None:
		        continue
		    t = words.fullmatch(c.find("{*}title").text)
		    assert t, c.find("{*}title").text
		    drawn.append((float(t[1]) * scale[t[2]], t[3], float(t[5]) * scale[t[6]], float(t[7]), float(t[8]),
		                  float(c.get("cx")), float(c.get("cy"))))
		want = sorted((r["size"], r["algorithm"], r["seconds"]["p50"], r["algbw"], r["busbw"]) for r in rows)
		near = lambda a, b: a == b if isinstance(a, str) else math.isclose(a, b, rel_tol=2e-2)
		# Rows of one size and algorithm are in any order.
		key = lambda d: (d[0], d[1], d[2])
		got = sorted(drawn, key=key)
		assert len(got) == len(want), (len(got), len(want))
		for g, w in zip(got, want):
		    assert all(near(a, b) for a, b in zip(g, w)), (g, w)
		# Higher is better; right is larger.
		for a in drawn:
		    for b in drawn:
		        assert a[0] >= b[0] or a[5] < b[5], (a, b)
		        assert a[4] * 1.02 >= b[4] or a[6] >= b[6], (a, b)
		names = {g.find("{*}text").text: g for g in svg.findall(".//{*}g")}
		assert {re.sub(r" \(\d+\)", "", n) for n in names} == {r["algorithm"] for r in rows}, names
		places = sorted(float(g.find("{*}text").get("y")) for g in names.values())
		assert all(b - a >= 14 for a, b in zip(places, places[1:])), places
		colours = [g.find("{*}path").get("class") for g in names.values()]
		assert len(set(colours)) == len(colours), colours
		assert all(": " in g.find("{*}title").text for g in names.values())
		print(len(names))
	E
}

# bats test_tags=smoke
@test "--svg: a picture of every row, a line for each algorithm, that needs nothing from elsewhere" {
	local args lines
	while read -r lines args; do
		# shellcheck disable=SC2086 # several words
		collctl run --json -n 2 -- bench $args -w 0 --iters 2 --svg bench.svg >rows.json </dev/null
		xmllint --noout bench.svg
		check_chart bench.svg rows.json >found || fail "$args"
		((lines == 0 || $(<found) == lines)) || fail "$args: $(<found) lines"
		grep -q 'prefers-color-scheme: dark' bench.svg
		run -1 grep -E 'href|<script|@import|url\([^#]' bench.svg
		assert_equal "$(grep -o 'http[^"]*' bench.svg)" http://www.w3.org/2000/svg
	done <<-'END'
		1 allreduce -a ring_chunked -b 1K -e 64K
		3 allgather -a ring,bruck,direct -b 3000 -e 90000 -f 3
		2 broadcast -a binomial,binomial -b 4K -e 4K
		1 alltoall -a direct -b 1 -e 64K -f 16
		0 allreduce -a all --allow-divergent -b 64 -e 64K -f 8 --dtype i32
		0 allreduce -b 64 -e 1M -f 64
	END
	collctl run -n 2 -- bench allreduce -w 0 --iters 1 -b 1 -e 2 --svg none.svg >out # no element
	xmllint --noout none.svg
}

@test "--svg: beside the table, or in its place; the old picture stays if it can't be written" {
	local bench=(bench allreduce -b 4K -e 4K -w 0 --iters 1)
	collctl run -n 2 -- "${bench[@]}" --svg bench.svg >out
	assert_equal "$(awk '!/^#/ { print $1 }' out)" 4096
	collctl run -n 2 -- "${bench[@]}" --svg - >out
	xmllint --noout out
	local form
	for form in --csv --json; do
		run -2 --separate-stderr collctl run -n 2 -- "${bench[@]}" "$form" --svg -
		all_say "$form and --svg - both write to stdout"
	done
	run -2 --separate-stderr collctl run -n 2 -- bench barrier --svg bench.svg
	all_say 'a barrier has no bandwidth; remove --svg'
	mkdir folder
	run -4 --separate-stderr collctl run -n 2 -- "${bench[@]}" --svg folder
	all_say 'rank 0: folder'
	run -4 --separate-stderr collctl run -n 2 -- "${bench[@]}" --svg missing/bench.svg
	all_say 'rank 0: missing'
	echo old >bench.svg
	run -2 collctl run -n 2 -- "${bench[@]}" -a nonsense --svg bench.svg
	assert_equal "$(cat bench.svg)" old
}

@test "the heading says how the ranks are connected" {
	local way
	for way in 'memory' 'TLS --lanes tcp' 'plain TCP --lanes tcp --insecure'; do
		# shellcheck disable=SC2046 # options are words
		run -0 --separate-stderr collctl run -n 2 -- bench allreduce -b 1K -e 1K $(grep -o -- '--.*' <<<"$way" || true)
		assert_line --index 0 "# allreduce of 2 ranks, ${way%% --*}, 20 iterations after 5 for warm-up"
	done
}
