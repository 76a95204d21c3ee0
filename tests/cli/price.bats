#!/usr/bin/env bats
# Prices: plan's predictions and comparison, the choice of auto, the tuning file.

load helpers

# The textbook's L + m/B, with L = 1 ms and B = 1 MB/s, as a tuning file.
textbook() {
	cat >textbook.json <<-END
		{"version": 1,
		 "rates": {"latency": 0, "message": 1e-3, "egress": 1e-6, "ingress": 1e-6,
		           "copy": 0, "tls": 0, "reduce": 0, "grain": 0${1-}}}
	END
}

# assert_seconds GOT WANT: to a millionth
assert_seconds() {
	jq -en "($1 - $2) | fabs < 1e-6 * $2" >/dev/null || fail "$1 seconds, not $2"
}

# ---- predicted ----

# bats test_tags=smoke
@test "one sending to all: (n-1)(L + m/B), by formula and simulated" {
	textbook
	for n in 2 3 8 33; do
		collctl plan broadcast -n $n -a one_to_all --bytes 4000 --tuning textbook.json --json >plan.json
		want=$(((n - 1) * 5))e-3
		assert_seconds "$(json plan.json .predicted.formula)" $want
		assert_seconds "$(json plan.json .predicted.simulated)" $want
	done
}

@test "a ring, stored and forwarded: (n-1)(L + m/B); streamed: (n-1)L + m/B" {
	textbook ', "store_and_forward": true'
	collctl plan broadcast -n 9 -a ring --bytes 4000 --tuning textbook.json --json >plan.json
	assert_seconds "$(json plan.json .predicted.formula)" 40e-3
	assert_seconds "$(json plan.json .predicted.simulated)" 40e-3
	textbook
	collctl plan broadcast -n 9 -a ring --bytes 4000 --tuning textbook.json --json >plan.json
	assert_seconds "$(json plan.json .predicted.formula)" 12e-3
	assert_seconds "$(json plan.json .predicted.simulated)" 12e-3
}

@test "text says what it predicts, and for which connections and rates" {
	textbook
	run -0 collctl plan broadcast -n 3 -a one_to_all --bytes 4000 --tuning textbook.json
	assert_line 'predicted: 10.000 ms by formula, 10.000 ms simulated; TLS, rates of textbook.json'
	run -0 collctl plan broadcast -n 3 -a one_to_all --bytes 4000 --insecure
	assert_line --partial 'simulated; plain TCP, built-in rates'
}

@test "ranks of one host have no network between them, but share its processors" {
	collctl plan allreduce -n 8 -a circulant --bytes 64M --json >apart.json
	collctl plan allreduce -n 8 -a circulant --bytes 64M --host-cpus 8 --json >together.json
	collctl plan allreduce -n 8 -a circulant --bytes 64M --host-cpus 2 --json >crowded.json
	jq -es '[.[].predicted.simulated] | .[0] > .[1] and .[2] > 3 * .[1]' \
		apart.json together.json crowded.json
	run -0 collctl plan allreduce -n 8 --host-cpus 2
	assert_line --partial '; memory, a host of 2 processors'
	run -0 collctl plan allreduce -n 8 --host-cpus 2 --lanes tcp
	assert_line --partial '; TLS, a host of 2 processors'
	textbook
	run -2 --separate-stderr collctl plan allreduce -n 8 --host-cpus 2 --lanes tcp --tuning textbook.json
	[[ $stderr == *'--host-cpus'* ]]
}

@test "encryption costs" {
	collctl plan allreduce -n 8 -a circulant --bytes 64M --json >tls.json
	collctl plan allreduce -n 8 -a circulant --bytes 64M --insecure --json >plain.json
	jq -en --slurpfile a tls.json --slurpfile b plain.json \
		'$a[0].predicted.simulated > $b[0].predicted.simulated'
}

# ---- compared ----

