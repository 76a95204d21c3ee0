#!/usr/bin/env bats
# gather and allgather --consolidate: pieces of a checkpoint on the disks of all ranks become whole tensors.

load helpers

GOLDEN=$ROOT/tests/golden/torch

# consolidates N KIND ARGS...: run KIND --consolidate on N ranks, with out.safetensors as output, or one for each rank
consolidates() {
	local out=out.safetensors
	[[ $2 == gather ]] || out='out.{rank}.safetensors'
	collctl run -n "$1" -- "$2" --consolidate -q "${@:3}" -o "$out"
}

# refused CODE TEXT N ARGS...: a gather of N ranks fails with the code and the text; the output that exists stays
refused() {
	echo old >out.safetensors
	run --separate-stderr collctl run -n "$3" -- gather --consolidate "${@:4}" -o out.safetensors
	assert_equal "$status" "$1"
	[[ $stderr == *"$2"* ]] || fail "$stderr"
	assert_equal "$(<out.safetensors)" old
}

# pieces of "w", F32 of (6, 4), in folders: in DIR BOX...
in_folder() {
	local box i=0
	mkdir -p "$1"
	for box in "${@:2}"; do
		oracle consolidate piece "$1/shard-$((++i)).safetensors" w F32 6,4 "$box"
	done
}

@test "what torch has written: each kind of checkpoint on one machine" {
	local name
	mkdir fsdp
	cp "$GOLDEN"/model_world_size_2_rank_?.pt fsdp
	for name in "$GOLDEN/dcp" "$GOLDEN/dcp_safetensors" fsdp; do
		collctl gather -n 1 --consolidate -q "$name" -o out.safetensors
		oracle torch_oracle check dcp out.safetensors
		collctl allgather -n 1 --consolidate --check-replicas -q "$name" -o all.safetensors
		cmp out.safetensors all.safetensors
	done
	collctl gather -n 1 --consolidate -q "$GOLDEN/types.pt" -o types.safetensors
	oracle torch_oracle check types.pt types.safetensors
	collctl gather -n 1 --consolidate -q "$GOLDEN"/model_world_size_2_rank_?.pt -o files.safetensors # two files, one rank
	cmp files.safetensors out.safetensors
}

@test "what torch has written: each rank has its own files" {
	local r kind
	for r in 0 1; do
		mkdir -p "fsdp$r" "dcp$r" "st$r"
		cp "$GOLDEN/model_world_size_2_rank_$r.pt" "fsdp$r"
		cp "$GOLDEN/dcp/.metadata" "$GOLDEN/dcp/__${r}_0.distcp" "dcp$r"
		cp "$GOLDEN"/dcp_safetensors/shard-0000$((r + 1))-* "st$r"
	done
	for kind in 'fsdp{rank}' 'dcp{rank}' 'st{rank}' "$GOLDEN/dcp" "$GOLDEN/model_world_size_2_rank_{rank}.pt"; do
		consolidates 2 gather --check-replicas "$kind"
		oracle torch_oracle check dcp out.safetensors
		consolidates 2 allgather "$kind"
		cmp out.0.safetensors out.safetensors
		cmp out.1.safetensors out.safetensors
	done
	consolidates 2 gather --root 1 'dcp{rank}'
	oracle torch_oracle check dcp out.safetensors
}

@test "random pieces on 1, 2 and 3 ranks are numpy's tensors, with little memory, too" {
	local seed p r
	for seed in 1 2 3 4; do
		for p in 1 2 3; do
			mkdir "$seed.$p"
			pushd "$seed.$p" >/dev/null
			oracle consolidate random "$seed" "$p"
			consolidates "$p" gather --check-replicas 'r{rank}'
			oracle consolidate random_is "$seed" out.safetensors
			rm out.safetensors
			consolidates "$p" gather --memory 64K --root $((p - 1)) 'r{rank}'
			oracle consolidate random_is "$seed" out.safetensors
			consolidates "$p" allgather --memory 300K --streams 3 --threads 2 --no-sync 'r{rank}'
			for ((r = 0; r < p; r++)); do cmp "out.$r.safetensors" out.safetensors; done
			popd >/dev/null
		done
	done
}

@test "the digest is that of the file, whatever way the pieces came" {
	oracle consolidate random 7 3
	local r want
	for r in 0 1; do # rank 1 writes: its pieces come last
		collctl run -n 3 -- gather --consolidate --memory 64K --root "$r" -v 'r{rank}' -o out.safetensors 2>said
		collctl info --json out.safetensors >j
		want=$(json j .digest)
		grep -qF "digest $want" said || fail "$want: $(<said)"
	done
}

