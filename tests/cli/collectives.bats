#!/usr/bin/env bats
# Every algorithm of every collective with real processes: sizes with and without structure, counts
# that P does not divide, fewer elements than ranks, no elements, one rank, and windows.

load helpers

ROOTED='reduce broadcast scatter gather'
OTHERS='reduce-scatter allgather alltoall scan exscan'
ALL=reduce,broadcast,scatter,gather,reduce-scatter,allgather,alltoall,scan,exscan

# all P [OPTIONS...]: every collective on in.R.npy, each by all its algorithms, the last rank the root
all() {
	local size=$1 root=$(($1 - 1)) kind
	shift
	TAGS=()
	for kind in $OTHERS; do every "$kind" "$size" "$@"; done
	for kind in $ROOTED; do every "$kind" "$size" --root "$root" "$@"; done
	check_coll --root "$root" "$ALL" "$size" "${TAGS[@]}" || fail "$size ranks"
}

# bats test_tags=smoke
@test "3 ranks" { shards f32 exact 7,3 7,3 7,3 && all 3; }
@test "1 rank" { shards f64 exact 5,2 && all 1; }
@test "2 ranks" { make_shards 2 u8 9 && all 2; }
@test "4 ranks, even" { make_shards 4 f32 16,5 && all 4; }
@test "5 ranks" { make_shards 5 i32 23,2 && all 5; }
@test "8 ranks" { make_shards 8 f16 37 && all 8; }
@test "6 ranks and 4 rows" { make_shards 6 i64 4,2 && all 6; }
@test "5 ranks and no rows, and rows without elements" {
	make_shards 5 f32 0,3 && all 5
	make_shards 5 f32 7,0 && all 5
}
@test "4 ranks, bf16" { make_shards 4 bf16 11,3 && all 4 --dtype bf16; }

@test "7 ranks in windows of a few elements: rounding cuts each elsewhere" {
	make_shards 7 f32 1001 && all 7 --memory 2K --streams 2
}

# bats test_tags=smoke
@test "4 ranks over TLS, through a store, each with a line of its own" {
	local kind r
	make_shards 4 f32 13,5
	make_secret
	start_serve
	for kind in reduce reduce-scatter broadcast scatter gather allgather alltoall scan exscan; do
		for r in 0 1 2 3; do
			rank "$r" 4 "$kind" "in.$r.npy" -o "out.$kind.$r.npy" --no-sync
		done
		wait_ranks
		assert_ranks 4 0
	done
	check_coll "$ALL" 4
}

@test "2 MiB on 4 ranks within 1 MiB: several windows and streams" {
	local kind
	make_shards 4 f32 1024,512
	for kind in reduce-scatter broadcast scatter gather allgather alltoall scan; do
		collctl run -n 4 -- "$kind" --no-sync --memory 1M --json 'in.{rank}.npy' -o 'out.{rank}.npy' >j
		(($(jq -s 'map(.windows) | min' j) > 1)) || fail "$kind: one window: $(<j)"
		check_coll "$kind" 4
		rm out.*
	done
}

# ---- every dtype and operation ----

@test "all dtypes travel as they are" {
	local d kind
	for d in i8 u16 u32 i64 f16 bf16; do
		make_shards 3 "$d" 10,2 special
		for kind in broadcast scatter gather allgather alltoall; do
			# shellcheck disable=SC2046
			collctl run -n 3 -- "$kind" --no-sync --insecure $(hints "$d") \
				'in.{rank}.npy' -o "out.$kind.{rank}.npy"
		done
		check_coll broadcast,scatter,gather,allgather,alltoall 3 || fail "$d"
		rm out.*
	done
}