# bats test_tags=smoke
@test "--compare: every algorithm of every collective, by price, with the one that auto takes" {
	local c a
	for c in $(all_algorithms | cut -d' ' -f1 | uniq); do
		collctl plan "$c" -n 6 --bytes 60000 --compare --json >all.json
		algorithms_of "$c" | sort >want
		json all.json '.algorithms[].algorithm' | sort >got
		cmp want got
		json all.json '[.algorithms[] | select(.runs == .algorithm) | .formula] | . == sort' | grep -qx true
		json all.json '.algorithms | map(.formula > 0 and .simulated > 0) | all' | grep -qx true
		assert_equal "$(json all.json '[.algorithms[] | select(.taken)] | length')" 1
		a=$(json all.json '.algorithms[] | select(.taken) | .algorithm')
		if [[ $c == barrier ]]; then # the links that barrier uses without -a
			assert_equal "$a" all_to_one
		else
			assert_equal "$a" "$(json all.json '.algorithms | map(select(.candidate))[0].algorithm')"
		fi
		collctl plan "$c" -n 6 --bytes 60000 --json >plan.json
		assert_equal "$(json plan.json .algorithm)" "$a"
		assert_equal "$(json plan.json .predicted.formula)" \
			"$(json all.json '.algorithms[] | select(.taken) | .formula')"
	done
}

@test "--compare of many ranks simulates the fastest, and says which it leaves out and why" {
	run -0 collctl plan allreduce -n 2048 --bytes 1M --compare --json
	jq -e '.algorithms[0].simulated > 0 and .algorithms[0].not_simulated == null' <<<"$output"
	jq -e '.algorithms | map(select(.algorithm == "ring"))[0] |
		.simulated == null and (.not_simulated | test("too many steps in all, [0-9]+ here; plan -a ring -r 0"))' <<<"$output"
	jq -e '.algorithms | map(select(.algorithm == "direct"))[0].not_simulated | test("2048 schedules of about")' <<<"$output"
}

@test "--compare as text: a line each; what is another here, and what may not be taken, and why" {
	run -0 collctl plan allgather -n 5 --bytes 64K --compare
	assert_line --regexp '^neighbor .* falls back to ring$'
	assert_line --regexp '^tuned .* falls back to [a-z_]+$'
	assert_line --regexp '^[a-z_]+ .* chosen: the fastest by formula$'
	run -0 collctl plan allreduce -n 5 --bytes 64K --compare
	assert_line --regexp '^ring .* needs --allow-divergent$'
}

@test "--compare: order and types count" {
	collctl plan allreduce -n 8 --bytes 64M --compare --order rank --json >ordered.json
	assert_equal "$(json ordered.json '[.algorithms[] | select(.candidate) | .algorithm] | join(" ")')" 'direct weighted'
	assert_equal "$(json ordered.json .algorithm)" direct
	run -2 collctl plan reduce -n 8 -a binomial --order rank
	assert_output --partial "binomial cannot add in rank order: choose one that can (linear)"
	run -2 collctl plan exscan -n 8 --op avg
	assert_output --partial 'avg is not defined for exscan'
	for type in f16 bf16; do
		run -0 collctl plan allreduce -n 32 --bytes 64 --dtype $type --compare
		assert_line --regexp '^direct .* chosen: rounds 16-bit floats once$'
	done
	collctl plan allreduce -n 64 --bytes 64 --dtype bf16 --json >large.json
	collctl plan allreduce -n 32 --bytes 64 --dtype bf16 --op max --json >max.json
	jq -es 'map(.algorithm != "direct") | all' large.json max.json
	# Other types for which all algorithms round a sum or an average once: auto takes the fastest.
	for args in '--op avg --dtype bf16' '--op sum --dtype f8e4m3'; do
		# shellcheck disable=SC2086
		collctl plan allreduce -n 32 --bytes 64 $args --compare --json >once.json
		assert_equal "$(json once.json '.algorithms[] | select(.taken) | .remark')" 'chosen: the fastest by formula'
		assert_equal "$(json once.json '.algorithms | map(select(.candidate))[0].taken')" true
	done
	# Integers have the same sum in every order.
	collctl plan allreduce -n 5 --compare --dtype i32 --json >integers.json
	assert_equal "$(json integers.json '.algorithms[] | select(.algorithm == "ring") | .candidate')" true
}

@test "--compare at 65536 ranks: what is too large to simulate is priced by formula" {
	collctl plan barrier -n 65536 --compare --json >all.json
	assert_equal "$(json all.json '.algorithms[] | select(.simulated == null) | .algorithm')" all_to_all
	json all.json '.algorithms[] | select(.simulated == null) | .not_simulated' | grep -q '65536 schedules'
	json all.json '.algorithms | map(.formula > 0) | all' | grep -qx true
	assert_equal "$(json all.json .algorithm)" all_to_one
}