@test "of replicas the lowest rank's counts; --check-replicas names those that differ: 7" {
	oracle consolidate piece r0.safetensors w F32 6,4 0:3,0:4
	oracle consolidate piece r1.safetensors w F32 6,4 0:3,0:4 9
	oracle consolidate piece r1.safetensors v I64 5 whole
	oracle consolidate piece r2.safetensors w F32 6,4 3:6,0:4
	oracle consolidate piece r2.safetensors v I64 5 whole
	consolidates 3 gather 'r{rank}.safetensors'
	oracle consolidate is out.safetensors w F32 6,4
	oracle consolidate is out.safetensors v I64 5
	refused 7 "rank 1: tensor 'w' (6, 4): piece [0:3, 0:4] has digest " 3 --check-replicas 'r{rank}.safetensors'
	[[ $stderr == *', but '*' on rank 0'* ]] || fail "$stderr"
	run -7 collctl run -n 3 -- allgather --check-replicas --consolidate 'r{rank}.safetensors' -o 'all.{rank}.safetensors'
	assert_not_exists all.0.safetensors
}

@test "93: a hole names the tensor, the range and the ranks beside it: 3" {
	in_folder r0 0:2,0:4
	in_folder r1 2:4,0:2 4:6,0:4
	mkdir r2
	refused 3 "tensor 'w' (6, 4): no rank has [2:4, 2:4]; ranks 0, 1 have the pieces beside it" 3 'r{rank}'
	oracle consolidate piece r2/shard-9.safetensors w F32 6,4 2:4,2:4
	consolidates 3 gather 'r{rank}'
	oracle consolidate is out.safetensors w F32 6,4
	rm r1/shard-2.safetensors
	consolidates 3 gather 'r{rank}' # nobody knows of a last row: it is a smaller tensor
	mkdir d
	cp "$GOLDEN/dcp/.metadata" "$GOLDEN/dcp/__0_0.distcp" d # but .metadata does
	refused 3 "tensor 'plain' (4,): no rank has a piece of it" 1 d
	refused 3 "tensor 'w0' (6, 4): no rank has [3:6, 0:4]; rank 0 has the pieces beside it" 1 --include 'w*' d
	mkdir x0 x1
	cp "$GOLDEN/model_world_size_2_rank_0.pt" x1
	refused 3 "no rank has [3:6, 0:4]; rank 1 has the pieces beside it" 2 --root 1 'x{rank}'
	for name in d x1; do # without --consolidate a piece is no tensor
		run --separate-stderr collctl allreduce -n 1 "$name" -o out.safetensors
		assert_equal "$status" 3
	done
}

@test "pieces that overlap: 7, of one rank 3, with both; no piece at all: 3; pieces without .metadata: 3" {
	in_folder r0 0:4,0:4
	in_folder r1 3:6,0:4
	refused 7 "rank 1: tensor 'w' (6, 4): piece [3:6, 0:4] of rank 1 has elements of piece [0:4, 0:4] of rank 0" 2 'r{rank}'
	in_folder one 0:4,0:4 3:6,0:4
	refused 3 "piece [3:6, 0:4] of rank 0 has elements of piece [0:4, 0:4] of rank 0" 1 one
	mkdir none
	refused 3 'no rank has a piece of a tensor' 2 none
	mkdir d
	cp "$GOLDEN/dcp/__0_0.distcp" d
	refused 3 'd: holds pieces, __0_0.distcp, without .metadata' 1 d
	refused 3 'absent/: cannot list' 1 absent/
}

@test "ranks that know another type or shape of a tensor: 7, with both" {
	oracle consolidate piece r0.safetensors w F32 6,4 0:3,0:4
	oracle consolidate piece r1.safetensors w I64 6,4 3:6,0:4
	refused 7 "rank 1: tensor 'w': dtype i64 differs from f32 on rank 0" 2 'r{rank}.safetensors'
	oracle consolidate piece s0.safetensors w F32 6,4 whole
	oracle consolidate piece s1.safetensors w F32 6,5 whole
	refused 7 "rank 1: tensor 'w': shape (6, 5) differs from (6, 4) on rank 0" 2 's{rank}.safetensors'
	oracle consolidate piece t0.safetensors w F32 6,4 whole
	oracle consolidate piece t1.safetensors w F32 8,4 6:8,0:4
	refused 7 "rank 1: tensor 'w': shape (8, 4), which its pieces need, differs from (6, 4) on rank 0" 2 't{rank}.safetensors'
	oracle consolidate piece u0.safetensors w F32 6,4 0:3,0:4
	oracle consolidate piece u1.safetensors w F32 24 whole
	refused 7 "rank 1: tensor 'w': shape (24,) differs from " 2 'u{rank}.safetensors'
}

