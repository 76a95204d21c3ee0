#!/usr/bin/env bats
# Files of torch.save: real ones of torch 2.15 (tests/golden/torch), and such as no torch writes.

load helpers

GOLDEN=$ROOT/tests/golden/torch

@test "every tensor of what torch writes is read, bit for bit, views and tied ones too" {
	local name
	for name in types views state_dict training parameters list; do
		collctl allreduce -n 1 -q "$GOLDEN/$name.pt" -o out.safetensors
		oracle torch_oracle check "$name.pt" out.safetensors
	done
}

@test "ranks may have files of torch.save and .safetensors of the same tensors" {
	local r
	collctl allreduce -n 1 -q "$GOLDEN/state_dict.pt" -o in.1.safetensors
	cp "$GOLDEN/state_dict.pt" in.0.pt
	cp "$GOLDEN/state_dict.pt" in.2.bin # as Hugging Face names them
	start_serve
	make_secret
	for r in 0 1 2; do
		spawn_rank "$r" "$COLLCTL" allreduce --op max -R "$STORE" -r "$r" -n 3 --secret-file "$SECRET" in."$r".* -o "out.$r.safetensors"
	done
	wait_ranks
	assert_ranks 3 0
	for r in 0 1 2; do oracle torch_oracle check state_dict.pt "out.$r.safetensors"; done
}

@test "88: what is not read is refused by name, and nothing of it is run" {
	local says name
	while IFS=: read -r name says; do
		run --separate-stderr collctl allreduce -n 1 "$GOLDEN/$name.pt" -o out.safetensors
		assert_equal "$status" 3
		[[ $stderr == *"$name.pt: $says"* ]] || fail "$name: $stderr"
		run --separate-stderr collctl info "$GOLDEN/$name.pt"
		assert_equal "$status" 3
		[[ $stderr == *"$name.pt: $says"* ]] || fail "$name: $stderr"
	done <<-'END'
		legacy:is a pickle, as torch.save wrote it before version 1.6: load it with torch and save it again
		module:its pickle names '__main__.Net', which is no part of tensors and plain values; nothing of it was run
		script:is a TorchScript program, which is not read: save its tensors by torch.save(module.state_dict(), ...)
		sparse:tensor 's': is sparse, which is not read: save it by .to_dense()
	END
	assert_not_exists out.safetensors
}

@test "an output that is no .safetensors: 2, by name" {
	local out
	for out in out.pt out.npz out; do
		run --separate-stderr collctl allreduce -n 1 "$GOLDEN/list.pt" -o "$out"
		assert_equal "$status" 2
		[[ $stderr == *"$out: the tensors of a torch file are written as safetensors: end its name in .safetensors"* ]] || fail "$stderr"
		assert_not_exists "$out"
	done
}

@test "a file that was cut short, or has other bytes at its end: 3, before any data move" {
	local n bytes
	bytes=$(stat -c %s "$GOLDEN/views.pt")
	for n in 0 1 900 $((bytes - 1)); do
		head -c "$n" "$GOLDEN/views.pt" >cut.pt
		run --separate-stderr collctl allreduce -n 1 cut.pt -o out.safetensors
		assert_equal "$status" 3
		[[ $stderr == *'cut.pt: '* ]] || fail "$stderr"
		assert_not_exists out.safetensors
	done
}

@test "through a link, a pipe and an empty name; a name that a file chose leads nowhere" {
	ln -s "$GOLDEN/list.pt" link.pt
	collctl allreduce -n 1 -q link.pt -o out.safetensors
	oracle torch_oracle check list.pt out.safetensors
	collctl allreduce -n 1 -q --format torch - -o out.safetensors <"$GOLDEN/list.pt"
	oracle torch_oracle check list.pt out.safetensors
	run --separate-stderr collctl info ''
	((status != 0))
}

