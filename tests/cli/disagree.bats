#!/usr/bin/env bats
# Ranks that disagree: all fail with the same code, name the rank and the difference, and write
# nothing. Numbers are the rows of the table of faults.

load helpers

setup() {
	common_setup
	make_secret
}

assert_no_output() {
	local left
	left=$(find . -name 'out*' -o -name '.out*')
	assert_equal "$left" ''
}

# bats test_tags=smoke
@test "15: shapes differ: 7 everywhere, the rank and both shapes named" {
	make_shards 4 f32 3,4
	make_shard in.2.npy f32 3,5 2
	start_serve
	ranks 4 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 4 7 'rank 2' '(3, 5)' '(3, 4)'
	assert_no_output
}

@test "15: dtypes differ: 7 everywhere" {
	make_shards 3 f32 6
	make_shard in.1.npy f64 6 1
	start_serve
	ranks 3 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 7 'rank 1' f64 f32
	assert_no_output
}

@test "15: operations differ: 7 everywhere" {
	make_shards 3 f32 6
	start_serve
	rank 0 3 allreduce in.0.npy -o out.0.npy
	rank 1 3 allreduce in.1.npy -o out.1.npy
	rank 2 3 allreduce --op max in.2.npy -o out.2.npy
	wait_ranks
	assert_ranks 3 7 'rank 2' max sum
	assert_no_output
}

@test "15: collectives differ: 7 everywhere" {
	make_shards 2 f32 6
	start_serve
	rank 0 2 allreduce in.0.npy -o out.0.npy
	rank 1 2 barrier
	wait_ranks
	assert_ranks 2 7 allreduce barrier
	assert_no_output
}

@test "15: algorithms differ: 7 everywhere" {
	make_shards 2 f32 6
	start_serve
	rank 0 2 allreduce -a ring_chunked in.0.npy -o out.0.npy
	rank 1 2 allreduce -a direct in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 7 ring_chunked direct
	assert_no_output
}

@test "a single dissenting rank 0 is named too" {
	make_shards 3 f32 6
	make_shard in.0.npy f32 7 0
	start_serve
	ranks 3 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 7 '(7,)' '(6,)'
	assert_no_output
}

@test "the shapes of one rank's own inputs differ: a failure that names both files" {
	make_shards 2 f32 6
	make_shard in.1.npy f32 7 0
	run --separate-stderr collctl run -n 1 -- allreduce in.0.npy in.1.npy -o out.npy
	((status == 3 || status == 7))
	[[ $stderr == *in.1.npy* && $stderr == *'(7,)'* && $stderr == *'(6,)'* ]]
	assert_no_output
}

@test "--json carries the disagreement" {
	make_shards 2 f32 6
	make_shard in.1.npy f64 6 1
	start_serve
	ranks 2 allreduce --json 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 2 7
	assert_equal "$(json 0.out '[.ok, .error.code, .error.name, .rank] | @json')" '[false,7,"disagree",0]'
	assert_equal "$(json 1.out '[.ok, .error.code, .rank] | @json')" '[false,7,1]'
}

# bats test_tags=smoke
@test "7: a rank started twice: the second gets 7, the job succeeds" {
	local first second
	make_shards 3 f32 6
	start_serve
	rank 0 3 allreduce in.0.npy -o out.0.npy
	rank 1 3 allreduce in.1.npy -o out.1.npy
	first=${PIDS[1]}
	spawn_rank 9 "$COLLCTL" allreduce -r 1 -n 3 -R "$STORE" -j job --secret-file "$SECRET" in.1.npy -o out.1.npy
	second=${PIDS[9]}
	# The job waits for rank 2, so the process that ends now is the second of the two.
	RC[9]=0
	wait -n "$first" "$second" || RC[9]=$?
	assert_equal "${RC[9]}" 7
	if ! kill -0 "$first" 2>/dev/null; then
		PIDS[1]=$second
		cp 1.err 9.seen
	else
		cp 9.err 9.seen
	fi
	unset 'PIDS[9]'
	grep -qF 'rank 1' 9.seen
	rank 2 3 allreduce in.2.npy -o out.2.npy
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "8: sizes differ: 7, both named" {
	make_shards 2 f32 6
	start_serve
	rank 0 2 allreduce in.0.npy -o out.0.npy
	rank 1 3 allreduce in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 7 'rank 1: --size 3 differs from 2 on rank 0'
	assert_no_output
}

@test "8: a rank outside the size: refused, both named" {
	make_shards 1 f32 6
	start_serve
	rank 4 4 allreduce in.0.npy -o out.0.npy
	wait_ranks
	assert_rank 4 2 'rank 4' '0 to 3'
	assert_no_output
}

@test "secured and --insecure ranks don't mix" {
	make_shards 2 f32 6
	start_serve
	rank 0 2 allreduce --join-timeout 4s in.0.npy -o out.0.npy
	spawn_rank 1 "$COLLCTL" allreduce --insecure --join-timeout 4s -r 1 -n 2 -R "$STORE" -j job in.1.npy -o out.1.npy
	wait_ranks
	[[ ${RC[0]} != 0 && ${RC[1]} != 0 ]]
	assert_no_output
}

@test "8: an array and named tensors: 7" {
	make_shards 1 f32 6
	"$PYTHON" -c 'import numpy as np; np.savez("in.1.npz", a=np.zeros(6, "f4"))'
	start_serve
	rank 0 2 allreduce in.0.npy -o out.0.npy
	rank 1 2 allreduce in.1.npz -o out.1.npz
	wait_ranks
	assert_ranks 2 7 'rank 1: in.1.npz: content named tensors differs from one array on rank 0'
	rm in.1.npz
	assert_no_output
}
