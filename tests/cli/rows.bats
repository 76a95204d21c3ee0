#!/usr/bin/env bats
# Collectives along axis 0: --counts, different numbers of rows per rank, and no rows.

load helpers

# one KIND P COUNTS [OPTIONS...]: the same counts on every rank
one() {
	local kind=$1 size=$2 counts=$3
	shift 3
	collctl run -n "$size" -- "$kind" --no-sync --insecure --counts "$counts" "$@" \
		'in.{rank}.npy' -o "out.$kind.{rank}.npy" || fail "$kind $counts"
}

# bats test_tags=smoke
@test "--counts: any parts, also none, on every algorithm" {
	local kind counts
	make_shards 4 f32 11,3
	for counts in 11,0,0,0 0,0,0,11 3,4,0,4 1,1,1,8; do
		TAGS=()
		for kind in reduce-scatter scatter alltoall; do
			every "$kind" 4 --counts $counts
		done
		check_coll --counts $counts reduce-scatter,scatter,alltoall 4 "${TAGS[@]}" || fail "$counts"
	done
	make_shards 3 u8 0,2
	for kind in reduce-scatter scatter alltoall; do one $kind 3 0,0,0; done
	check_coll --counts 0,0,0 reduce-scatter,scatter,alltoall 3
}

@test "--counts of 8 ranks, most of them empty, in small windows" {
	local kind
	make_shards 8 i32 1000
	for kind in reduce-scatter scatter alltoall; do
		TAGS=()
		every "$kind" 8 --counts 0,333,0,0,1,0,666,0 --memory 4K
		check_coll --counts 0,333,0,0,1,0,666,0 "$kind" 8 "${TAGS[@]}" || fail "$kind"
	done
}

# bats test_tags=smoke
@test "gather and allgather: every rank its own number of rows, also none" {
	shards f32 exact 3,2 0,2 7,2 1,2 0,2
	every gather 5
	every allgather 5
	check_coll gather,allgather 5 "${TAGS[@]}"
	TAGS=()
	shards i64 exact 0 0 0
	every gather 3
	every allgather 3
	check_coll gather,allgather 3 "${TAGS[@]}"
	TAGS=()
	shards f16 exact 2,3 900,3 0,3 1,3
	every gather 4 --memory 4K
	every allgather 4 --memory 4K
	check_coll gather,allgather 4 "${TAGS[@]}"
}

# bats test_tags=smoke
@test "hosts: one message between two hosts, any counts, in any order of ranks, in small windows" {
	local kind host options root
	make_shards 5 f32 11,3
	for host in 'COLLCTL_RANK / 2' 'COLLCTL_RANK % 2'; do
		for kind in gather scatter alltoall; do
			root=(--root 3)
			[[ $kind != alltoall ]] || root=()
			for options in '' '--counts 3,4,0,3,1' '--memory 4K'; do
				[[ $kind != gather || $options != --counts* ]] || continue
				# shellcheck disable=SC2086 # words
				COLLCTL_BIN=$COLLCTL collctl run -n 5 -- sh -c "COLLCTL_HOST_ID=n\$(($host)) exec \"\$COLLCTL_BIN\" \"\$@\"" - \
					"$kind" --no-sync --insecure -a hosts "${root[@]}" $options --json 'in.{rank}.npy' -o "out.$kind.{rank}.npy" >j ||
					fail "$kind $options, $host"
				assert_equal "$(jq -s -c 'map(.algorithm) | unique' j)" '["hosts"]'
				[[ $options != --memory* ]] || options=
				# shellcheck disable=SC2086 # words
				check_coll $options "${root[@]}" "$kind" 5 "$kind" || fail "$kind $options, $host"
				rm out.*
			done
		done
	done
}

