#!/usr/bin/env bats
# Every operation on every dtype, bit for bit, with the defined rounding and special values.

load helpers

OPS=(sum prod min max avg band bor bxor land lor lxor)

defined() { # is operation $1 defined on dtype $2?
	case $1:$2 in
	sum:* | prod:* | avg:*f* | avg:c*) true ;;
	avg:* | m*:c* | b*:*f* | b*:c* | l*:*f* | l*:c*) false ;;
	esac
}

matrix() { # every operation and dtype over $1 ranks
	local op d
	oracle oracle matrix . "$1"
	for op in "${OPS[@]}"; do
		for d in "${DTYPES[@]}"; do
			defined "$op" "$d" || continue
			# shellcheck disable=SC2046
			collctl run -n "$1" -- allreduce --no-sync --op "$op" $(hints "$d") \
				"$d.{rank}.npy" -o "$op.$d.{rank}.npy" || fail "$op $d"
		done
	done
	oracle oracle check-matrix . "$1"
}

# bats test_tags=smoke
@test "every operation on every dtype, 2 ranks" { matrix 2; }
@test "every operation on every dtype, 5 ranks" { matrix 5; }

# bats test_tags=smoke
@test "operations that a dtype lacks are refused by name" {
	local op d
	oracle oracle matrix . 1
	for op in "${OPS[@]}"; do
		for d in i32 u8 f32 f16 bool c64; do
			if ! defined "$op" "$d"; then
				run -2 --separate-stderr collctl run -n 1 -- allreduce --op "$op" "$d.0.npy" -o out.npy
				[[ $stderr == *"$op"* && $stderr == *"$d"* ]]
			fi
		done
	done
	assert_file_not_exist out.npy
}

@test "an unknown operation is a usage error" {
	make_shards 1 f32 3
	run -2 --separate-stderr collctl run -n 1 -- allreduce --op plus in.0.npy -o out.npy
	[[ $stderr == *plus* ]]
}

@test "random floats: within the rounding of the sums, the same bits on every rank" {
	local d op
	for d in f16 bf16 f32 f64; do
		make_shards 7 $d 41,25 random
		for op in sum avg prod; do
			# shellcheck disable=SC2046
			collctl run -n 7 -- allreduce --no-sync --op $op $(hints $d) 'in.{rank}.npy' -o 'out.{rank}.npy'
			check_out $op 7 --data random
		done
	done
}

@test "NaN, infinities and zeros of both signs" {
	local d op
	for d in f16 bf16 f32 f64; do
		make_shards 3 $d 500 special
		for op in min max sum; do
			# shellcheck disable=SC2046
			collctl run -n 3 -- allreduce --no-sync --op $op $(hints $d) 'in.{rank}.npy' -o 'out.{rank}.npy'
			check_out $op 3 --data special
		done
	done
}

@test "--order rank: added in rank order in f64, rounded once" {
	local d op
	for d in f16 bf16 f32 f64; do
		make_shards 5 $d 1001 random
		for op in sum avg prod; do
			# shellcheck disable=SC2046
			collctl run -n 5 -- allreduce --no-sync --order rank --op $op $(hints $d) \
				'in.{rank}.npy' -o 'out.{rank}.npy'
			check_out $op 5 --data random --order rank
		done
	done
}

@test "--order rank: the same bits for every window" {
	make_shards 3 bf16 300000 random
	collctl run -n 3 -- allreduce --no-sync --order rank --dtype bf16 'in.{rank}.npy' -o 'out.{rank}.npy'
	collctl run -n 3 -- allreduce --no-sync --order rank --dtype bf16 --memory 256K 'in.{rank}.npy' -o 'b.{rank}.npy'
	cmp out.0.npy b.0.npy
	cmp out.0.npy b.2.npy
}

@test "--order rank refuses algorithms that can't" {
	make_shards 2 f32 5
	run -2 --separate-stderr collctl run -n 2 -- allreduce --order rank -a ring_chunked 'in.{rank}.npy' -o 'out.{rank}.npy'
	[[ $stderr == *ring_chunked* ]]
}

@test "the same command gives the same bits every time" {
	local i
	make_shards 5 f32 4099 random
	for i in 1 2 3 4 5 6; do
		collctl run -n 5 -- allreduce --no-sync 'in.{rank}.npy' -o "out.$i.{rank}.npy"
		cmp out.1.0.npy "out.$i.$((i - 1 < 5 ? i - 1 : 0)).npy"
	done
}
