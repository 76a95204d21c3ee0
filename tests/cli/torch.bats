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

@test "what is not read is refused by name, and nothing of it is run" {
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
		model_world_size_2_rank_0:tensor 'w0': is a piece of a DTensor, which is no whole tensor
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