@test "ranks choose tensors; one may have none of them" {
	in_folder r0 0:3,0:4
	in_folder r1 3:6,0:4
	mkdir r2
	oracle consolidate piece r0/x.safetensors model.v F32 3 whole
	oracle consolidate piece r1/x.safetensors other.b F32 3 0:1
	run --separate-stderr collctl run -n 3 -- gather --consolidate --exclude 'other.*' 'r{rank}' -o out.safetensors
	assert_equal "$status" 0
	[[ $stderr == *'r2: holds no piece of a checkpoint'* ]] || fail "$stderr"
	oracle consolidate is out.safetensors w F32 6,4
	oracle consolidate is out.safetensors model.v F32 3
	refused 3 'no rank has a piece of a tensor' 2 --include nothing 'r{rank}'
	# Of two ranks' tensors one name could be made, and their pieces one tensor.
	refused 2 '--strip: cannot be given with --consolidate' 2 --strip model. 'r{rank}'
}

@test "what does not go with it: 2" {
	local with
	for with in --each --raw-file --stats; do
		run --separate-stderr collctl gather -n 1 --consolidate $with "$GOLDEN/dcp" -o out.safetensors
		assert_equal "$status" 2
		[[ $stderr == *"$with: cannot be given with --consolidate"* ]] || fail "$stderr"
	done
	run --separate-stderr collctl gather -n 1 --check-replicas "$GOLDEN/dcp" -o out.safetensors
	assert_equal "$status" 2
	[[ $stderr == *'--check-replicas: needs --consolidate'* ]] || fail "$stderr"
	run -2 collctl scatter -n 1 --consolidate "$GOLDEN/dcp" -o out.safetensors
	run --separate-stderr collctl gather -n 1 --consolidate "$GOLDEN/dcp" -o out.npz
	assert_equal "$status" 2
	[[ $stderr == *'out.npz: the tensors of a dcp file are written as safetensors: end its name in .safetensors'* ]] || fail "$stderr"
	oracle oracle make 1.npy f32 8 2
	run --separate-stderr collctl gather -n 1 --consolidate 1.npy -o out.safetensors
	assert_equal "$status" 2
	[[ $stderr == *'1.npy: --consolidate takes checkpoints'* ]] || fail "$stderr"
	assert_not_exists out.safetensors
	start_serve
	make_secret
	spawn_rank 0 "$COLLCTL" gather --consolidate -R "$STORE" -r 0 -n 2 --secret-file "$SECRET" "$GOLDEN/dcp" -o out.safetensors
	spawn_rank 1 "$COLLCTL" gather -R "$STORE" -r 1 -n 2 --secret-file "$SECRET" 1.npy
	wait_ranks
	assert_ranks 2 7
	grep -qe '--consolidate' 1.err
}

@test "--dry-run finds holes, and creates nothing; the output may be stdout, and any rank's trace" {
	in_folder r0 0:3,0:4
	in_folder r1 3:6,0:4
	mkdir d
	cp "$GOLDEN/dcp/.metadata" "$GOLDEN/dcp/__0_0.distcp" d
	collctl run -n 2 -- gather --consolidate --check-replicas --dry-run 'r{rank}' -o out.safetensors
	assert_not_exists out.safetensors
	refused 3 "tensor 'w0' (6, 4): no rank has [3:6, 0:4]" 1 --dry-run --include w0 d
	collctl gather -n 1 --consolidate -q "$GOLDEN/dcp" -o - >piped.safetensors
	oracle torch_oracle check dcp piped.safetensors
	consolidates 2 gather --explain --trace trace.json 'r{rank}'
	oracle consolidate is out.safetensors w F32 6,4
	jq -e . trace.json >/dev/null
}

# ---- scatter --shard-dim ----

@test "a checkpoint is cut as torch's Shard cuts it; --consolidate joins the shards to the same bytes" {
	local p d
	oracle consolidate sample in.safetensors
	for p in 1 2 3 5; do
		for d in 0 1 2; do
			rm -rf s.* shards
			collctl run -n "$p" -- scatter --shard-dim "$d" -q in.safetensors -o 's.{rank}/'
			oracle consolidate shards in.safetensors "$d" "$p" 's.{rank}'
			consolidates "$p" gather 's.{rank}'
			oracle consolidate same out.safetensors in.safetensors
			collctl run -n "$p" -- scatter --root $((p - 1)) --shard-dim "$d" -q --memory 64K --streams 2 in.safetensors -o shards
			oracle consolidate shards in.safetensors "$d" "$p" shards
			collctl allreduce -n 1 -q shards -o whole.safetensors # what reads such folders
			oracle consolidate same whole.safetensors in.safetensors
		done
	done
	collctl info --json in.safetensors >j1
	collctl info --json shards >j2
	assert_equal "$(json j1 .digest)" "$(json j2 .digest)"
}

