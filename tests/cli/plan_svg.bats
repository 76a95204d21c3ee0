#!/usr/bin/env bats
# plan --svg: pictures of plans.

load helpers

# The facts of a picture, checked against the plan's JSON object.
check_diagram() { # PICTURE PLAN
	"$PYTHON" - "$@" <<-'END'
		import collections, json, re, sys, xml.etree.ElementTree as tree
		svg, plan = tree.parse(sys.argv[1]).getroot(), json.load(open(sys.argv[2]))
		esize = {"f32": 4, "u8": 1}[plan["wire"]]
		sends, adds = collections.Counter(), 0
		for rank in plan["ranks"]:
		    for step in rank["steps"]:
		        if step["op"] == "send":
		            sends[rank["rank"], step["peer"], step["count"] * esize] += 1
		        adds += step["op"] == "recv-reduce"
		drawn, added = collections.Counter(), 0
		for path in svg.findall(".//{*}path"):
		    title = path.find("{*}title")
		    if title is None:
		        continue
		    assert path.get("class") in ("m", "a"), path.get("class")
		    at = re.fullmatch(r"rank (\d+) to rank (\d+): (\d+) bytes, (\S+) (us|ms) to (\S+) (us|ms)", title.text)
		    assert at, title.text
		    drawn[tuple(map(int, at.groups()[:3]))] += 1
		    added += path.get("class") == "a"
		    unit = {"us": 1e-6, "ms": 1e-3}
		    assert float(at[6]) * unit[at[7]] <= plan["predicted"]["simulated"] * 1.01, title.text
		assert drawn == sends, (sends - drawn, drawn - sends)
		marks = [c for c in svg.findall(".//{*}circle") if c.get("class") == "r"]
		assert added == len(marks) == adds, (added, len(marks), adds)
		print(sum(drawn.values()), added)
	END
}

@test "a space-time diagram has an arrow for each message, with its ranks and bytes, and a mark for each addition" {
	local args
	while read -r args; do
		# shellcheck disable=SC2086
		collctl plan $args --json --svg plan.svg >plan.json </dev/null
		xmllint --noout plan.svg
		check_diagram plan.svg plan.json >found || fail "$args"
		[[ $args == *'-n 1 '* || $(<found) != '0 '* ]] || fail "$args: no messages"
	done <<-'END'
		allreduce -n 1 -a ring_chunked
		allreduce -n 4 -a ring_chunked
		allreduce -n 7 -a halving_doubling
		allreduce -n 64 -a circulant
		allreduce --hosts 4x4 -a hosts
		broadcast -n 16 -a binomial --root 3
		alltoall -n 8 -a direct
		scan -n 5
		barrier -n 6
	END
}

@test "hosts are blocks; a picture needs nothing from elsewhere and knows light and dark" {
	collctl plan allreduce --hosts 3,5,2 -a hosts --svg plan.svg >out
	assert_equal "$(grep -o '<title>host [0-9]</title>' plan.svg | sort -u | wc -l)" 3
	collctl plan allreduce --hosts 3,5,2 --compare --svg compare.svg >out
	collctl plan allreduce --hosts 9x8 -a hosts --svg map.svg >out
	assert_equal "$(grep -c '<title>host [0-9]: ranks ' map.svg)" 9
	local picture
	for picture in plan.svg compare.svg map.svg; do
		grep -q 'prefers-color-scheme: dark' "$picture"
		run -1 grep -E 'href|<script|@import|url\([^#]' "$picture"
		assert_equal "$(grep -o 'http[^"]*' "$picture")" http://www.w3.org/2000/svg
	done
}