@test "a broadcast of the file copies its bytes" {
	collctl run -n 2 -- broadcast -q "$GOLDEN/training.pt" -o 'copy.{rank}.pt'
	cmp "$GOLDEN/training.pt" copy.1.pt
	collctl run -n 2 -- broadcast -q --raw-file "$GOLDEN/module.pt" -o 'copy.{rank}.pt'
	cmp "$GOLDEN/module.pt" copy.1.pt
}

@test "a file of a big-endian machine" {
	oracle torch_oracle big little.pt 4000
	oracle torch_oracle big big.pt 4000 big
	collctl allreduce -n 1 -q little.pt -o little.safetensors
	collctl allreduce -n 1 -q big.pt -o big.safetensors
	cmp little.safetensors big.safetensors
	collctl verify -n 1 --same little.pt big.pt
}

@test "--strip, twice, after --include; two names that become one; a prefix that is empty" {
	collctl allreduce -n 1 -q --include 'model.*' --strip model. --strip l1. "$GOLDEN/training.pt" -o out.safetensors
	collctl info --json out.safetensors >j
	assert_equal "$(json j '[.tensors[].name] | join(" ")')" 'bias emb.weight out.weight weight'
	run --separate-stderr collctl allreduce -n 1 --strip optimizer.state.0. --strip optimizer.state.1. "$GOLDEN/training.pt" -o two.safetensors
	assert_equal "$status" 3
	[[ $stderr == *"two tensors have the name 'exp_avg' after --strip"* ]] || fail "$stderr"
	run -2 collctl allreduce -n 1 --strip '' "$GOLDEN/training.pt" -o two.safetensors
	assert_not_exists two.safetensors
	collctl run -n 2 -- broadcast -q --strip emb. "$GOLDEN/state_dict.pt" -o 'copy.{rank}.safetensors'
	collctl info --json copy.1.safetensors >j
	assert_equal "$(json j '[.tensors[].name] | join(" ")')" 'l1.bias l1.weight out.weight weight'
}

@test "--each: model.pt becomes model.safetensors in the folder" {
	cp "$GOLDEN"/{list,state_dict}.pt .
	collctl run -n 2 -- allreduce --each -q --op max list.pt state_dict.pt -o 'out.{rank}'
	assert_equal "$(cd out.1 && echo *)" 'list.safetensors state_dict.safetensors'
	oracle torch_oracle check state_dict.pt out.1/state_dict.safetensors
}

@test "87: a view that repeats elements takes no more than --memory says" {
	oracle torch_oracle expand small.pt 1000
	collctl allreduce -n 1 -q small.pt -o out.safetensors
	assert_equal "$(stat -c %s out.safetensors)" 4104
	oracle torch_oracle expand large.pt $((1 << 40))
	run --separate-stderr collctl allreduce -n 1 large.pt -o large.safetensors
	assert_equal "$status" 3
	[[ $stderr == *'large.pt: its tensors repeat elements: they have more than 100 times'* ]] || fail "$stderr"
	assert_not_exists large.safetensors
}

# ---- distributed checkpoints ----

@test "a distributed checkpoint of either kind, or of torch 2.0, is its whole tensors" {
	local name
	for name in dcp dcp_safetensors dcp_2.0; do
		collctl allreduce -n 1 -q "$GOLDEN/$name" -o out.safetensors
		oracle torch_oracle check dcp out.safetensors
	done
	collctl run -n 2 -- allreduce -q --op max "$GOLDEN/dcp" -o 'max.{rank}.safetensors'
	cmp max.1.safetensors out.safetensors
	collctl verify -n 1 --same "$GOLDEN/dcp" "$GOLDEN/dcp_safetensors" out.safetensors
}

