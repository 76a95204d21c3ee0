#!/usr/bin/env bats
# Outputs that differ from the inputs: --output-dtype, --max-shard-size.

load helpers

FLOATS=(f16 bf16 f32 f64 f8e4m3 f8e5m2)

# set NAME: NAME.safetensors, with floats of three types and two tensors that are none
make_set() {
	py <<-END
		r = np.random.default_rng(len("$1"))
		save_safetensors("$1.safetensors", {
		    "big": r.normal(size=(300, 10)).astype("f4"), "half": r.normal(size=(50,)).astype("f2"),
		    "wide": r.normal(size=(7, 11)).astype("f8"), "none": np.zeros((0, 3), "f4"),
		    "ids": np.arange(40, dtype="i8"), "mask": np.arange(9) % 2 == 0}, {"made": "here"})
	END
}

# bats test_tags=smoke
@test "every float becomes every other, rounded once" {
	local from to
	for from in "${FLOATS[@]}"; do
		make_shard in.npy "$from" 500 1 random
		for to in "${FLOATS[@]}"; do
			# shellcheck disable=SC2046 # no words, or two
			collctl allreduce -n 1 -q --no-sync --op max $(hints "$from") --output-dtype "$to" in.npy -o out.npy
			oracle convert same in.npy "$from" out.npy "$to"
		done
	done
}

@test "an average is rounded once, whatever the algorithm, of the ranks' and of their own inputs" {
	local a to
	make_shards 4 bf16 1000 random
	for to in f32 f64 f16; do
		for a in $(algorithms_of allreduce); do
			go 4 allreduce --op avg -a "$a" --allow-divergent --dtype bf16 --output-dtype "$to" 'in.{rank}.npy' -o 'out.{rank}.npy'
			oracle convert mean out.3.npy "$to" in.0.npy in.1.npy in.2.npy in.3.npy
			cmp out.0.npy out.3.npy
		done
		go 1 allreduce --op avg --dtype bf16 --output-dtype "$to" in.?.npy -o one.npy
		cmp one.npy out.0.npy
	done
	go 4 allreduce --op avg --weight 0.5 --dtype bf16 --output-dtype f64 'in.{rank}.npy' -o 'out.{rank}.npy'
	go 4 allreduce --op avg --dtype bf16 --output-dtype f64 'in.{rank}.npy' -o 'same.{rank}.npy'
	cmp out.0.npy same.0.npy
}

@test "collectives that move arrays, and small --memory" {
	local kind to
	make_shards 3 f32 30,40 random
	for to in f16 f64; do
		go 3 gather --output-dtype "$to" 'in.{rank}.npy' -o out.npy
		go 3 gather 'in.{rank}.npy' -o plain.npy
		oracle convert same plain.npy f32 out.npy "$to"
		for kind in allgather alltoall $([[ $to == f64 ]] || echo scan reduce-scatter); do # whose sums f64 would change
			go 3 "$kind" --memory 4K --output-dtype "$to" 'in.{rank}.npy' -o 'out.{rank}.npy'
			go 3 "$kind" 'in.{rank}.npy' -o 'plain.{rank}.npy'
			oracle convert same plain.2.npy f32 out.2.npy "$to"
		done
		go 3 scatter --output-dtype "$to" in.0.npy -o 'out.{rank}.npy'
		go 3 scatter in.0.npy -o 'plain.{rank}.npy'
		oracle convert same plain.1.npy f32 out.1.npy "$to"
	done
}

