#!/usr/bin/env bats
# --op median and trimmed:F, which take all inputs of all ranks at once: the oracle is numpy.

load helpers

# split N...: rank R has the next N of in.0.npy, in.1.npy ..., as part.R.K.npy. Sets SIZE.
split() {
	local r=0 k n=0 next
	rm -f part.*.npy
	for next; do
		for ((k = 0; k < next; k++, n++)); do
			ln "in.$n.npy" "part.$r.$k.npy"
		done
		r=$((r + 1))
	done
	SIZE=$r
}

# joint KIND OP TAG [OPTION...]: of the ranks' parts into out.TAG.R.npy
joint() {
	collctl run -n "$SIZE" -- "$1" -q --no-sync --op "$2" "${@:4}" 'part.{rank}.*.npy' -o "out.$3.{rank}.npy"
}

# make_six DTYPE SHAPE DATA: in.0.npy to in.5.npy
make_six() {
	local k
	for k in 0 1 2 3 4 5; do
		make_shard "in.$k.npy" "$1" "$2" "$k" "$3"
	done
}

# ---- values ----

# same_in_every_split DTYPE DATA OPTION...: of six inputs, 1 x 6, 2 x 3, 3 x 2, 6 x 1 and uneven ones
same_in_every_split() {
	local dtype=$1 data=$2 op layout at=0
	shift 2
	make_six "$dtype" 19,7 "$data"
	for op in median trimmed:0 trimmed:0.2; do
		for layout in '6' '3 3' '2 2 2' '1 1 1 1 1 1' '1 5' '4 1 1'; do
			# shellcheck disable=SC2086 # words
			split $layout
			joint allreduce "$op" "$at" "$@"
			at=$((at + 1))
		done
		oracle oracle check "$op" --dtype "$dtype" out.*.npy --in in.[0-5].npy || fail "$op of $dtype, $data"
		rm out.*
	done
}

# bats test_tags=smoke
@test "the inputs of all ranks give the same bits, however they are divided among ranks: f32" {
	same_in_every_split f32 random
	same_in_every_split f32 special
}

@test "the same of the other floats, with NaN, infinities and zeros of both signs" {
	local d
	for d in f64 f16 bf16 f8e4m3 f8e5m2; do
		same_in_every_split $d random --dtype $d
		same_in_every_split $d special --dtype $d
	done
}

@test "the same of integers with --integers round: the exact mean, ties to even" {
	local d
	for d in i8 u8 i16 u16 i32 u32 i64 u64; do
		same_in_every_split $d exact --integers round
	done
}

@test "a median of an odd number of integers is one of them, without --integers" {
	local d
	for d in i8 u64; do
		make_six $d 30 exact
		split 2 3
		joint allreduce median $d
		oracle oracle check median out.$d.*.npy --in in.[0-4].npy
	done
}

@test "--integers first and equal take rank 0's values, also of types without a median" {
	make_six i32 9 exact
	split 1 1 1
	joint allreduce median first --integers first
	cmp out.first.2.npy in.0.npy
	joint reduce trimmed:0.1 first --integers first
	cmp out.first.0.npy in.0.npy
	ln -f in.0.npy part.1.0.npy
	ln -f in.0.npy part.2.0.npy
	joint allreduce median equal --integers equal
	cmp out.equal.1.npy in.0.npy
	make_six bool 9 exact
	split 1 1
	joint allreduce median bool --integers first
	cmp out.bool.1.npy in.0.npy
}

@test "one input of one rank is the result, bit for bit" {
	make_shard in.0.npy f32 50 1 special
	split 1
	joint allreduce median one
	cmp out.one.0.npy in.0.npy
}

@test "many inputs: 70 of two ranks" {
	local k
	for ((k = 0; k < 70; k++)); do
		make_shard "in.$k.npy" f32 40 "$k" special
	done
	split 41 29
	joint allreduce median many
	oracle oracle check median out.many.?.npy --in $(seq -f in.%g.npy 0 69)
	joint allreduce trimmed:0.1 many
	oracle oracle check trimmed:0.1 out.many.?.npy --in $(seq -f in.%g.npy 0 69)
}

# ---- other collectives, ways and sizes ----