@test "the files of FSDP ranks are their whole tensors; one that is missing is named" {
	local name
	mkdir in
	cp "$GOLDEN"/model_world_size_2_rank_?.pt in
	collctl allreduce -n 1 -q in -o out.safetensors
	oracle torch_oracle check dcp out.safetensors
	for name in fsdp_2.1 fsdp_2.4 fsdp_2.12; do # which describe their meshes otherwise
		collctl allreduce -n 1 -q "$GOLDEN/$name" -o old.safetensors
		oracle torch_oracle check dcp old.safetensors
	done
	collctl info in/model_world_size_2_rank_1.pt
	rm in/model_world_size_2_rank_1.pt
	run --separate-stderr collctl allreduce -n 1 -q in -o out.safetensors
	assert_equal "$status" 3
	[[ $stderr == *'in/model_world_size_2_rank_1.pt: '*'No such file'* ]] || fail "$stderr"
	cp "$GOLDEN/model_world_size_2_rank_1.pt" in/model_world_size_3_rank_1.pt
	run --separate-stderr collctl allreduce -n 1 -q in -o out.safetensors
	assert_equal "$status" 3
	[[ $stderr == *'in: holds the pieces of 2 and of 3 ranks'* ]] || fail "$stderr"
}

@test "a folder of pieces: its name may end in anything; --each; kinds beside each other" {
	cp -r "$GOLDEN/dcp" last.ckpt
	collctl allreduce -n 1 -q last.ckpt -o out.safetensors
	oracle torch_oracle check dcp out.safetensors
	collctl allreduce -n 1 -q --each last.ckpt "$GOLDEN/dcp_safetensors" -o each
	cmp each/last.ckpt.safetensors each/dcp_safetensors.safetensors
	run --separate-stderr collctl run -n 2 -- broadcast --each out.safetensors last.ckpt -o 'copy.{rank}'
	assert_equal "$status" 2
	cp out.safetensors last.ckpt
	run --separate-stderr collctl info last.ckpt
	assert_equal "$status" 3
	[[ $stderr == *'last.ckpt: holds checkpoints of several kinds'* ]] || fail "$stderr"
	collctl info --format safetensors last.ckpt
	collctl info --format dcp last.ckpt
}

@test "pieces along any axes, in rows and in blocks, uneven and empty ones" {
	local i=0 cut shape
	while read -r shape cut; do
		# shellcheck disable=SC2086
		oracle torch_oracle pieces "in.$((++i))" $shape $cut
		collctl allreduce -n 1 -q "in.$i" -o out.safetensors
		oracle torch_oracle whole out.safetensors "$shape"
	done <<-'END'
		7 0:7
		7 0:3 3:3 3:7
		6,4 0:3,0:4 3:6,0:4
		5,6 0:5,3:6 0:5,0:3
		5,6 0:2,0:3 2:5,0:3 0:2,3:6 2:5,3:6
		4,3,5 0:4,0:1,0:5 0:4,1:3,0:5
		1,3,5 0:1,0:1,0:5 0:1,1:3,0:5
		2,2,6 0:2,0:2,0:1 0:2,0:2,1:6
	END
}

@test "pieces that are missing, twice or outside: 3, the tensor and the place" {
	local n=0 says shape cut
	while IFS='|' read -r shape cut says; do
		# shellcheck disable=SC2086
		oracle torch_oracle pieces "in.$((++n))" $shape $cut
		run --separate-stderr collctl allreduce -n 1 "in.$n" -o out.safetensors
		assert_equal "$status" 3
		[[ $stderr == *"in.$n: tensor 'w' $says"* ]] || fail "$cut: $stderr"
	done <<-'END'
		6,4|0:2,0:4 3:6,0:4|has 24 elements: its pieces have 20 of them
		6,4|0:3,0:4 2:6,0:4|(6, 4): another piece has elements of the piece [2:6, 0:4] of shard-1.safetensors
		6,4|0:3,0:4 0:3,0:4 3:6,0:4|(6, 4): another piece has elements of the piece
	END
	assert_not_exists out.safetensors
}