@test "--compare prices all: --algorithm, --rank and --verify are refused" {
	for option in '-a ring' '--rank 1' '--verify'; do
		# shellcheck disable=SC2086
		run -2 --separate-stderr collctl plan allreduce -n 4 --compare $option
		[[ $stderr == *'--compare'* ]]
	done
}

@test "what travels wider than it is in the file is priced and planned so, as the collective sends it" {
	local type op wire a r
	for r in 0 1 2; do head -c 3000 /dev/zero >in.$r.bin; done
	while read -r op type wire; do
		for a in ring_chunked direct; do
			collctl run -n 3 -- allreduce --op "$op" --dtype "$type" -a $a --no-sync --json \
				'in.{rank}.bin' -o 'out.{rank}.bin' >out.json
			collctl plan allreduce -n 3 --op "$op" --dtype "$type" -a $a --bytes 3000 --json >plan.json
			collctl plan allreduce -n 3 --op "$op" --dtype "$type" --bytes 3000 --compare --json >all.json
			[[ $a == direct ]] || assert_equal "$(json plan.json .wire)" "$wire"
			assert_equal "$(json plan.json .bytes)" "$(jq -rs 'map(.bytes_sent) | max' out.json)"
			assert_equal "$(json plan.json .predicted.formula)" \
				"$(jq -r ".algorithms[] | select(.algorithm == \"$a\") | .formula" all.json)"
		done
		collctl run -n 3 -- allreduce --op "$op" --dtype "$type" --no-sync --explain --json \
			'in.{rank}.bin' -o 'out.{rank}.bin' >out.json 2>err
		collctl plan allreduce -n 3 --op "$op" --dtype "$type" --bytes 3000 --host-cpus "$(nproc)" --compare --json >all.json
		assert_equal "$(jq -rs '.[0].algorithm' out.json)" "$(json all.json .algorithm)"
		jq -r '.algorithms[] | "\(.algorithm) \(.formula * 1e6 | round)"' all.json | sort >want
		sed -nE 's/^\[0\] collctl: ([a-z_]+) +([0-9]+)\.([0-9]{3}) ms predicted.*/\1 \2\3/p' err |
			sed -E 's/ 0+([0-9])/ \1/' | sort >got
		diff want got
	done <<-END
		avg bf16 f32
		sum f8e4m3 f32
		sum f16 f16
		max f8e5m2 f8e5m2
	END
	run -0 collctl plan allreduce -n 3 --op avg --dtype bf16 -a ring_chunked --bytes 3000
	assert_line -n 0 'allreduce ring_chunked, 3 ranks, 1500 elements, 3000 bytes of bf16, sent as f32'
}

# ---- chosen ----

@test "--explain: the prices of every algorithm of every collective, and what is taken" {
	local c a
	make_shards 4 f32 1024
	for c in $(all_algorithms | cut -d' ' -f1 | uniq); do
		[[ $c != barrier ]] || continue # its auto needs no mesh
		args=("$c")
		[[ $c != exchange ]] || args+=(--steps 2)
		[[ $c == exchange ]] || args+=(--no-sync -o 'out.{rank}.npy')
		collctl run -n 4 -- "${args[@]}" --explain --json 'in.{rank}.npy' >out.json 2>err
		algorithms_of "$c" >names
		while read -r a; do
			grep -qE "^\[0\] collctl: $a +[0-9.]+ ms predicted" err || fail "$c $a: $(<err)"
		done <names
		assert_equal "$(grep -c ', chosen: the fastest by formula' err)" 1
		grep -qE "^\[0\] collctl: $(jq -rs '.[0].algorithm' out.json) .*chosen" err || fail "$c: $(<err)"
	done
}

# measured FILE SIZE BYTES TIMES...: a tuning file with rows of allreduce
measured() {
	local file=$1 size=$2 bytes=$3 sep=''
	shift 3
	{
		echo '{"version": 1, "measured": ['
		for times; do
			echo "$sep{\"collective\": \"allreduce\", \"size\": $size, \"secure\": true,"
			echo "\"bytes\": $bytes, \"times\": {$times}}"
			sep=, bytes=$((bytes * 8))
		done
		echo ']}'
	} >"$file"
}