@test "every operation of the reductions" {
	local op kind kinds d
	for op in sum prod min max avg band bor bxor; do
		d=i16
		[[ $op != avg ]] || d=f32
		make_shards 3 $d 11,2
		kinds=reduce,reduce-scatter
		[[ $op == avg ]] || kinds+=,scan,exscan
		for kind in ${kinds//,/ }; do
			collctl run -n 3 -- "$kind" --no-sync --insecure --op $op 'in.{rank}.npy' -o "out.$kind.{rank}.npy"
		done
		check_coll --op $op $kinds 3 || fail "$op"
	done
	for kind in scan exscan; do
		run -2 --separate-stderr collctl run -n 1 -- "$kind" --op avg in.0.npy -o out.npy
		[[ $stderr == *avg*"$kind"* ]]
	done
}

@test "exscan: rank 0 gets the identity, of every operation and sign" {
	local op d
	for d in i8 u32 f16 bf16 f64; do
		make_shards 2 $d 5
		for op in sum prod min max $([[ $d == *f* ]] || echo band bor bxor); do
			# shellcheck disable=SC2046
			collctl run -n 2 -- exscan --no-sync --insecure --op "$op" $(hints "$d") \
				'in.{rank}.npy' -o "out.$d.$op.{rank}.npy"
		done
		cp in.0.npy "in.$d.npy"
	done
	"$PYTHON" - "$HELPERS_DIR" out.*.0.npy <<-'EOT'
		import sys
		sys.path.insert(0, sys.argv[1])
		import oracle
		for path in sys.argv[2:]:
		    _, dtype, op, _, _ = path.split(".")
		    first, _ = oracle.load(f"in.{dtype}.npy")
		    want = oracle.identity(op, first, dtype)
		    got, got_dtype = oracle.load(path)
		    assert got_dtype == dtype and got.tobytes() == want.tobytes(), (path, got, want)
		assert len(sys.argv) == 2 + 2 * 7 + 3 * 4
	EOT
}

# bats test_tags=smoke
@test "several and uneven local inputs, one output or one for each" {
	local kind r
	shards f32 exact 9,2 9,2 9,2 9,2 9,2
	make_secret
	start_serve
	for kind in reduce reduce-scatter; do
		rank 0 2 "$kind" --op avg --no-sync in.0.npy in.1.npy -o out.0.npy -o copy.0.npy
		rank 1 2 "$kind" --op avg --no-sync in.2.npy in.3.npy in.4.npy -o out.1.npy
		wait_ranks
		assert_ranks 2 0
		cmp out.0.npy copy.0.npy
		"$PYTHON" - "$kind" <<-'EOT'
			import sys, numpy as np
			want = sum(np.load(f"in.{i}.npy") for i in range(5)) / np.float32(5)
			want = [want] if sys.argv[1] == "reduce" else np.array_split(want, 2)
			for r, w in enumerate(want):
			    assert np.array_equal(np.load(f"out.{r}.npy"), w), r
		EOT
		rm -f out.* copy.*
	done
}

# ---- order, divergence, fall-backs ----

@test "--order rank: the bits of numpy's sum in rank order, whatever the algorithm, windows and streams" {
	local kind a n=0
	make_shards 5 f32 211,3 random
	for kind in allreduce reduce reduce-scatter scan exscan; do
		for a in auto $(algorithms_of "$kind"); do
			if ! collctl run -n 5 -- "$kind" --no-sync --insecure --allow-divergent --order rank -a "$a" \
				'in.{rank}.npy' -o "out.$kind.{rank}.npy" 2>err; then
				grep -q "$a cannot add in rank order" err || fail "$kind $a: $(<err)"
				continue
			fi
			n=$((n + 1))
			collctl run -n 5 -- "$kind" --no-sync --insecure --allow-divergent --order rank -a "$a" \
				--memory 1K --streams 3 'in.{rank}.npy' -o "out.$kind.w.{rank}.npy"
			check_coll --order rank "$kind" 5 "$kind" "$kind.w" || fail "$kind $a"
		done
	done
	((n >= 10)) || fail "only $n could"
}

@test "--order rank of 16-bit floats and of averages" {
	local d kind
	for d in f16 bf16; do
		make_shards 4 $d 31 random
		for kind in reduce reduce-scatter scan; do
			# shellcheck disable=SC2046
			collctl run -n 4 -- "$kind" --no-sync --insecure --order rank $(hints "$d") \
				'in.{rank}.npy' -o "out.$kind.{rank}.npy"
		done
		check_coll --order rank reduce,reduce-scatter,scan 4 || fail "$d"
		# shellcheck disable=SC2046
		collctl run -n 4 -- reduce-scatter --no-sync --insecure --order rank --op avg $(hints "$d") \
			'in.{rank}.npy' -o 'out.avg.{rank}.npy'
		check_coll --order rank --op avg reduce-scatter 4 avg
	done
}

# bats test_tags=smoke
@test "an algorithm whose bits differ between ranks needs --allow-divergent for float sums" {
	make_shards 3 f32 6
	local op
	for op in sum prod avg; do
		run -2 --separate-stderr collctl run -n 3 -- allreduce -a ring --op $op 'in.{rank}.npy' -o 'out.{rank}.npy'
		[[ $stderr == *ring*--allow-divergent* ]]
		assert_file_not_exist out.0.npy
	done
	collctl run -n 3 -- allreduce --no-sync -a ring --allow-divergent 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_coll allreduce 3
	collctl run -n 3 -- allreduce --no-sync -a ring --op max 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_coll --op max allreduce 3
	make_shards 3 i32 6
	collctl run -n 3 -- allreduce --no-sync -a ring 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_coll allreduce 3
}

@test "auto takes no divergent algorithm, nor one that cannot add in rank order" {
	local r
	make_shards 5 f32 10
	for r in 1 2 3; do
		collctl run -n 5 -- allreduce --no-sync --insecure --json 'in.{rank}.npy' -o 'out.{rank}.npy' >j
		assert_equal "$(jq -s 'map(.algorithm != "ring" and .requested == "auto") | all' j)" true
	done
	make_shards 5 f32 10 random
	collctl run -n 5 -- reduce --no-sync --insecure --order rank 'in.{rank}.npy' -o 'out.r.{rank}.npy'
	check_coll --order rank reduce 5 r
}

@test "a fall-back is announced on stderr and in the JSON" {
	make_shards 3 f32 4,2
	collctl run -n 3 -- allgather --no-sync --insecure --json -a neighbor 'in.{rank}.npy' -o 'out.{rank}.npy' >j 2>err
	check_coll allgather 3
	assert_equal "$(jq -s 'map([.requested, .algorithm]) | unique | @json' -r j)" '[["neighbor","ring"]]'
	assert_equal "$(grep -c 'neighbor falls back to ring' err)" 1
	collctl run -n 3 -- allgather -q --no-sync --insecure -a neighbor 'in.{rank}.npy' -o 'out.{rank}.npy' 2>err
	[[ ! -s err ]] || fail "-q says: $(<err)"
	make_shards 4 f32 4,2
	collctl run -n 4 -- allgather --no-sync --insecure --json -a neighbor 'in.{rank}.npy' -o 'out.{rank}.npy' >j 2>err
	assert_equal "$(jq -s 'map(.algorithm) | unique | @json' -r j)" '["neighbor"]'
	[[ ! -s err ]] || fail "says: $(<err)"
}

@test "--base changes the rounds, not the result" {
	local base steps=''
	make_shards 8 f32 64
	for base in 2 3 8; do
		collctl run -n 8 -- allreduce --no-sync --insecure --json -a bcube --base $base \
			'in.{rank}.npy' -o 'out.{rank}.npy' >j
		check_coll allreduce 8
		steps+=" $(jq -s 'map(.steps) | max' j)"
		collctl run -n 8 -- allgather --no-sync --insecure -a bruck --base $base 'in.{rank}.npy' -o 'out.{rank}.npy'
		check_coll allgather 8
	done
	assert_equal "$(tr ' ' '\n' <<<"$steps" | grep . | sort -u | wc -l)" 2
	run -2 collctl run -n 2 -- allreduce --base 1 in.0.npy -o out.npy
}

@test "--json: count and bytes are those of the vector, busbw has nccl-tests' factor" {
	local kind want
	make_shards 4 f32 8,3
	for kind in allreduce reduce reduce-scatter broadcast scatter gather allgather alltoall scan exscan; do
		collctl run -n 4 -- "$kind" --no-sync --insecure --json 'in.{rank}.npy' -o 'out.{rank}.npy' >j
		case $kind in
		gather | allgather) want='[96,384]' ;;
		*) want='[24,96]' ;;
		esac
		assert_equal "$(jq -s -r 'map([.count, .bytes]) | unique | .[] | @json' j)" "$want"
		case $kind in
		allreduce) want=1.5 ;;
		reduce-scatter | scatter | gather | allgather | alltoall) want=0.75 ;;
		*) want=1 ;;
		esac
		assert_equal "$(jq -s "map((.busbw / .algbw - $want) | fabs < 2e-5) | all" j)" true # 6 digits
		assert_equal "$(jq -s -r 'map(.op) | unique | @json' j)" \
			"$([[ $kind =~ reduce|scan ]] && echo '["sum"]' || echo '[null]')"
	done
}
