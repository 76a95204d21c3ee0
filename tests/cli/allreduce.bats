#!/usr/bin/env bats
# allreduce: results compared with numpy, for files, shapes, inputs and kinds of rendezvous.

load helpers

# bats test_tags=smoke
@test "four ranks sum their shards" {
	make_shards 4 f32 3,5
	run -0 --separate-stderr collctl run -n 4 -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_output ''
	check_out sum 4
	assert_only_files {in,out}.{0..3}.npy
}

# bats test_tags=smoke
@test "one rank alone gets the reduction of its own inputs" {
	make_shards 2 f32 4,4
	collctl run -n 1 -- allreduce in.0.npy in.1.npy -o out.npy
	check_numpy sum out.npy --in in.0.npy in.1.npy
	collctl run -n 1 -- allreduce in.0.npy -o same.npy
	cmp in.0.npy same.npy
}

# bats test_tags=smoke
@test "several local inputs are reduced too" {
	make_shards 6 i32 50
	collctl run -n 2 -- allreduce 'in.{rank}.npy' in.2.npy in.3.npy -o 'out.{rank}.npy'
	check_numpy sum out.0.npy out.1.npy --in in.0.npy in.1.npy in.2.npy in.2.npy in.3.npy in.3.npy
}

@test "the number of inputs may differ between ranks; avg divides by all of them" {
	local op
	make_shards 6 f32 7,3
	make_secret
	start_serve
	for op in sum avg min; do
		rank 0 3 allreduce --op "$op" in.0.npy in.1.npy in.2.npy -o out.0.npy
		rank 1 3 allreduce --op "$op" in.3.npy -o out.1.npy
		rank 2 3 allreduce --op "$op" in.4.npy in.5.npy -o out.2.npy
		wait_ranks
		assert_ranks 3 0
		# shellcheck disable=SC2046
		check_numpy "$op" $(numbered out. 3 .npy) --in $(numbered in. 6 .npy)
	done
}

@test "empty arrays, scalars, one element, fewer elements than ranks" {
	local shape
	for shape in 0 3,0,2 '()' 1 2 3 4; do
		make_shards 5 f64 "$shape"
		collctl run -n 5 -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
		check_out sum 5
	done
}

@test "shapes are kept" {
	local shape
	for shape in 1,1,1 17 2,3,5,7 1,1000 1000,1 2,1,2,1,2,1,2,1,2,1; do
		make_shards 3 i64 "$shape"
		collctl run -n 3 -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
		check_out sum 3
	done
}

# bats test_tags=smoke
@test "in place: the output names the input" {
	make_shards 3 f32 100,7
	for r in 0 1 2; do cp "in.$r.npy" "out.$r.npy"; done
	collctl run -n 3 -- allreduce 'out.{rank}.npy' -o 'out.{rank}.npy'
	check_out sum 3
	assert_only_files {in,out}.{0..2}.npy
}

@test "{rank} and {size} are replaced in every file name" {
	make_shards 2 u8 9
	mkdir d0 d1
	collctl run -n 2 -- allreduce 'in.{rank}.npy' -o 'd{rank}/out-{rank}of{size}.npy'
	check_numpy sum d0/out-0of2.npy d1/out-1of2.npy --in in.0.npy in.1.npy
}

@test "raw files with --dtype and --shape" {
	local d
	for d in f32 bf16 i16; do
		for r in 0 1 2; do make_shard "in.$r.bin" "$d" 6,5 "$r"; done
		collctl run -n 3 -- allreduce --dtype "$d" --shape 6,5 'in.{rank}.bin' -o 'out.{rank}.bin'
		# shellcheck disable=SC2046
		check_numpy --dtype "$d" sum $(numbered out. 3 .bin) --in $(numbered in. 3 .bin)
		collctl run -n 3 -- allreduce --dtype "$d" 'in.{rank}.bin' -o 'flat.{rank}.bin'
		cmp out.0.bin flat.0.bin
	done
}