# taken OPTIONS...: the algorithm that auto takes for allreduce
taken() {
	collctl plan allreduce --json "$@" | jq -r .algorithm
}

@test "a measurement decides: the fastest at the nearest size, of these ranks and connections" {
	measured t.json 4 1000 '"ring_chunked": 1e-3, "circulant": 2e-3' '"ring_chunked": 2, "circulant": 1'
	without=$(taken -n 4 --bytes 1000)
	[[ $without != ring_chunked && $without != circulant ]]
	assert_equal "$(taken -n 4 --bytes 300 --tuning t.json)" ring_chunked
	assert_equal "$(taken -n 4 --bytes 1000 --tuning t.json)" ring_chunked
	assert_equal "$(taken -n 4 --bytes 2600 --tuning t.json)" ring_chunked
	assert_equal "$(taken -n 4 --bytes 3000 --tuning t.json)" circulant
	assert_equal "$(taken -n 4 --bytes 30000 --tuning t.json)" circulant
	for far in 200 40000; do # a measurement says nothing of sizes over four times from its own
		assert_equal "$(taken -n 4 --bytes $far --tuning t.json)" "$(taken -n 4 --bytes $far)"
	done
	assert_equal "$(taken -n 4 --bytes 1000 --tuning t.json --insecure)" "$(taken -n 4 --bytes 1000 --insecure)"
	assert_equal "$(taken -n 5 --bytes 1000 --tuning t.json)" "$(taken -n 5 --bytes 1000)"
	run -0 collctl plan allreduce -n 4 --bytes 1000 --tuning t.json --compare
	assert_line --regexp '^ring_chunked .* 1\.000 +chosen: the fastest measured$'
	assert_line 'measured with 1000 bytes'
}

@test "a measurement of what may not be taken does not count" {
	measured t.json 4 1000 '"ring": 1e-6, "circulant": 2e-3'
	assert_equal "$(taken -n 4 --bytes 1000 --tuning t.json)" circulant
	assert_equal "$(taken -n 4 --bytes 1000 --tuning t.json --dtype i32)" ring
	assert_equal "$(taken -n 4 --bytes 1000 --tuning t.json --order rank)" direct
}

@test "a collective takes what plan says, with and without --tuning" {
	make_shards 4 f32 1000
	measured t.json 4 4000 '"ring_chunked": 1e-3, "circulant": 2e-3'
	collctl run -n 4 -- allreduce --no-sync --json 'in.{rank}.npy' -o 'out.{rank}.npy' >out.json
	assert_equal "$(jq -rs 'map(.algorithm) | unique[]' out.json)" \
		"$(taken -n 4 --count 1000 --host-cpus "$(nproc)")"
	collctl run -n 4 -- allreduce --lanes tcp --no-sync --json --tuning t.json 'in.{rank}.npy' -o 'out.{rank}.npy' \
		>out.json
	assert_equal "$(jq -rs 'map(.algorithm) | unique[]' out.json)" "$(taken -n 4 --count 1000 --tuning t.json)"
	assert_equal "$(jq -rs '.[0].algorithm' out.json)" ring_chunked
	check_out sum 4
}

@test "ranks of one host that share memory have rates and measurements of their own" {
	make_shards 4 f32 1000
	collctl run -n 4 -- bench allreduce -a ring_chunked,bcube -b 4000 -e 4000 --iters 3 --lanes memory \
		--tuning-out t.json >/dev/null
	jq -e '.memory_rates.copy > 0 and (.measured | map(.memory) == [true])' t.json
	# Only what is measured is chosen, where it was measured; elsewhere the measurement does not count.
	measured=$(jq -r '.measured[0].times | to_entries | min_by(.value).key' t.json)
	here=(-n 4 --count 1000 --host-cpus "$(nproc)")
	assert_equal "$(taken "${here[@]}" --tuning t.json)" "$measured"
	collctl run -n 4 -- allreduce --no-sync --json --tuning t.json 'in.{rank}.npy' -o 'out.{rank}.npy' >out.json
	assert_equal "$(jq -rs 'map(.algorithm) | unique[]' out.json)" "$measured"
	run -0 collctl plan allreduce -n 4 --count 1000 --tuning t.json --compare
	refute_line --partial 'the fastest measured'
	collctl run -n 4 -- bench allreduce -a circulant -b 4000 -e 4000 --iters 3 --lanes tcp --tuning-out t.json \
		>/dev/null
	jq -e '.measured | map(.memory) == [true, null]' t.json
	assert_equal "$(taken "${here[@]}" --tuning t.json)" "$measured"
	assert_equal "$(taken -n 4 --count 1000 --tuning t.json)" circulant
}