@test "above 64 ranks a heat map: its cells have all bytes and messages of the schedules" {
	local size
	for size in 65 520; do
		collctl plan reduce-scatter -n "$size" -a circulant --json --svg map.svg >plan.json
		xmllint --noout map.svg
		"$PYTHON" - map.svg plan.json "$size" <<-'END'
			import json, re, sys, xml.etree.ElementTree as tree
			svg, plan = tree.parse(sys.argv[1]).getroot(), json.load(open(sys.argv[2]))
			sends = [s for r in plan["ranks"] for s in r["steps"] if s["op"] == "send"]
			cells = [r.find("{*}title").text for r in svg.findall(".//{*}rect")
			         if r.get("class") == "cell" and r.find("{*}title") is not None]
			words = r"ranks? \d+(?: to \d+)? to ranks? \d+(?: to \d+)?: (\d+) bytes, (\d+) messages?"
			found = [re.fullmatch(words, c).groups() for c in cells]
			assert sum(int(b) for b, _ in found) == 4 * sum(s["count"] for s in sends)
			assert sum(int(m) for _, m in found) == len(sends)
			assert any("ranks" in c for c in cells) == (int(sys.argv[3]) > 256)
		END
	done
	collctl plan alltoall -n 300 -a direct --count 300 --svg map.svg >out
	(($(stat -c %s map.svg) < 4000000)) || fail "$(stat -c %s map.svg) bytes"
}

@test "--compare --svg: a line for each algorithm that does not fall back, names apart, auto's choices" {
	collctl plan allreduce -n 8 --compare --bytes 1M --json --svg compare.svg >compare.json
	xmllint --noout compare.svg
	"$PYTHON" - compare.svg compare.json <<-'END'
		import json, sys, xml.etree.ElementTree as tree
		svg, plan = tree.parse(sys.argv[1]).getroot(), json.load(open(sys.argv[2]))
		names = {g.find("{*}text").text: float(g.find("{*}text").get("y")) for g in svg.findall(".//{*}g")}
		runs = {a["algorithm"] for a in plan["algorithms"] if a["algorithm"] == a["runs"]}
		assert set(names) == runs, (set(names) ^ runs)
		places = sorted(names.values())
		assert all(b - a >= 14 for a, b in zip(places, places[1:])), places
		choices = [c.find("{*}title").text for c in svg.findall(".//{*}circle") if c.find("{*}title") is not None]
		assert len(choices) == 25, len(choices)
		at = [c for c in choices if c.startswith("1.0 MiB: ")]
		assert at[0].startswith("1.0 MiB: auto takes %s," % plan["algorithm"]), (at, plan["algorithm"])
	END
	run -2 --separate-stderr collctl plan barrier -n 8 --compare --svg compare.svg
	all_say 'barrier'
}

@test "the old picture is replaced, and stays if the plan fails; a path that can't be written is an error" {
	echo old >plan.svg
	run -2 collctl plan allreduce -n 4 --rank 1 --svg plan.svg
	assert_output --partial 'remove --rank'
	assert_equal "$(cat plan.svg)" old
	collctl plan allreduce -n 4 --svg plan.svg >out
	grep -q '^allreduce ' out
	xmllint --noout plan.svg
	collctl plan allreduce -n 4 --svg - >out
	cmp out plan.svg
	collctl plan allreduce -n 4 --compare --svg - >out
	xmllint --noout out
	run -2 collctl plan allreduce -n 4 --json --svg -
	mkdir folder
	run -4 --separate-stderr collctl plan allreduce -n 4 --svg folder
	all_say 'folder'
	run -4 --separate-stderr collctl plan allreduce -n 4 --compare --svg missing/plan.svg
	all_say 'missing'
}

@test "the picture in docs/ is what plan draws" {
	collctl plan allreduce -n 8 -a halving_doubling --svg plan.svg >out
	cmp plan.svg "$BATS_TEST_DIRNAME/../../docs/allreduce.svg" ||
		fail 'make it again: collctl plan allreduce -n 8 -a halving_doubling --svg docs/allreduce.svg'
}

@test "a title that fits: many hosts are only counted" {
	local hosts
	hosts=$(printf '1,%.0s' {1..63})1
	collctl plan allreduce -n 64 --hosts "$hosts" --svg - >plan.svg
	grep -q '<title>allreduce [a-z_]*, 64 ranks on 64 hosts, 1.0 MiB of f32</title>' plan.svg
	collctl plan allreduce -n 64 --hosts "$hosts" --compare --svg - >compare.svg
	grep -q '<title>allreduce of 64 ranks on 64 hosts, f32: predicted time by size</title>' compare.svg
	collctl plan allreduce -n 16 --hosts 4x4 --svg - | grep -q ' on hosts 4x4, '
}