@test "a distributed checkpoint that lies: no name leads outside, a piece must be as .metadata says" {
	local bytes
	cp -r "$GOLDEN/dcp" in
	chmod -R u+w in
	sed -i 's/__1_0.distcp/..\/\/passwd../' in/.metadata
	run --separate-stderr collctl info in
	assert_equal "$status" 3
	rm -r in
	cp -r "$GOLDEN/dcp" in
	chmod -R u+w in
	bytes=$(stat -c %s in/__1_0.distcp)
	truncate -s $((bytes - 1)) in/__1_0.distcp
	run --separate-stderr collctl allreduce -n 1 in -o out.safetensors
	assert_equal "$status" 3
	[[ $stderr == *"in/__1_0.distcp: ends before a piece that .metadata says is in it"* ]] || fail "$stderr"
	rm in/__1_0.distcp
	run --separate-stderr collctl allreduce -n 1 in -o out.safetensors
	assert_equal "$status" 3
	[[ $stderr == *'in/__1_0.distcp: '*'No such file'* ]] || fail "$stderr"
	run --separate-stderr collctl run -n 2 -- broadcast "$GOLDEN/dcp" -o out
	assert_equal "$status" 2
	[[ $stderr == *'its tensors are put together from several files: broadcast --raw-file copies them'* ]] || fail "$stderr"
	collctl run -n 2 -- broadcast -q --raw-file "$GOLDEN/dcp" -o 'copy.{rank}'
	diff -r copy.1 "$GOLDEN/dcp"
}

@test "93: a piece is never averaged as if it were the whole" {
	local dcp=$GOLDEN/dcp_safetensors/shard-00001-model-00001-of-00001.safetensors
	run --separate-stderr collctl run -n 2 -- allreduce --op avg "$dcp" -o 'out.{rank}.safetensors'
	assert_equal "$status" 3
	[[ $stderr == *'holds pieces of a distributed checkpoint, not whole tensors: name its folder'* ]] || fail "$stderr"
	collctl info "$dcp"
	run --separate-stderr collctl allreduce -n 1 "$GOLDEN/dcp/__0_0.distcp" -o out.safetensors
	assert_equal "$status" 2
	[[ $stderr == *'__0_0.distcp: holds pieces of a distributed checkpoint: name its folder'* ]] || fail "$stderr"
	run --separate-stderr collctl run -n 2 -- allreduce --op avg "$GOLDEN/model_world_size_2_rank_{rank}.pt" -o 'out.{rank}.safetensors'
	assert_equal "$status" 3
	[[ $stderr == *"tensor 'w0': is a piece of a DTensor, which is no whole tensor"* ]] || fail "$stderr"
	assert_equal "$(compgen -G 'out.*')" ''
}

@test "info: where the pieces of each tensor lie, which are the same bytes, and only the headers" {
	local kind
	# The bytes at the places that it names are the tensor's.
	for kind in state_dict.pt training.pt views.pt types.pt dcp dcp_safetensors; do
		collctl info --json "$GOLDEN/$kind" >info.json
		collctl info --json --no-digest "$GOLDEN/$kind" >heads.json
		assert_equal "$(jq -c '.tensors | map(del(.digest))' heads.json)" "$(jq -c '.tensors | map(del(.digest))' info.json)"
		assert_equal "$(jq -c '[.digest, .tensors[].digest] | unique' heads.json)" '[null]'
		collctl allreduce -n 1 -q --op max --integers first "$GOLDEN/$kind" -o out.safetensors 2>err ||
			collctl allreduce -n 1 -q "$GOLDEN/$kind" -o out.safetensors
		oracle torch_oracle places "$GOLDEN/$kind" info.json out.safetensors
	done
	assert_equal "$(json <(collctl info --json "$GOLDEN/state_dict.pt") '.tensors | map(select(.alias_of) | .name + " " + .alias_of) | join(",")')" 'out.weight emb.weight'
	run -0 collctl info --no-digest "$GOLDEN/state_dict.pt"
	[[ $output == *$'\nthe same bytes:\nout.weight = emb.weight' ]] || fail "$output"
	[[ $output != *$'\ndigest '* ]] || fail "$output"
	run -2 --separate-stderr collctl info --no-digest --stats "$GOLDEN/state_dict.pt"
	[[ $stderr == *'--no-digest: --stats reads all elements: remove one of them'* ]] || fail "$stderr"
	run -2 collctl allreduce -n 1 --no-digest "$GOLDEN/state_dict.pt" -o out.safetensors
	py <<<'np.save("in.npy", np.zeros(3, "f4"))'
	assert_equal "$(json <(collctl info --json --no-digest --no-digest in.npy) '.digest, .tensors[0].pieces[0].offset' | xargs)" 'null 128'
}