# bats test_tags=smoke
@test "reduce to a root, and reduce-scatter, also by --counts" {
	make_six f32 17,3 random
	split 1 1 1
	joint reduce median r --root 1
	oracle oracle check median out.r.1.npy --in in.[012].npy
	assert_not_exists out.r.0.npy
	joint reduce-scatter trimmed:0.34 s
	oracle oracle coll --op trimmed:0.34 --in 'part.{rank}.0.npy' reduce-scatter 3 s
	joint reduce-scatter median c --counts 2,0,15
	oracle oracle coll --op median --counts 2,0,15 --in 'part.{rank}.0.npy' reduce-scatter 3 c
	split 3 1 2
	joint reduce trimmed:0.2 u --root 2 -a direct
	joint reduce trimmed:0.2 v --root 2 -a linear
	oracle oracle check trimmed:0.2 out.[uv].2.npy --in in.[0-5].npy
	# Sums are those of another algorithm.
	run --separate-stderr collctl run -n 2 -- reduce --no-sync -a direct 'in.{rank}.npy' -o sum.npy
	assert_success
	[[ $stderr == *'direct falls back to linear'* ]]
	oracle oracle check sum sum.npy --data random --in in.[01].npy
}

@test "little memory, few streams, TCP, threads and a named algorithm change no bit" {
	local how at=0
	make_six f32 300001 random
	split 2 4
	joint allreduce median want
	while read -r how; do
		# shellcheck disable=SC2086 # words
		joint allreduce median "$((at += 1))" $how
		cmp "out.$at.0.npy" out.want.0.npy || fail "$how"
		cmp "out.$at.1.npy" out.want.0.npy || fail "$how"
	done <<-END
		--memory 300K
		--memory 64K --streams 4
		--streams 1 --lanes tcp
		--threads 2 -a direct
		--order rank
		--allow-divergent
	END
	oracle oracle check median out.want.?.npy --in in.[0-5].npy
}

@test "tensors of several types, and files without elements" {
	oracle checkpoint make averaged 3
	collctl run -n 3 -- allreduce -q --no-sync --op median 'in.{rank}.safetensors' -o 'all.{rank}.safetensors'
	collctl run -n 1 -- allreduce -q --no-sync --op median in.[012].safetensors -o all.one.safetensors
	PYTHONPATH=$HELPERS_DIR "$PYTHON" - <<-'END'
		import numpy as np
		import checkpoint
		types = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
		inputs = [checkpoint.read(f"in.{r}.safetensors").tensors for r in range(3)]
		outputs = [checkpoint.read(f"all.{r}.safetensors").tensors for r in (0, 1, 2, "one")]
		seen = set()
		for name, t in outputs[0].items():
		    assert all(o[name].data == t.data for o in outputs), name
		    if t.dtype in types:
		        want = np.median([np.frombuffer(c[name].data, types[t.dtype]) for c in inputs], axis=0)
		        assert np.array_equal(np.frombuffer(t.data, types[t.dtype]), want), name
		        seen.add(t.dtype)
		assert len(seen) > 1 and len(outputs[0]) == len(inputs[0]), seen
	END
	make_six f32 0 exact
	split 1 2
	joint allreduce median empty
	cmp out.empty.0.npy in.0.npy
}

@test "--each: every input by itself, over the ranks" {
	local r
	make_six f32 21 random
	for r in 0 1 2; do
		mkdir in$r out$r
		cp in.$r.npy in$r/a.npy
		cp in.$((r + 3)).npy in$r/b.npy
	done
	collctl run -n 3 -- allreduce -q --no-sync --op median --each 'in{rank}/a.npy' 'in{rank}/b.npy' -o 'out{rank}'
	oracle oracle check median out?/a.npy --in in.[012].npy
	oracle oracle check median out?/b.npy --in in.[345].npy
}

@test "--stats names the NaN of the inputs; --json has the operation" {
	make_six f32 64 special
	collctl run -n 1 -- allreduce --json --stats --no-sync --op trimmed:0.20 in.?.npy -o out.npy >result
	jq -e '.op == "trimmed:0.2" and .algorithm == "direct" and .ok' result
	run --separate-stderr collctl run -n 1 -- allreduce --stats --no-sync --op median in.?.npy -o out.npy
	assert_success
	[[ $stderr == *NaN* ]]
}

@test "plan proves, prints and prices it; algorithms lists who can" {
	local kind
	for kind in allreduce reduce reduce-scatter; do
		collctl plan $kind -n 5 --op median --count 23 --root 2 --verify >text
		grep -q 'joint .*<- 5 contributions from scratch[01]' text
		grep -q 'verified: all 5 schedules' text
	done
	collctl plan allreduce -n 4 --op trimmed:0.1 --compare --json >compared
	run jq -r '[.algorithms[]? | .algorithm] | length > 5' compared
	assert_output true
	run bash -c "'$COLLCTL' algorithms --json | jq -r '.[] | select(.joint) | .collective + \" \" + .algorithm' | sort | tr '\n' ,"
	assert_output 'allreduce direct,allreduce weighted,reduce direct,reduce linear,reduce-scatter direct,'
}

