#!/usr/bin/env bats
# The files beside the tensors of a folder: --with-files.

load helpers

# model NAME: a folder as those of models: a file of tensors, and others
model() {
	mkdir -p "$1/sub" "$1/folder.json"
	py <<<"save_safetensors('$1/model.safetensors', {'w': some('f4', (30, 4), ${#1}), 'b': some('f4', (4,), 2)})"
	echo "{\"of\": \"$1\"}" >"$1/config.json"
	: >"$1/empty.txt"
	head -c 300000 /dev/urandom >"$1/tokenizer.model"
	ln -s config.json "$1/link.json"
	echo old >"$1/pytorch_model.bin"
	echo old >"$1/pytorch_model.bin.index.json"
	echo x >"$1/.hidden"
	mkfifo "$1/pipe"
}

GO=(config.json empty.txt link.json tokenizer.model)

# carried FROM TO: exactly those files of FROM are in TO, as files
carried() {
	local f
	for f in "${GO[@]}"; do
		cmp "$1/$f" "$2/$f"
		[[ ! -L $2/$f ]] || fail "$2/$f is a link"
	done
	assert_equal "$(find "$2" -mindepth 1 ! -name 'model*' -printf '%f\n' | sort | xargs)" "${GO[*]}"
}

# bats test_tags=smoke
@test "allreduce: each rank gets those of rank 0's first input; a note names what is left out" {
	local memory
	for n in a bb ccc; do model $n; done
	start_serve
	make_secret
	for memory in 256M 64K; do
		rank 0 3 allreduce --memory "$memory" --with-files a bb -o out.0
		rank 1 3 allreduce --memory "$memory" --with-files bb -o out.1
		rank 2 3 allreduce --memory "$memory" --with-files ccc -o out.2
		wait_ranks
		assert_ranks 3 0
		assert_rank 0 0 'a: folder.json and 4 others are left out'
		refute grep -q 'left out' 1.err
		for r in 0 1 2; do carried a "out.$r"; done
		cmp out.0/model.safetensors out.2/model.safetensors
		rm -r out.?
	done
	go 1 allreduce a bb bb ccc -o plain
	grep -q 'a: config.json and 3 others are left out: --with-files copies them' err || fail "$(<err)"
	assert_equal "$(ls -A plain)" model.safetensors
}

@test "reduce to another rank, sizes of files, and a broadcast, whole or of some tensors" {
	model a
	model bb
	ln -s a 0
	ln -s bb 1
	go 2 reduce --root 1 --with-files --max-shard-size 100 '{rank}' -o sum
	carried a sum
	[[ -e sum/model.safetensors.index.json ]] || fail "$(ls sum)"
	go 2 broadcast --root 1 --with-files '{rank}' -o 'copy.{rank}'
	carried bb copy.0
	carried bb copy.1
	cmp bb/model.safetensors copy.0/model.safetensors
	go 2 broadcast --with-files --include w 'a' -o 'some.{rank}'
	carried a some.1
	assert_equal "$(json <(collctl info --json some.1) '.tensors | map(.name) | join(" ")')" w
	# An index names its folder, too.
	go 1 allreduce --with-files sum/model.safetensors.index.json -o new/other.safetensors.index.json
	[[ -e new/config.json && -e new/model-00001-of-00002.safetensors ]] || fail "$(ls new)"
}

@test "in place, into a folder that has them, by two ranks into one: whole files or the old ones" {
	model a
	rm a/link.json a/pipe
	go 1 allreduce --op max --with-files a -o a
	cp -rp a before
	go 1 allreduce --op max --with-files a -o a
	diff -r before a
	mkdir out
	echo mine >out/config.json
	go 2 allreduce --op max --with-files a -o out
	cmp a/config.json out/config.json
	# What is no file stays, and so does everything.
	rm out/config.json
	mkdir out/config.json
	refused 4 'config.json' 2 allreduce --with-files a -o out
	assert_equal "$(json <(collctl info --json out) .digest)" "$(json <(collctl info --json a) .digest)"
	# A link that was there is not followed on other ranks.
	rmdir out/config.json
	echo secret >elsewhere
	ln -s ../elsewhere out/config.json
	refused 4 'out/config.json: is a symbolic link' 2 allreduce --with-files a -o out
	assert_equal "$(<elsewhere)" secret
}

@test "what it does not do is refused; ranks must agree" {
	model a
	make_shard in.npy f32 10 1
	refused 2 'a/model.safetensors: --with-files: the input is one file: name its folder' 1 allreduce --with-files a/model.safetensors -o out
	refused 2 'in.npy: --with-files: the input is one file' 1 allreduce --with-files in.npy -o out.npy
	refused 2 '--with-files' 1 allreduce --with-files --each a -o out
	refused 2 '--with-files' 1 broadcast --with-files --raw-file a -o out
	refused 2 'out.safetensors: ' 1 allreduce --with-files a -o out.safetensors
	refused 2 '--with-files' 1 gather --with-files in.npy -o out.npy
	refused 2 '--with-files' 1 allreduce --with-files=maybe a -o out
	start_serve
	make_secret
	rank 0 2 allreduce --with-files a -o out.0
	rank 1 2 allreduce a -o out.1
	wait_ranks
	assert_ranks 2 7 '--with-files'
	assert_not_exists out.0
	go 1 allreduce --with-files --with-files a -o twice
	carried a twice
	go 1 allreduce --dry-run --with-files a -o none
	grep -q 'would create none/config.json' err || fail "$(<err)"
	assert_not_exists none
}
