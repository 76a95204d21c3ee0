#!/usr/bin/env bats
# Where the time went: -v and --json name the resource, and the rank, that limited a job.

load helpers

setup() {
	common_setup
	local r
	for r in 0 1 2; do
		"$PYTHON" -c "import numpy as np; np.save('in.$r.npy', np.random.default_rng($r).standard_normal(300007))"
	done
}

# job OPTIONS...: three ranks; every read of rank 1's input takes half a second more
job() {
	local r slow
	for r in 0 1 2; do
		slow=()
		[[ $r != 1 ]] || slow=(strace -f -qq -o /dev/null -P "$PWD/in.1.npy" -P in.1.npy -e trace=pread64 -e inject=pread64:delay_enter=500000)
		spawn_rank $r "${slow[@]}" "$COLLCTL" allreduce "$@" in.$r.npy -o out.$r.npy -r $r -n 3 \
			-R "$STORE" -j job --secret-file "$SECRET"
	done
	wait_ranks
	assert_ranks 3 0
}

# assert_times RANK: the times in its -v line add up to no more than the job's
assert_times() {
	"$PYTHON" - "$1.err" <<-'E'
		import re, sys
		text = open(sys.argv[1]).read()
		line = re.search(r"rank \d+: time: ([^;\n]*)", text)[1]
		took = re.search(r" in ([\d.]+) (us|ms|s)\b", text)
		unit = {"us": 1e-6, "ms": 1e-3, "s": 1}
		total = sum(float(n) * unit[u] for n, u in re.findall(r"([\d.]+) (us|ms|s)\b", line))
		whole = float(took[1]) * unit[took[2]]
		assert 0.5 * whole < total < 1.05 * whole, (total, whole, text)
	E
}

@test "the times of every stage are those of the job, on one thread and on two" {
	local options r
	for options in '' '--streams 2 --threads 2' '--lanes tcp --insecure'; do
		# shellcheck disable=SC2086
		collctl run -n 3 -- allreduce --json $options 'in.{rank}.npy' -o 'out.{rank}.npy' >all
		[[ $(wc -l <all) == 3 ]]
		for r in 0 1 2; do
			jq -e -s --argjson r $r '.[] | select(.rank == $r) | .where as $w | .seconds as $s
				| ([$w.spent[] | select(.resource != "processor")] | group_by(.stage)
					| map({key: .[0].stage, value: (map(.seconds) | add)}) | from_entries) as $sum
				| all(($w.spent + $w.peers)[]; .seconds >= 0)
				and ([$sum.join - $s.join, $sum.connect - $s.connect, $sum.commit - $s.commit] | map(fabs) | max) < 1e-5
				and $sum.run <= $s.run * 1.00001
				and any($w.spent[]; .stage == "connect" and .resource == "files" and .seconds > 0)
				and ($w.spent | map(.stage + " " + .resource) | unique | length) == ($w.spent | length)
				and all($w.peers[]; .rank != $r and .rank < 3)
				and $w.threads == (if '"$([[ $options == *threads* ]] && echo true || echo false)"' then 2 else 1 end)
				and ($w.limit | .share > 0 and .share <= 1)
				and $w.busiest.rank < 3' all >where.$r || fail "rank $r $options: $(<all)"
		done
		[[ $(jq -c .where.busiest all | sort -u | wc -l) == 1 ]] || fail "the ranks name different ranks: $(<all)"
	done
}

@test "a rank that reads slowly is named by all, with what it does" {
	no_sanitizers 'do not run under ptrace'
	start_serve
	make_secret
	strace -o /dev/null true || skip 'strace cannot trace here'
	job --json
	local r
	for r in 0 1 2; do
		jq -e '.where.busiest | .rank == 1 and .resource == "read"' $r.out || fail "rank $r: $(<$r.out)"
	done
	jq -e '.where.limit | .stage == "run" and .resource == "read" and .rank == null' 1.out || fail "$(<1.out)"
	for r in 0 2; do
		jq -e '.where.limit | .stage == "run" and ((.resource == "receive" or .resource == "send") and .rank == 1 or .resource == "processor")' \
			$r.out || fail "$(<$r.out)"
	done
	job -v --force
	assert_rank 1 0 'rank 1: limit: reading inputs, ' 'put the inputs on a faster disk'
	assert_rank 0 0 ', mostly for rank 1, ' \
		'rank 1 worked longest, mostly reading inputs: put the inputs on a faster disk'
	grep -qE 'rank 0: the data moved for .*, but .* was predicted: rank 1 spent most of it reading inputs, which predictions leave out' 0.err || fail "$(<0.err)"
	assert_times 1
	grep -qE 'rank 0: time: waiting (for data|to send) ' 0.err || fail "$(<0.err)"
}

@test "a prediction that missed because of links that are faster than the user says" {
	# shellcheck disable=SC2016 # for the ranks' shells
	COLLCTL_BIN=$COLLCTL collctl run -n 2 -- bash -c 'COLLCTL_HOST_ID=n$COLLCTL_RANK exec "$COLLCTL_BIN" "$@"' - \
		allreduce -v --link-rate 100K 'in.{rank}.npy' -o 'out.{rank}.npy' 2>err
	grep -qE 'rank 0: the data moved for .*, but .* was predicted: the links are faster than assumed: 819 kbit/s by --link-rate' err || fail "$(<err)"
	assert_equal "$(grep -c 'was predicted' err)" 1
}

@test "without -v nothing is printed; a barrier and a failed job have no times" {
	run -0 --separate-stderr collctl allreduce -n 1 in.0.npy -o out.npy
	[[ $stderr != *limit:* && $stderr != *time:* ]] || fail "$stderr"
	# A job of one rank waits for nobody, however short it is.
	run -0 --separate-stderr collctl allreduce -n 1 in.0.npy -o out.npy --force --json
	jq -e '.where.limit.stage != "join"' <<<"$output"
	run -0 --separate-stderr collctl allreduce -n 1 in.0.npy -o out.npy --force -v
	[[ $stderr == *'rank 0: limit: '* && $stderr != *'limit: joining'* ]] || fail "$stderr"
	run -0 --separate-stderr collctl barrier -n 1 --json
	jq -e 'has("where") | not' <<<"$output"
	run -3 --separate-stderr collctl allreduce -n 1 --json none.npy -o out2.npy
	jq -e 'has("where") | not' <<<"$output"
}