@test "shards of what torch has written; chosen and renamed; --dry-run writes none" {
	collctl run -n 2 -- scatter --shard-dim 0 -q "$GOLDEN/dcp" -o shards/
	collctl gather -n 1 --consolidate -q shards -o out.safetensors
	oracle torch_oracle check dcp out.safetensors
	collctl run -n 2 -- scatter --shard-dim 0 -q --include 'model.*' --strip model. "$GOLDEN/training.pt" -o chosen/
	collctl info --json chosen >j
	assert_equal "$(json j '[.tensors[].name] | join(" ")')" 'emb.weight l1.bias l1.weight out.weight'
	collctl run -n 2 -- scatter --shard-dim 0 --dry-run "$GOLDEN/dcp" -o none/
	assert_not_exists none
}

@test "a folder with another shard of an earlier job: 4, by name; a rank's own shard is replaced" {
	oracle consolidate sample in.safetensors
	collctl run -n 3 -- scatter --shard-dim 1 -q in.safetensors -o shards
	oracle consolidate shards in.safetensors 1 3 shards
	run --separate-stderr collctl run -n 3 -- scatter --shard-dim 0 in.safetensors -o shards
	assert_equal "$status" 4
	[[ $stderr == *'shards: holds shard-0000'*'-model-00001-of-00001.safetensors, which would be read as part of the output'* ]] || fail "$stderr"
	oracle consolidate shards in.safetensors 1 3 shards
	# The folder of both ranks then, of one rank now.
	collctl run -n 2 -- scatter --shard-dim 0 -q in.safetensors -o f.0
	refused_shards() { run -4 --separate-stderr collctl run -n 2 -- scatter --shard-dim 0 in.safetensors -o 'f.{rank}'; }
	refused_shards
	rm f.0/shard-00002-*
	collctl run -n 2 -- scatter --shard-dim 0 -q in.safetensors -o 'f.{rank}'
	collctl run -n 2 -- scatter --shard-dim 0 -q in.safetensors -o 'f.{rank}'
	collctl run -n 2 -- gather --consolidate -q 'f.{rank}' -o back.safetensors
	collctl verify -n 1 -q --same back.safetensors in.safetensors
}

@test "93: a missing last shard: 3 if the shards say the whole shapes, as ours do; else a note says that they do not" {
	oracle consolidate sample in.safetensors
	collctl run -n 3 -- scatter --shard-dim 0 -q in.safetensors -o shards
	rm shards/shard-00003-*
	run -3 --separate-stderr collctl allreduce -n 1 shards -o out.safetensors
	[[ $stderr == *"shards: tensor '"* ]] || fail "$stderr"
	run -3 --separate-stderr collctl gather -n 1 --consolidate shards -o out.safetensors
	[[ $stderr == *"tensor '"* ]] || fail "$stderr"
	collctl info shards >said
	grep -q '^missing' said
	assert_not_exists out.safetensors
	mkdir torch
	cp "$GOLDEN"/dcp_safetensors/shard-00001* torch
	run -0 --separate-stderr collctl allreduce -n 1 torch -o out.safetensors
	[[ $stderr == *'torch: its 1 file does not say the shapes of the whole tensors: pieces at their ends may be missing'* ]] || fail "$stderr"
	run -0 --separate-stderr collctl gather -n 1 --consolidate torch -o out.safetensors
	[[ $stderr == *'pieces at their ends may be missing'* ]] || fail "$stderr"
	run -0 --separate-stderr collctl info torch
	[[ $stderr == *'pieces at their ends may be missing'* ]] || fail "$stderr"
}

