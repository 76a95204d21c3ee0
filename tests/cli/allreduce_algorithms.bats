#!/usr/bin/env bats
# Every algorithm of allreduce over real connections, for sizes with and without structure.

load helpers

# each P [OPTIONS...]: all algorithms on the shards in.R.npy
each() {
	local size=$1 a
	shift
	algorithms_of allreduce >names
	for a in $(<names); do
		collctl run -n "$size" -- allreduce --no-sync -a "$a" --allow-divergent "$@" \
			'in.{rank}.npy' -o "out.{rank}.npy" || fail "$a, $size ranks"
		check_out sum "$size" || fail "$a, $size ranks"
	done
}

@test "allreduce has its algorithms" {
	local a
	algorithms_of allreduce >names
	for a in ring_chunked recursive_doubling circulant direct; do
		grep -qx "$a" names || fail "no $a"
	done
}

# bats test_tags=smoke
@test "every algorithm, 3 ranks" { make_shards 3 f32 101 && each 3; }
@test "every algorithm, 1 rank" { make_shards 1 f32 101 && each 1; }
@test "every algorithm, 2 ranks" { make_shards 2 f32 101 && each 2; }
@test "every algorithm, 4 ranks" { make_shards 4 f32 1024 && each 4; }
@test "every algorithm, 5 ranks" { make_shards 5 f32 101 && each 5; }
@test "every algorithm, 7 ranks" { make_shards 7 f32 11,13 && each 7; }
@test "every algorithm, 8 ranks" { make_shards 8 f32 4099 && each 8; }
@test "every algorithm, 8 ranks and 3 elements" { make_shards 8 i16 3 && each 8; }

@test "every algorithm, 4 ranks of 4 MiB in windows of 256K" {
	make_shards 4 f32 1048576 && each 4 --memory 256K
}

@test "every algorithm with several and uneven local inputs" {
	local a r
	make_shards 5 f32 1021
	make_secret
	start_serve
	algorithms_of allreduce >names
	for a in $(<names); do
		rank 0 3 allreduce --no-sync --allow-divergent -a "$a" in.0.npy in.1.npy -o out.0.npy
		rank 1 3 allreduce --no-sync --allow-divergent -a "$a" in.2.npy -o out.1.npy
		rank 2 3 allreduce --no-sync --allow-divergent -a "$a" in.3.npy in.4.npy -o out.2.npy
		wait_ranks
		for r in 0 1 2; do [[ ${RC[r]} == 0 ]] || fail "$a: rank $r: $(<"$r.err")"; done
		check_numpy sum out.{0..2}.npy --in in.{0..4}.npy || fail "$a"
	done
}

@test "an unknown algorithm is a usage error that names the known ones" {
	make_shards 1 f32 3
	run -2 --separate-stderr collctl run -n 1 -- allreduce -a rang in.0.npy -o out.npy
	[[ $stderr == *rang* && $stderr == *ring_chunked* ]]
}