@test "raw without --dtype is a usage error that says so" {
	make_shard in.0.bin f32 5 0
	run -2 --separate-stderr collctl run -n 1 -- allreduce in.0.bin -o out.bin
	[[ $stderr == *--dtype* ]]
	assert_file_not_exist out.bin
}

@test "an output of another mode is replaced, and the old bytes are gone" {
	make_shards 2 f32 8
	echo old >out.0.npy
	echo old >out.1.npy
	collctl run -n 2 -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_out sum 2
}

# bats test_tags=smoke
@test "--json prints one object with the contract's fields; the digests agree" {
	local r key
	make_shards 3 f32 10,10
	make_secret
	start_serve
	ranks 3 allreduce --json --op max 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 0
	for r in 0 1 2; do
		for key in command ok rank size hosts algorithm op dtype count bytes inputs output digest steps \
			peers bytes_sent bytes_received seconds algbw busbw error; do
			assert_equal "$(json "$r.out" "has(\"$key\")")" true
		done
		assert_equal "$(json "$r.out" '[.command, .ok, .rank, .size, .op, .dtype, .count, .bytes, .error]
			| @json')" "[\"allreduce\",true,$r,3,\"max\",\"f32\",100,400,null]"
		assert_equal "$(json "$r.out" '[.inputs, .output] | @json')" "[[\"in.$r.npy\"],\"out.$r.npy\"]"
		assert_equal "$(json "$r.out" '.seconds | keys | sort | @json')" \
			'["commit","connect","join","run","total"]'
		assert_equal "$(json "$r.out" .digest)" "$(json 0.out .digest)"
	done
	[[ $(json 0.out .digest) =~ ^[0-9a-f]{32}$ ]]
	check_out max 3
}

@test "18 ranks, which ask for the addresses of their peers" {
	make_shards 18 f32 100
	collctl run -n 18 -- allreduce -vv -a ring --allow-divergent 'in.{rank}.npy' -o 'out.{rank}.npy' 2>err
	check_out sum 18
	assert_equal "$(grep -c 'sending to rank [0-9]* at 127\.0\.0\.1:[1-9]' err)" 18
	assert_equal "$(grep -c 'receiving from rank [0-9]* at 127\.0\.0\.1:[1-9]' err)" 18
	collctl run -n 18 -- allreduce -a direct 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_out sum 18
}

@test "ranks with one identity of their host are on one host" {
	make_shards 4 f32 100
	# shellcheck disable=SC2016 # for the ranks' shells
	local rank='exec "$COLLCTL_BIN" allreduce -v --json "in.$COLLCTL_RANK.npy" -o "out.$COLLCTL_RANK.npy" >$COLLCTL_RANK.out'
	COLLCTL_BIN=$COLLCTL collctl run -n 4 -- sh -c "$rank"
	assert_equal "$(jq -c .hosts ./[0-3].out | tr '\n' ' ')" '1 1 1 1 '
	# shellcheck disable=SC2016
	COLLCTL_BIN=$COLLCTL collctl run -n 4 -- sh -c "export COLLCTL_HOST_ID=n\$((COLLCTL_RANK / 2)); $rank" 2>err
	assert_equal "$(jq -c .hosts ./[0-3].out | tr '\n' ' ')" '2 2 2 2 '
	assert_equal "$(grep -c 'all 4 ranks have joined and agree; they are on 2 hosts' err)" 4
	check_out sum 4
}

@test "--json on failure: the error object, and nothing on stdout but it" {
	make_shards 1 f32 4
	run -3 --separate-stderr collctl allreduce --json -n 1 -r 0 missing.npy -o out.npy --insecure
	printf '%s\n' "$output" >j
	assert_equal "$(json j '[.ok, .error.code, .error.name] | @json')" '[false,3,"input"]'
	[[ $(json j .error.message) == *missing.npy* ]]
	[[ $(json j .error.subject) == *missing.npy ]]
}

@test "--json with -o - is a usage error" {
	make_shards 1 f32 4
	run -2 collctl run -n 1 -- allreduce --json in.0.npy -o -
}