# alltoallv COUNTS... -- [OPTIONS...]: rank r divides its in.R.npy by the r-th counts; -: no --counts
alltoallv() {
	local counts=() size r
	while [[ $1 != -- ]]; do
		counts+=("$1")
		shift
	done
	shift
	size=${#counts[@]}
	for ((r = 0; r < size; r++)); do
		if [[ ${counts[r]} == - ]]; then
			rank "$r" "$size" alltoall --no-sync "$@" "in.$r.npy" -o "out.$r.npy"
		else
			rank "$r" "$size" alltoall --no-sync "$@" --counts "${counts[r]}" "in.$r.npy" -o "out.$r.npy"
		fi
	done
	wait_ranks
	assert_ranks "$size" 0
}

# bats test_tags=smoke
@test "alltoall: shapes and counts of each rank's own" {
	make_secret
	start_serve
	shards f32 exact 6,2 0,2 9,2
	alltoallv 1,2,3 0,0,0 9,0,0 --
	check_coll --counts '1,2,3;0,0,0;9,0,0' alltoall 3
	alltoallv - - 2,3,4 --
	check_coll --counts ';;2,3,4' alltoall 3
	alltoallv - - - -- # as numpy.array_split cuts each
	check_coll alltoall 3
	shards u16 exact 5000 1 0 2500
	alltoallv 0,0,0,5000 1,0,0,0 - 2500,0,0,0 -- --memory 4K
	check_coll --counts '0,0,0,5000;1,0,0,0;;2500,0,0,0' alltoall 4
}

@test "alltoall: an algorithm that can't do uneven counts says what takes its place, on all ranks" {
	make_secret
	start_serve
	shards f32 exact 4 8
	alltoallv - - -- -a bruck --json
	check_coll alltoall 2
	grep -qF 'bruck falls back to pairwise' 0.err
	assert_equal "$(cat 0.out 1.out | jq -s -r 'map([.requested, .algorithm]) | unique | @json')" '[["bruck","pairwise"]]'
	alltoallv - - -- --explain # auto takes what runs
	grep -qE 'bruck .* falls back to pairwise' 0.err
	[[ $(grep -c ': bruck falls back' 0.err) == 0 ]]
}

@test "--counts that don't fit are refused" {
	local kind
	make_shards 2 f32 6
	refused() { # COUNTS WORDS
		run -2 --separate-stderr collctl run -n 2 -- "$kind" --counts "$1" 'in.{rank}.npy' -o 'out.{rank}.npy'
		[[ $stderr == *"$2"* ]] || fail "$kind --counts $1 says: $stderr"
	}
	for kind in reduce-scatter scatter alltoall; do
		refused 3,4 'in.0.npy: has 6 rows, but --counts add up to 7'
		refused 6 '--counts: has 1 numbers for 2 ranks'
		refused 2,2,2 '--counts: has 3 numbers for 2 ranks'
		refused 3,x "--counts: '3,x' is not a list of rows"
		refused 3,-3 "--counts: '3,-3' is not a list of rows"
		refused 3, "--counts: '3,' is not a list of rows"
		refused , "--counts: ',' is not a list of rows"
		refused 9223372036854775807,9223372036854775807 '--counts'
	done
	kind=gather
	refused 3,3 '--counts is not an option of gather'
	assert_only_files in.0.npy in.1.npy
}

@test "a scalar has no axis 0" {
	local kind
	make_shards 2 f32 '()'
	for kind in reduce-scatter scatter gather allgather alltoall; do
		run -3 --separate-stderr collctl run -n 2 -- "$kind" 'in.{rank}.npy' -o 'out.{rank}.npy'
		[[ $stderr == *'shape ()'*"$kind"*'axis 0'* ]] || fail "$stderr"
	done
	for kind in reduce broadcast scan exscan; do
		collctl run -n 2 -- "$kind" --no-sync 'in.{rank}.npy' -o "out.$kind.{rank}.npy"
	done
	check_coll reduce,broadcast,scan,exscan 2
}

# bats test_tags=smoke
@test "rows may differ, nothing else: 7 everywhere" {
	local kind
	shards f32 exact 3,2 4,2 3,5
	make_secret
	start_serve
	for kind in gather allgather alltoall; do
		ranks 3 "$kind" 'in.{rank}.npy' -o 'out.{rank}.npy'
		assert_ranks 3 7 'in.2.npy: shape (*, 5) differs from (*, 2) on ranks 0, 1'
	done
	rm in.2.npy
	make_shard in.1.npy f64 4,2 1
	ranks 2 alltoall 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 2 7 'dtype f64 differs from f32 on rank 0'
	make_shard in.1.npy f32 4,2,1 1
	ranks 2 gather 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 2 7 'shape (*, 2, 1) differs from (*, 2) on rank 0'
	assert_file_not_exist out.0.npy
}

@test "--counts that differ: 7, but of those of scatter the root's alone count" {
	make_shards 3 f32 6
	make_secret
	start_serve
	rank 0 3 reduce-scatter --counts 1,2,3 in.0.npy -o out.0.npy
	rank 1 3 reduce-scatter --counts 1,2,3 in.1.npy -o out.1.npy
	rank 2 3 reduce-scatter in.2.npy -o out.2.npy
	wait_ranks
	assert_ranks 3 7 'in.2.npy: --counts none differs from 1,2,3 on ranks 0, 1'
	rank 0 3 scatter --root 1 -o out.0.npy
	rank 1 3 scatter --root 1 --counts 1,0,5 in.1.npy -o out.1.npy
	rank 2 3 scatter --root 1 --counts 1,0,5 -o out.2.npy
	wait_ranks
	assert_ranks 3 0
	check_coll --root 1 --counts 1,0,5 scatter 3
	rank 0 2 scatter in.0.npy -o no.0.npy
	rank 1 2 scatter --counts 3,3 -o no.1.npy
	wait_ranks
	assert_ranks 2 7 '--counts'
	assert_file_not_exist no.0.npy
}

@test "--counts too long for a message still differ at their very end" {
	local counts r
	counts=$(printf '100000000000000000,%.0s' {1..29})
	: >in.bin
	make_secret
	start_serve
	for r in {0..29}; do
		rank "$r" 31 reduce-scatter --dtype u8 --shape 2900000000000000003,0 --counts "${counts}1,2" in.bin -o out.bin
	done
	rank 30 31 reduce-scatter --dtype u8 --shape 2900000000000000003,0 --counts "${counts}2,1" in.bin -o out.bin
	wait_ranks
	assert_ranks 31 7 'rank 30' '--counts 100000000000000000,'
}

@test "in place, and larger than --memory" {
	local kind r
	for kind in reduce-scatter allgather alltoall; do
		shards f32 random 999,70 999,70 999,70
		[[ $kind == reduce-scatter ]] || shards f32 random 500,70 1200,70 3,70
		[[ $kind != reduce-scatter ]] || make_shards 3 f32 999,70
		for r in 0 1 2; do cp "in.$r.npy" "io.$r.npy"; done
		collctl run -n 3 -- "$kind" --no-sync --memory 256K --json 'io.{rank}.npy' -o 'io.{rank}.npy' >j
		(($(jq -s 'map(.windows) | min' j) > 1)) || fail "$(<j)"
		check_coll --out 'io.{rank}.npy' "$kind" 3 || fail "$kind"
	done
}

@test "raw files: rows by --shape" {
	local kind r
	for r in 0 1; do make_shard "in.$r.bin" f64 6,5 "$r"; done
	for kind in reduce-scatter gather alltoall; do
		collctl run -n 2 -- "$kind" --no-sync --dtype f64 --shape 6,5 'in.{rank}.bin' -o "out.$kind.{rank}.bin"
	done
	check_coll --dtype f64 --shape 6,5 --in 'in.{rank}.bin' --out 'out.{tag}.{rank}.bin' reduce-scatter,gather,alltoall 2
}

# ---- scan, exscan, exchange ----

@test "scan and exscan: shapes that differ are refused, results belong to their ranks" {
	make_shards 3 f32 6
	make_secret
	start_serve
	ranks 3 scan --json 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 0
	check_coll scan 3
	assert_equal "$(cat 0.out 1.out 2.out | jq -s 'map(.digest) | unique | length')" 3
	make_shard in.1.npy f32 5 1
	ranks 3 exscan 'in.{rank}.npy' -o 'no.{rank}.npy'
	assert_ranks 3 7 'shape (5,) differs from (6,) on ranks 0, 2'
}

# bats test_tags=smoke
@test "exchange: timed, without an output" {
	make_shards 8 f32 1000
	collctl run -n 8 -- exchange --steps 3 --json 'in.{rank}.npy' >j
	assert_equal "$(jq -s -r 'map([.ok, .output, .digest, .count, .bytes_sent, .steps]) | unique | @json' j)" \
		'[[true,null,null,1000,4000,3]]'
	assert_equal "$(jq -s 'map(.seconds.run > 0) | all' j)" true
	collctl run -n 4 -- exchange --steps 1 'in.{rank}.npy' 2>err
	grep -q 'exchange of 4 ranks by pairwise_exchange: .* ms' err
	collctl run -n 4 -- exchange --steps 2 --memory 2K 'in.{rank}.npy'
	assert_only_files in.{0..7}.npy j err
	run -2 --separate-stderr collctl run -n 6 -- exchange --steps 2 'in.{rank}.npy'
	[[ $stderr == *'--steps 2'*'6 ranks'* ]]
	run -2 --separate-stderr collctl run -n 4 -- exchange 'in.{rank}.npy'
	[[ $stderr == *'--steps C'* ]]
	run -2 collctl run -n 4 -- exchange --steps 2 'in.{rank}.npy' -o out.npy
	make_shard in.3.npy f32 999 3
	run -7 collctl run -n 4 -- exchange --steps 2 'in.{rank}.npy'
}