@test "a set of .bin files with an index, as transformers writes them: its folder, or the index" {
	local name
	mkdir set
	cp "$GOLDEN/state_dict.pt" set/pytorch_model-00001-of-00002.bin
	cp "$GOLDEN/list.pt" set/pytorch_model-00002-of-00002.bin
	echo '{}' >set/config.json
	jq -n '{metadata: {total_size: 396}, weight_map: ((["emb.weight", "l1.bias", "l1.weight", "out.weight"] | map({(.): "pytorch_model-00001-of-00002.bin"}) | add) +
		(["0", "1"] | map({(.): "pytorch_model-00002-of-00002.bin"}) | add))}' >set/pytorch_model.bin.index.json
	collctl run -n 2 -- allreduce -q --op max set -o 'out.{rank}.safetensors'
	cmp out.0.safetensors out.1.safetensors
	collctl allreduce -n 1 -q --include '?' set/pytorch_model.bin.index.json -o list.safetensors
	oracle torch_oracle check list.pt list.safetensors
	collctl allreduce -n 1 -q --exclude '?' set -o dict.safetensors
	oracle torch_oracle check state_dict.pt dict.safetensors
	collctl allreduce -n 1 -q --with-files --max-shard-size 200 set -o new
	assert_equal "$(cd new && echo *)" 'config.json model-00001-of-00003.safetensors model-00002-of-00003.safetensors model-00003-of-00003.safetensors model.safetensors.index.json'
	assert_equal "$(json <(collctl info --json new) .digest)" "$(json <(collctl info --json set) .digest)"
	run -2 --separate-stderr collctl allreduce -n 1 set -o none
	[[ $stderr == *'or give --max-shard-size for a folder'* ]] || fail "$stderr"
	run -2 --separate-stderr collctl broadcast -n 1 set -o none
	[[ $stderr == *'set: its tensors are put together from several files: broadcast --raw-file copies them'* ]] || fail "$stderr"
	# Index and files must agree, and names lead nowhere else.
	cp set/pytorch_model.bin.index.json good.json
	for name in 'del(.weight_map["0"])' '.weight_map["0"] = "pytorch_model-00001-of-00002.bin"' '.weight_map.more = "pytorch_model-00002-of-00002.bin"' \
		'.weight_map["0"] = "../list.pt"' '.weight_map["0"] = "missing.bin"' '.weight_map = {}'; do
		jq "$name" good.json >set/pytorch_model.bin.index.json
		run -3 --separate-stderr collctl allreduce -n 1 set -o none.safetensors
		[[ $stderr == *'set/'* ]] || fail "$name: $stderr"
	done
	assert_not_exists none.safetensors
	# Weights of .safetensors are preferred, as by transformers.
	cp good.json set/pytorch_model.bin.index.json
	cp dict.safetensors set/model.safetensors
	assert_equal "$(json <(collctl info --json set) .format)" safetensors
	assert_equal "$(json <(collctl info --json --format torch set) .format)" torch
	rm set/pytorch_model-00001-of-00002.bin
	run -3 --separate-stderr collctl info --format torch set
	[[ $stderr == *'set/pytorch_model-00001-of-00002.bin'* ]] || fail "$stderr"
}
