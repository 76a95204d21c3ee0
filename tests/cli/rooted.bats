#!/usr/bin/env bats
# Collectives with a root: all ranks use the same command line, and files without a part do not change.

load helpers

@test "every rank may be the root" {
	local kind root
	make_shards 3 f32 7,2
	for root in 0 1 2; do
		for kind in reduce broadcast scatter gather; do
			collctl run -n 3 -- "$kind" --no-sync --insecure --root $root 'in.{rank}.npy' -o "out.$kind.{rank}.npy"
		done
		check_coll --root $root reduce,broadcast,scatter,gather 3
		rm out.*
	done
}

# bats test_tags=smoke
@test "ranks other than the root need no input of broadcast and scatter" {
	local kind
	make_shards 4 f32 9
	mv in.2.npy root.npy
	rm in.*
	make_secret
	start_serve
	for kind in broadcast scatter; do
		rank 0 4 $kind --root 2 nowhere.npy -o "out.$kind.0.npy"
		rank 1 4 $kind --root 2 -o "out.$kind.1.npy"
		rank 2 4 $kind --root 2 root.npy -o "out.$kind.2.npy"
		rank 3 4 $kind --root 2 - -o "out.$kind.3.npy" </dev/null
		wait_ranks
		assert_ranks 4 0
	done
	check_coll --root 2 --in root.npy broadcast,scatter 4
}

@test "who is not the root writes nothing in reduce and gather, and may leave -o out" {
	local kind
	make_shards 3 f32 5
	make_secret
	start_serve
	for kind in reduce gather; do
		rank 0 3 $kind --root 1 in.0.npy -o nowhere/out.npy
		rank 1 3 $kind --root 1 in.1.npy -o "out.$kind.1.npy"
		rank 2 3 $kind --root 1 in.2.npy --json
		wait_ranks
		assert_ranks 3 0
		assert_equal "$(json 2.out '[.output, .digest] | @json')" '[null,null]'
	done
	check_coll --root 1 reduce,gather 3
	assert_only_files in.{0..2}.npy out.{reduce,gather}.1.npy job.key serve.1.{port,out,err} {0..2}.{out,err}
}

@test "the root without its input, or without -o, fails every rank with 2" {
	make_shards 2 f32 4
	make_secret
	start_serve
	ranks 2 broadcast --root 1 -o 'out.{rank}.npy'
	assert_ranks 2 2 'rank 1 is the root: give its input'
	ranks 2 gather --root 1 'in.{rank}.npy'
	assert_ranks 2 2 'rank 1' 'give -o FILE'
	assert_file_not_exist out.0.npy
}

@test "a root outside the job is a usage error" {
	make_shards 1 f32 4
	run -2 --separate-stderr collctl run -n 2 -- reduce --root 2 in.0.npy -o out.npy
	[[ $stderr == *'--root 2'*'0 to 1'* ]]
	run -2 collctl run -n 2 -- allreduce --root 1 in.0.npy -o out.npy
}

# bats test_tags=smoke
@test "broadcast --raw-file: any bytes, whatever the name" {
	local size
	for size in 0 1 1000 3000001; do
		head -c "$size" /dev/urandom >'what ever.pt'
		collctl run -n 3 -- broadcast --no-sync --raw-file --root 1 --json 'what ever.pt' -o 'copy {rank}.tar.gz' >j
		for r in 0 1 2; do cmp "what ever.pt" "copy $r.tar.gz"; done
		assert_equal "$(jq -s -r 'map([.bytes, .digest]) | unique | length' j)" 1
		assert_equal "$(jq -s -r '.[0].bytes' j)" "$size"
	done
	run -2 --separate-stderr collctl run -n 1 -- broadcast --raw-file --dtype f32 j -o k
	[[ $stderr == *--dtype*--raw-file* ]]
	run -2 --separate-stderr collctl run -n 1 -- broadcast j -o k
	[[ $stderr == *'unknown format'*--raw-file* ]] || fail "$stderr"
}

@test "raw arrays: the root's dtype and shape are all that is needed" {
	local r
	make_shard root.bin i16 6,4 1
	make_secret
	start_serve
	for kind in broadcast scatter; do
		rank 0 3 $kind --root 1 -o "out.$kind.0.bin"
		rank 1 3 $kind --root 1 --dtype i16 --shape 6,4 root.bin -o "out.$kind.1.bin"
		rank 2 3 $kind --root 1 -o "out.$kind.2.bin"
		wait_ranks
		assert_ranks 3 0
	done
	check_coll --root 1 --dtype i16 --shape 6,4 --in root.bin --out 'out.{tag}.{rank}.bin' broadcast,scatter 3
}