@test "-o - writes the array to stdout, - reads it from stdin" {
	make_shards 2 f32 5,5
	make_secret
	start_serve
	rank 0 2 allreduce in.0.npy -o - --format npy
	# shellcheck disable=SC2016
	rank_from_stdin() { "$COLLCTL" "$@" <in.1.npy; }
	spawn_rank 1 rank_from_stdin allreduce - --format npy -o out.1.npy -r 1 -n 2 -R "$STORE" -j job \
		--secret-file "$SECRET"
	wait_ranks
	assert_ranks 2 0
	cmp 0.out out.1.npy
	check_numpy sum out.1.npy --in in.0.npy in.1.npy
}

@test "a small --memory gives the same bits as a large one" {
	local P=3
	make_shards $P f32 8388608 random
	collctl run -n $P -- allreduce --no-sync -a ring_chunked 'in.{rank}.npy' -o 'out.{rank}.npy'
	collctl run -n $P -- allreduce --no-sync -a ring_chunked --memory 1M 'in.{rank}.npy' -o 'small.{rank}.npy'
	check_out sum $P --data random
	cmp small.0.npy small.1.npy
	cmp small.0.npy small.2.npy
	check_numpy --data random sum small.0.npy --in in.{0..2}.npy
	# The order of the operands depends on the block, and windows divide every block in the same way.
	cmp out.0.npy small.0.npy
}

# bats test_tags=smoke
@test "--insecure: plain TCP, the same result" {
	make_shards 4 f32 33,3
	start_serve
	local r
	for r in 0 1 2 3; do
		spawn_rank "$r" "$COLLCTL" allreduce --insecure -n 4 -r "$r" -R "$STORE" "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 4 0
	check_out sum 4
}

@test "no secret and no --insecure: refused with what to do, before anything moves" {
	make_shards 1 f32 3
	run -6 --separate-stderr collctl allreduce -n 2 -r 0 -R http://127.0.0.1:9 in.0.npy -o out.npy
	[[ $stderr == *secret* ]]
	assert_only_files in.0.npy
}

# bats test_tags=smoke
@test "through a store, the record withdrawn at the end" {
	make_shards 4 f64 21
	make_secret
	start_serve
	ranks 4 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 4 0
	check_out sum 4
	assert_no_record
}

@test "through a store with --rank auto" {
	local r
	make_shards 3 f32 11
	make_secret
	start_serve
	for r in 0 1 2; do
		spawn_rank "$r" "$COLLCTL" allreduce -n 3 -r auto -R "$STORE" -j job --secret-file "$SECRET" \
			--json 'in.{rank}.npy' -o 'out.{rank}.npy'
	done
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
	assert_equal "$(cat 0.out 1.out 2.out | jq -s 'map(.rank) | sort | @json' -r)" '[0,1,2]'
}