@test "an output in the folder of its input, where it would be read as one more shard: 2" {
	mkdir d
	cp "$GOLDEN"/dcp_safetensors/* d
	# shellcheck disable=SC2086 # words
	for command in 'gather --consolidate' allreduce; do
		run -2 --separate-stderr collctl $command -n 1 d -o d/out.safetensors
		[[ $stderr == *'d/out.safetensors: would be read as a part of its input, d: name another folder'* ]] || fail "$stderr"
	done
	ln -s d link
	run -2 collctl gather --consolidate -n 1 d -o link/out.safetensors
	collctl info d >said
}

@test "what --shard-dim does not take: 2; ranks that give another axis: 7" {
	local out
	for out in out.safetensors -; do
		run --separate-stderr collctl scatter -n 1 --shard-dim 0 "$GOLDEN/dcp" -o $out
		assert_equal "$status" 2
		[[ $stderr == *"$out: with --shard-dim each rank writes a shard to a folder: name a folder"* ]] || fail "$stderr"
	done
	assert_not_exists out.safetensors
	run --separate-stderr collctl scatter -n 1 --shard-dim 0 --counts 3 "$GOLDEN/dcp" -o out/
	assert_equal "$status" 2
	[[ $stderr == *'--counts: cannot be given with --shard-dim'* ]] || fail "$stderr"
	run -2 collctl scatter -n 1 --shard-dim -1 "$GOLDEN/dcp" -o out/
	run -2 collctl gather -n 1 --shard-dim 0 "$GOLDEN/dcp" -o out/
	oracle oracle make 1.npy f32 8 2
	run --separate-stderr collctl scatter -n 1 --shard-dim 0 1.npy -o out/
	assert_equal "$status" 2
	[[ $stderr == *'1.npy: --shard-dim takes checkpoints'* ]] || fail "$stderr"
	start_serve
	make_secret
	spawn_rank 0 "$COLLCTL" scatter --shard-dim 0 -R "$STORE" -r 0 -n 2 --secret-file "$SECRET" "$GOLDEN/dcp" -o out/
	spawn_rank 1 "$COLLCTL" scatter --shard-dim 1 -R "$STORE" -r 1 -n 2 --secret-file "$SECRET" -o out/
	wait_ranks
	assert_ranks 2 7 '--shard-dim 1 differs from 0'
	assert_not_exists out
}

@test "--max-shard-size: whole tensors in a set of files with an index" {
	oracle consolidate random 5 2
	consolidates 2 gather 'r{rank}'
	collctl run -n 2 -- allgather --consolidate -q --max-shard-size 64 'r{rank}' -o 'set.{rank}/'
	diff -r set.0 set.1
	assert_equal "$(json <(collctl info --json set.0) .digest)" "$(json <(collctl info --json out.safetensors) .digest)"
	[[ -e set.0/model.safetensors.index.json ]] || fail "$(ls set.0)"
	run -2 --separate-stderr collctl run -n 2 -- gather --consolidate --max-shard-size 64 'r{rank}' -o one.safetensors
	[[ $stderr == *'one.safetensors: --max-shard-size makes a set of files: name a folder'* ]] || fail "$stderr"
	run -2 --separate-stderr collctl gather -n 1 --max-shard-size 64 r0 -o one
	[[ $stderr == *'--max-shard-size: gather needs --consolidate with it'* ]] || fail "$stderr"
	run -2 --separate-stderr collctl gather -n 1 --consolidate --output-dtype f16 r0 -o one.safetensors
	[[ $stderr == *'--output-dtype: cannot be given with --consolidate'* ]] || fail "$stderr"
}

# ---- info ----

@test "93: info shows the pieces of a folder that lacks others, and which are missing" {
	mkdir d x
	cp "$GOLDEN/dcp/.metadata" "$GOLDEN/dcp/__0_0.distcp" d
	cp "$GOLDEN/model_world_size_2_rank_1.pt" x
	in_folder w 0:2,0:4 4:6,0:4
	collctl info --json d >j
	assert_equal "$(json j '[.tensors[] | "\(.name) \(.offsets) \(.shape) \(.whole)"] | join("; ")')" 'w0 [0,0] [3,4] [6,4]; w1 [0,0] [5,3] [5,6]'
	assert_equal "$(json j '[.missing[] | "\(.name) \(.offsets) \(.shape)"] | join("; ")')" \
		'plain [0] [4]; rep [0] [7]; w0 [3,0] [3,4]; w1 [0,3] [5,3]'
	collctl info --stats x >said
	assert_equal "$(grep -A9 '^missing' said | tail -n +2 | paste -sd';')" 'w0 [0:3, 0:4];w1 [0:5, 0:3]'
	grep -q 'w0 \[3:6, 0:4\]$' said
	collctl info w >said
	grep -qx 'w \[2:4, 0:4\]' said
	oracle consolidate piece w/shard-9.safetensors w F32 6,4 1:3,0:4 # and now one that overlaps
	run -3 collctl info w
	collctl info --json "$GOLDEN/dcp" >j # all are there: whole tensors
	assert_equal "$(json j '[has("missing"), .tensors[0].offsets] | tostring')" '[false,null]'
	run -3 collctl verify -n 1 d
}