@test "the output has the root's format: a name that says another is refused everywhere" {
	make_shards 1 f32 4
	make_secret
	start_serve
	rank 0 2 broadcast in.0.npy -o out.0.npy
	rank 1 2 broadcast -o out.1.bin
	wait_ranks
	assert_ranks 2 2 'rank 1' out.1.bin .npy
	rank 0 2 broadcast in.0.npy -o out.0.npy
	rank 1 2 broadcast --format raw -o out.1.npy
	wait_ranks
	assert_ranks 2 2 'rank 1' out.1.npy '--format npy'
	assert_only_files in.0.npy job.key serve.1.{port,out,err} {0,1}.{out,err}
}

@test "in place: the output names the input" {
	local kind r
	for kind in reduce broadcast scatter gather; do
		make_shards 3 f32 8,3
		for r in 0 1 2; do cp "in.$r.npy" "io.$r.npy"; done
		collctl run -n 3 -- "$kind" --no-sync --insecure --root 1 'io.{rank}.npy' -o 'io.{rank}.npy'
		for r in 0 2; do
			[[ $kind != reduce && $kind != gather ]] || { cmp "in.$r.npy" "io.$r.npy" && rm "io.$r.npy"; }
		done
		check_coll --root 1 --out 'io.{rank}.npy' "$kind" 3 || fail "$kind"
	done
}

@test "stdin and stdout, at the root and at the others" {
	make_shards 3 f32 6,2
	collctl run -n 3 -- gather --no-sync 'in.{rank}.npy' -o - >out.0.npy
	check_coll gather 3
	mv out.0.npy whole.npy
	collctl run -n 3 --label -- scatter --no-sync - -o 'out.{rank}.npy' <whole.npy
	check_coll --in whole.npy scatter 3
	collctl run -n 1 -- broadcast --raw-file - -o - <whole.npy >copy
	cmp copy whole.npy
}

# bats test_tags=smoke
@test "roots, dtypes and files that differ: 7 everywhere, both named" {
	make_shards 3 f32 6
	make_secret
	start_serve
	rank 0 3 reduce in.0.npy -o out.0.npy
	rank 1 3 reduce --root 1 in.1.npy -o out.1.npy
	rank 2 3 reduce in.2.npy -o out.2.npy
	wait_ranks
	assert_ranks 3 7 'rank 1' '--root 1 differs from 0 on ranks 0, 2'
	rank 0 2 broadcast --raw-file in.0.npy -o out.0.npy
	rank 1 2 broadcast -o out.1.npy
	wait_ranks
	assert_ranks 2 7 '--raw-file not given differs from given on rank 0'
	make_shard in.1.npy f64 6 1
	ranks 3 gather 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 7 'in.1.npy: dtype f64 differs from f32 on ranks 0, 2'
	rank 0 2 broadcast in.0.npy -o out.0.npy
	rank 1 2 scatter -o out.1.npy
	wait_ranks
	assert_ranks 2 7 'scatter' 'broadcast'
	assert_file_not_exist out.0.npy
}

@test "a root whose input is missing or truncated fails every rank with 3" {
	make_shards 1 f32 100
	make_secret
	start_serve
	ranks 3 broadcast nowhere.npy -o 'out.{rank}.npy'
	assert_ranks 3 3 'rank 0' nowhere.npy
	truncate -s 300 in.0.npy
	ranks 3 scatter in.0.npy -o 'out.{rank}.npy'
	assert_ranks 3 3 'rank 0' in.0.npy
	assert_file_not_exist out.1.npy
}

@test "a file larger than --memory streams through all ranks" {
	make_shard in.0.npy f32 1500000 0 random
	local kind
	for kind in broadcast scatter; do
		collctl run -n 3 -- "$kind" --no-sync --memory 1M --json in.0.npy -o "out.$kind.{rank}.npy" >j
		(($(jq -s 'map(.windows) | min' j) > 3)) || fail "$(<j)"
	done
	check_coll --in in.0.npy broadcast,scatter 3
}