@test "--rank auto and numbers may be mixed, whoever coordinates" {
	make_shards 2 f32 11
	make_secret
	start_serve
	spawn_rank 1 "$COLLCTL" allreduce -n 2 -r auto -R "$STORE" -j job --secret-file "$SECRET" \
		'in.{rank}.npy' -o 'out.{rank}.npy'
	wait_record # the rank with auto coordinates
	rank 0 2 allreduce in.0.npy -o out.0.npy
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

# bats test_tags=smoke
@test "by a hostfile, without a store" {
	local r
	make_shards 3 f32 12
	make_secret
	make_hostfile hosts 3
	for r in 2 1 0; do
		spawn_rank "$r" "$COLLCTL" allreduce -H hosts -r "$r" --secret-file "$SECRET" "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "rank and size from COLLCTL_RANK and COLLCTL_SIZE, the secret from COLLCTL_SECRET" {
	local r
	make_shards 2 f32 12
	make_secret
	start_serve
	for r in 0 1; do
		COLLCTL_RANK=$r COLLCTL_SIZE=2 COLLCTL_SECRET=$(<job.key) COLLCTL_RENDEZVOUS=$STORE COLLCTL_OP=min \
			spawn_rank "$r" "$COLLCTL" allreduce "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 2 0
	check_out min 2
}

@test "rank and size from torchrun's and Slurm's variables" {
	local r
	make_shards 2 f32 12
	make_secret
	start_serve
	for r in 0 1; do
		RANK=$r WORLD_SIZE=2 spawn_rank "$r" "$COLLCTL" allreduce -R "$STORE" --secret-file "$SECRET" \
			"in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
	for r in 0 1; do
		SLURM_STEP_ID=0 SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=2 spawn_rank "$r" "$COLLCTL" allreduce \
			-R "$STORE" --secret-file "$SECRET" --op prod "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 2 0
	check_out prod 2
}

@test "barrier; allreduce; barrier, twenty times under one job name" {
	local r
	make_shards 4 f32 64
	make_secret
	start_serve
	sequence() {
		local rank=$1 i
		shift
		for ((i = 0; i < 20; i++)); do
			"$COLLCTL" barrier -r "$rank" "$@" &&
				"$COLLCTL" allreduce --no-sync -r "$rank" "$@" "in.$rank.npy" -o "out.$rank.$i.npy" &&
				"$COLLCTL" barrier -r "$rank" "$@" || return
		done
	}
	for r in 0 1 2 3; do
		spawn_rank "$r" sequence "$r" -n 4 -R "$STORE" -j job --secret-file "$SECRET"
	done
	wait_ranks
	assert_ranks 4 0
	check_numpy sum out.{0..3}.{0..19}.npy --in in.{0..3}.npy
}

@test "jobs of different names share a store" {
	make_shards 2 f32 5
	make_secret
	start_serve
	JOB=a rank 0 2 allreduce in.0.npy -o a.0.npy
	JOB=b spawn_rank 2 "$COLLCTL" allreduce --op max in.0.npy -o b.0.npy -r 0 -n 2 -R "$STORE" -j b --secret-file "$SECRET"
	JOB=b spawn_rank 3 "$COLLCTL" allreduce --op max in.1.npy -o b.1.npy -r 1 -n 2 -R "$STORE" -j b --secret-file "$SECRET"
	wait_ranks 2 3
	JOB=a rank 1 2 allreduce in.1.npy -o a.1.npy
	wait_ranks
	assert_ranks 4 0
	check_numpy sum a.0.npy a.1.npy --in in.0.npy in.1.npy
	check_numpy max b.0.npy b.1.npy --in in.0.npy in.1.npy
}

@test "a missing input fails every rank with 3 and its name, and leaves no output" {
	make_shards 2 f32 4
	make_secret
	start_serve
	rank 0 3 allreduce in.0.npy -o out.0.npy
	rank 1 3 allreduce in.1.npy -o out.1.npy
	rank 2 3 allreduce nowhere.npy -o out.2.npy
	wait_ranks
	assert_rank 2 3 nowhere.npy
	[[ ${RC[0]} != 0 && ${RC[1]} != 0 ]]
	for r in 0 1 2; do assert_file_not_exist "out.$r.npy"; done
}

@test "an output folder that does not exist is 4 and named" {
	make_shards 1 f32 4
	run -4 --separate-stderr collctl run -n 1 -- allreduce in.0.npy -o nowhere/out.npy
	[[ $stderr == *nowhere/out.npy* ]]
}

@test "a symlink as output is refused, its target unchanged" {
	make_shards 1 f32 4
	echo precious >target
	ln -s target out.npy
	run -4 collctl run -n 1 -- allreduce in.0.npy -o out.npy
	assert_equal "$(<target)" precious
}

@test "pipes are inputs too" {
	make_shards 2 f32 100000
	mkfifo late.npy
	# shellcheck disable=SC2094 # the FIFO and its contents
	cat in.1.npy >late.npy &
	STARTED+=($!)
	collctl allreduce -n 1 <(cat in.0.npy) late.npy -o out.0.npy
	check_numpy sum out.0.npy --in in.{0..1}.npy
}