@test "tensors that are not floats keep their type; a set of sizes, read back" {
	local f
	make_set in
	go 1 allreduce --output-dtype f16 in.safetensors -o out.safetensors
	oracle convert floats out.safetensors f16 in.safetensors
	go 1 allreduce --output-dtype f16 --max-shard-size 3000 in.safetensors -o shards
	oracle convert floats shards f16 in.safetensors
	assert_equal "$(json <(collctl info --json shards) .digest)" "$(json <(collctl info --json out.safetensors) .digest)"
	assert_equal "$(cd shards && echo *)" \
		'model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json'
	# The large tensor has a file alone, and what is in the file stays there.
	assert_equal "$(jq -r '.weight_map | [to_entries[] | select(.value | contains("1-of")).key] | join(" ")' shards/*.json)" big
	for f in shards/*.safetensors; do grep -q '"made":"here"' "$f"; done
	# A set is cut anew, or joined.
	go 1 allreduce --max-shard-size 100 shards -o many/named.safetensors.index.json
	[[ -e many/named-00005-of-00005.safetensors ]] || fail "$(ls many)"
	assert_equal "$(json <(collctl info --json many) .digest)" "$(json <(collctl info --json out.safetensors) .digest)"
	go 1 allreduce --max-shard-size 1G many -o one
	assert_equal "$(cd one && echo *)" model.safetensors
	cmp one/model.safetensors out.safetensors
	# What torch wrote, on two ranks, through a link to the folder; the last size counts.
	mkdir real
	ln -s real link
	go 2 reduce --max-shard-size 1 --max-shard-size 400 "$ROOT/tests/golden/torch/state_dict.pt" -o link
	collctl info real >said
	go 1 allreduce "$ROOT/tests/golden/torch/state_dict.pt" "$ROOT/tests/golden/torch/state_dict.pt" -o whole.safetensors
	assert_equal "$(json <(collctl info --json real) .digest)" "$(json <(collctl info --json whole.safetensors) .digest)"
}

@test "a set that is there: replaced by its index; 4 if it would be read with the new one" {
	make_set in
	go 1 allreduce --max-shard-size 3000 in.safetensors -o shards
	cp -r shards before
	refused 4 'shards: holds model-00001-of-00002.safetensors, which would be read as part of the output' 1 \
		allreduce --max-shard-size 1G in.safetensors -o shards
	diff -r before shards
	go 1 allreduce --max-shard-size 3000 in.safetensors -o shards
	diff -r before shards
	go 1 allreduce --max-shard-size 100 in.safetensors -o shards
	grep -q 'shards: model-00001-of-00002.safetensors and 1 other file: not part of the set that was written; not removed' err || fail "$(<err)"
	assert_equal "$(json <(collctl info --json shards) .digest)" "$(json <(collctl info --json in.safetensors) .digest)"
}

@test "elements that are too large for the type are counted by --stats" {
	py <<-'END'
		np.save("in.npy", np.array([1, 70000, -1e9, np.inf, np.nan, 65504], "f4"))
	END
	go 1 allreduce --op max --output-dtype f16 --stats in.npy -o out.npy
	grep -q 'rank 0: 2 elements of the result are too large for f16: they are Inf or NaN in the output' err || fail "$(<err)"
	go 1 allreduce --op max --output-dtype bf16 --stats in.npy -o out.npy
	run ! grep 'too large' err
	assert_equal "$(json <(collctl allreduce -n 1 -q --json --stats --output-dtype f8e5m2 in.npy -o out.npy) .stats.overflowed)" 3
}

@test "--dry-run says the types; the files are those of the job" {
	make_set in
	go 1 allreduce --dry-run --output-dtype bf16 --max-shard-size 3000 in.safetensors -o shards
	grep -q 'of f32 by .*, written as bf16' err || fail "$(<err)"
	grep -q 'would create shards/model-00001-of-00002.safetensors' err || fail "$(<err)"
	assert_not_exists shards
	json <(collctl allreduce -n 1 -q --dry-run --json --output-dtype f64 in.safetensors -o out.safetensors) \
		'.dry_run.vectors[0] | .dtype + " " + .wire + " " + .output_dtype' >said
	assert_equal "$(<said)" 'i64 i64 i64'
}

@test "what they do not do is refused" {
	make_set in
	make_shard in.npy f32 10 1
	make_shard whole.npy i32 10 1
	refused 2 'whole.npy: --output-dtype converts floats, and the input has i32' 1 allreduce --output-dtype f16 whole.npy -o out.npy
	refused 2 "--output-dtype: 'i8'" 1 allreduce --output-dtype i8 in.npy -o out.npy
	refused 2 '--output-dtype' 1 allreduce --output-dtype '' in.npy -o out.npy
	refused 2 '--output-dtype' 1 allreduce --output-dtype f16 --output-dtype f32 in.npy -o out.npy
	refused 2 '--output-dtype' 1 broadcast --output-dtype f16 in.npy -o out.npy
	refused 2 '--output-dtype' 1 gather --raw-file --output-dtype f16 in.npy -o out.npy
	refused 2 'in.npy: --max-shard-size divides named tensors' 1 allreduce --max-shard-size 1K in.npy -o out
	refused 2 'out.safetensors: --max-shard-size makes a set of files: name a folder' 1 allreduce --max-shard-size 1K in.safetensors -o out.safetensors
	refused 2 'name a folder' 1 allreduce --max-shard-size 1K in.safetensors -o -
	refused 2 '--max-shard-size: with --each' 1 allreduce --max-shard-size 1K --each in.safetensors -o out
	refused 2 '--max-shard-size' 1 allreduce --max-shard-size 0 in.safetensors -o out
	refused 2 '--max-shard-size' 1 allreduce --max-shard-size '' in.safetensors -o out
	py <<<'np.savez("in.npz", a=np.zeros(3, "f4"))'
	refused 2 "in.npz: --max-shard-size makes sets of .safetensors files, and this input's output is npz" 1 allreduce --max-shard-size 1K in.npz -o out
	start_serve
	make_secret
	rank 0 2 allreduce --output-dtype f16 in.npy -o out.0.npy
	rank 1 2 allreduce in.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 7 '--output-dtype'
	assert_not_exists out.0.npy
}