# ---- the tuning file's errors ----

# refused TEXT CONTENT: the file with CONTENT is refused with TEXT
refused() {
	printf '%s\n' "$2" >t.json
	run -3 --separate-stderr collctl plan allreduce -n 4 --tuning t.json
	[[ $stderr == *"t.json: $1"* ]] || fail "$2: $stderr"
}

@test "a tuning file that can't be read names the file and the key" {
	run -3 --separate-stderr collctl plan allreduce -n 4 --tuning nowhere.json
	[[ $stderr == *'nowhere.json: cannot open: No such file'* ]]
	refused 'is not a tuning file: line 2: ' '{"version": 1,'
	refused 'not a tuning file' '[]'
	refused 'version is not 1' '{}'
	refused 'version is not 1' '{"version": 2}'
	refused 'speed is an unknown key' '{"version": 1, "speed": 1}'
	refused 'rates is not an object' '{"version": 1, "rates": 3}'
	refused 'rates.warp is an unknown rate' '{"version": 1, "rates": {"warp": 1}}'
	refused 'rates.latency is not a number from 0 to 1e+15' '{"version": 1, "rates": {"latency": -1}}'
	refused 'rates.latency is not a number from 0 to 1e+15' '{"version": 1, "rates": {"latency": "1"}}'
	refused 'rates.egress is not a number from 0 to 1e+15' '{"version": 1, "rates": {"egress": 1e300}}'
	refused 'rates.store_and_forward is not true or false' \
		'{"version": 1, "rates": {"store_and_forward": 1}}'
	refused 'measured is not an array' '{"version": 1, "measured": {}}'
	row='"collective": "allreduce", "size": 4, "secure": true, "bytes": 8'
	refused 'measured[0].times is not an object' "{\"version\": 1, \"measured\": [{$row}]}"
	refused 'measured[0].times.zigzag: allreduce has no such algorithm' \
		"{\"version\": 1, \"measured\": [{$row, \"times\": {\"zigzag\": 1}}]}"
	refused 'measured[1].times.direct is not a number above 0' \
		"{\"version\": 1, \"measured\": [{$row, \"times\": {}}, {$row, \"times\": {\"direct\": 0}}]}"
	refused 'measured[0].size is not a number from 1 to 65536' \
		"{\"version\": 1, \"measured\": [{${row/4/0}, \"times\": {}}]}"
	refused 'measured[0].secure is not true or false' \
		"{\"version\": 1, \"measured\": [{${row/true/1}, \"times\": {}}]}"
	refused 'measured[0].collective is not a collective' \
		"{\"version\": 1, \"measured\": [{${row/allreduce/allgoof}, \"times\": {}}]}"
	refused 'measured[0].op is an unknown key' \
		"{\"version\": 1, \"measured\": [{$row, \"op\": 1, \"times\": {}}]}"
}

@test "a collective refuses it as well, on every rank" {
	make_shards 2 f32 8
	run -3 --separate-stderr collctl run -n 2 -- allreduce --tuning nowhere.json 'in.{rank}.npy' -o 'out.{rank}.npy'
	[[ $stderr == *'nowhere.json'* ]]
	assert_only_files in.0.npy in.1.npy
}

@test "bench fits rates to a file that has measurements of what stands for another" {
	cat >t.json <<-END
		{"version": 1, "measured": [{"collective": "allgather", "size": 4, "secure": true, "bytes": 4096,
		 "times": {"tuned": 1e-3, "neighbor": 1e-3}}]}
	END
	collctl run -n 2 -- bench allgather -b 4K -e 4K -a ring --iters 1 --tuning-out t.json >bench.txt
	assert_equal "$(json t.json '.measured | map(.times | keys[]) | sort | join(" ")')" "neighbor ring tuned"
	collctl plan allgather -n 4 --bytes 4K --tuning t.json >plan.txt
}