# ---- refusals ----

# refused CODE TEXT ARGUMENT...
refused() {
	local code=$1 text=$2
	shift 2
	run --separate-stderr collctl "$@"
	assert_equal "$status" "$code"
	[[ $stderr == *"$text"* ]] || fail "$stderr"
	assert_not_exists out.npy
}

@test "what cannot be is refused: 2, and nothing is written" {
	make_six f32 8 exact
	refused 2 'choose one that has them (direct, weighted), or auto' allreduce -n 1 -a ring --op median in.0.npy -o out.npy
	refused 2 'choose one that has them (linear, direct), or auto' reduce -n 1 -a binomial --op median in.0.npy -o out.npy
	refused 2 '--weight: only averages use it' allreduce -n 1 --weight 2 --op median in.0.npy -o out.npy
	refused 2 '--weight: only averages use it' allreduce -n 1 --weight 1,2 --op trimmed:0.1 in.[01].npy -o out.npy
	local f
	for f in trimmed trimmed: trimmed:0.5 trimmed:-0.1 trimmed:0.1:0.1 trimmed:x; do
		refused 2 "'$f' is not trimmed:F with one number F from 0 to below 0.5" allreduce -n 1 --op $f in.0.npy -o out.npy
	done
	refused 2 'not defined for scan' scan -n 1 --op median in.0.npy -o out.npy
	refused 2 'not defined for exscan' exscan -n 1 --op trimmed:0.1 in.0.npy -o out.npy
	refused 2 'bench measures only' bench allreduce -n 1 --op median
	refused 2 'choose one that has them (direct, weighted)' plan allreduce -n 4 --op median -a ring
}

@test "with --device they are computed in host memory, and a note says so" {
	make_six f32 19,7 random
	split 3 3
	joint allreduce median host
	collctl run -n 2 -- allreduce --no-sync --op median --device cuda 'part.{rank}.*.npy' -o 'out.dev.{rank}.npy' 2>said
	cmp out.host.0.npy out.dev.1.npy
	grep -q 'computed in host memory, without --device' said
	collctl plan allreduce -n 4 --op median >host
	collctl plan allreduce -n 4 --op median --device cuda >dev
	cmp host dev
}

@test "types without an order, and integers without --integers, are refused: 2" {
	make_six i32 8 exact
	refused 2 '--op median of an even number of inputs, 4, is not defined on i32: give --integers first, equal or round' \
		allreduce -n 1 --op median in.[0-3].npy -o out.npy
	refused 2 '--op trimmed is not defined on i32: give --integers first, equal or round' \
		allreduce -n 1 --op trimmed:0.1 in.[0-2].npy -o out.npy
	make_six c64 8 exact
	refused 2 '--op median is not defined on c64' allreduce -n 1 --op median in.[0-2].npy -o out.npy
	make_six bool 8 exact
	refused 2 '--op median is not defined on bool' allreduce -n 1 --op median --integers round in.[0-2].npy -o out.npy
	refused 2 '--op trimmed is not defined on bool' allreduce -n 1 --op trimmed:0.1 in.[0-2].npy -o out.npy
}

@test "more than 4096 inputs are refused: 2" {
	local k many=()
	make_shard in.npy f32 2 1
	for ((k = 0; k < 4097; k++)); do
		many+=(in.npy)
	done
	refused 2 'at most 4096 inputs, but there are 4097' allreduce -n 1 --op median "${many[@]}" -o out.npy
	collctl allreduce -q -n 1 --no-sync --op median "${many[@]:1}" -o out.npy
	cmp out.npy in.npy
}

@test "ranks with other operations: 7 everywhere; numbers that are equal agree" {
	local pair
	make_secret
	start_serve
	make_six f32 6 exact
	for pair in 'median avg' 'median trimmed:0.1' 'trimmed:0.1 trimmed:0.2'; do
		rank 0 2 allreduce --op "${pair% *}" in.0.npy -o out.0.npy
		rank 1 2 allreduce --op "${pair#* }" in.1.npy -o out.1.npy
		wait_ranks
		assert_ranks 2 7 'rank 1' "${pair% *}" "${pair#* }"
		assert_not_exists out.0.npy
	done
	rank 0 2 allreduce -q --op trimmed:0.1 in.0.npy -o out.0.npy
	rank 1 2 allreduce -q --op trimmed:.10 in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 0
	oracle oracle check trimmed:0.1 out.?.npy --in in.[01].npy
}
