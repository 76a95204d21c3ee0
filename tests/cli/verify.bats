#!/usr/bin/env bats
# verify: compares the bits of all ranks; errors name the difference and the ranks.

load helpers

# tensors FILE NAME=VALUES...: a .safetensors of f32 vectors of 1000 elements, "first element" each
tensors() {
	"$PYTHON" - "$@" <<-'EOT'
		import json, struct, sys
		import numpy as np
		at, header, data = 0, {}, b''
		for arg in sys.argv[2:]:
		    name, first = arg.split('=')
		    values = np.arange(1000, dtype='<f4')
		    values[0] = float(first)
		    header[name] = {'dtype': 'F32', 'shape': [1000], 'data_offsets': [at, at + values.nbytes]}
		    at += values.nbytes
		    data += values.tobytes()
		text = json.dumps(header).encode()
		open(sys.argv[1], 'wb').write(struct.pack('<Q', len(text)) + text + data)
	EOT
}

# flip FILE OFFSET_FROM_END: change one byte
flip() {
	"$PYTHON" - "$@" <<-'EOT'
		import os, sys
		with open(sys.argv[1], 'r+b') as f:
		    f.seek(-int(sys.argv[2]), os.SEEK_END)
		    byte = f.read(1)[0]
		    f.seek(-1, os.SEEK_CUR)
		    f.write(bytes([byte ^ 1]))
	EOT
}

# digest_of FILE [OPTION...]: the digest that info prints
digest_of() { collctl info --json "$@" | jq -r .digest; }

# bats test_tags=smoke
@test "the same .npy on 1, 2 and 5 ranks: the digest is info's, rank 0 says it" {
	local size digest
	make_shard in.npy f32 30,7 1
	digest=$(digest_of in.npy)
	for size in 1 2 5; do
		run -0 --separate-stderr collctl run -n "$size" -- verify in.npy
		assert_output ''
		assert_equal "$(grep -c "rank 0: in.npy: digest $digest" <<<"$stderr")" 1
		[[ $stderr != *"rank 1"* ]]
		run -0 --separate-stderr collctl run -n "$size" -- verify -q in.npy
		assert_equal "$stderr" ''
	done
}

# bats test_tags=smoke
@test "one byte of one tensor of one rank of 4: tensor and rank are named, 10" {
	local r
	for r in 0 1 2 3; do
		tensors "w.$r.safetensors" a=1 b=2 c=3
	done
	run -0 collctl run -n 4 -- verify 'w.{rank}.safetensors'
	flip w.2.safetensors 5000 # in b
	run -10 --separate-stderr collctl run -n 4 -- verify 'w.{rank}.safetensors'
	[[ $stderr == *"rank 2: "*"ranks 0, 1, 3"*"tensor 'b'"* ]]
	[[ $stderr != *"tensor 'a'"* && $stderr != *"tensor 'c'"* ]]
	run -0 collctl run -n 4 -- verify --include '[ac]' 'w.{rank}.safetensors'
	run -0 collctl run -n 4 -- verify --exclude b 'w.{rank}.safetensors'
}

@test "arrays, raw arrays and bytes: a flipped byte is found" {
	local r args
	for r in 0 1 2; do
		make_shard "in.$r.npy" i16 500,100 1
		tail -c 100000 "in.$r.npy" >"in.$r.bin"
	done
	for args in 'in.{rank}.npy' 'in.{rank}.bin --dtype i16' 'in.{rank}.bin --raw-file' 'in.{rank}.npy --raw-file'; do
		# shellcheck disable=SC2086 # words
		run -0 collctl run -n 3 -- verify $args
	done
	flip in.1.npy 77777
	flip in.1.bin 77777
	for args in 'in.{rank}.npy' 'in.{rank}.bin --dtype i16' 'in.{rank}.bin --raw-file' 'in.{rank}.npy --raw-file'; do
		# shellcheck disable=SC2086
		run -10 --separate-stderr collctl run -n 3 -- verify $args
		[[ $stderr == *"rank 1: "*"ranks 0, 2"* ]] || fail "$args: $stderr"
	done
}

# bats test_tags=smoke
@test "two dissenters are both named" {
	local r
	for r in 0 1 2 3 4; do
		tensors "w.$r.safetensors" a=1 b=2
	done
	flip w.1.safetensors 20
	flip w.4.safetensors 30
	run -10 --separate-stderr collctl run -n 5 -- verify 'w.{rank}.safetensors'
	[[ $stderr == *"rank 1: "*"ranks 0, 2, 3"*"tensor 'b'"*"rank 4"* ]]
}

# bats test_tags=smoke
@test "a missing tensor, another type, shape or order: named before anything is read, 7" {
	tensors w.0.safetensors a=1 b=2 c=3
	cp w.0.safetensors w.2.safetensors
	tensors w.1.safetensors a=1 c=3
	run -7 --separate-stderr collctl run -n 3 -- verify 'w.{rank}.safetensors'
	[[ $stderr == *"rank 1: w.1.safetensors: tensor 'b' is missing; ranks 0, 2 have it"* ]]
	make_shard in.0.npy f32 10,3 1
	make_shard in.1.npy f64 10,3 1
	run -7 --separate-stderr collctl run -n 2 -- verify 'in.{rank}.npy'
	[[ $stderr == *"in.1.npy: dtype f64 differs from f32 on rank 0"* ]]
	make_shard in.1.npy f32 3,10 1
	run -7 --separate-stderr collctl run -n 2 -- verify 'in.{rank}.npy'
	[[ $stderr == *"in.1.npy: shape (3, 10) differs from (10, 3) on rank 0"* ]]
	"$PYTHON" -c 'import numpy as np; np.save("in.1.npy", np.asfortranarray(np.load("in.0.npy")))'
	run -7 --separate-stderr collctl run -n 2 -- verify 'in.{rank}.npy'
	[[ $stderr == *"in.1.npy: order Fortran's differs from C's on rank 0"* ]]
	run -7 --separate-stderr collctl run -n 2 -- verify --raw-file 'w.{rank}.safetensors'
	[[ $stderr == *"w.1.safetensors: size "*" differs from "* ]]
}

@test "what the ranks are asked for must be the same too" {
	local r
	make_secret
	start_serve
	make_shard in.npy f32 5 1
	tensors w.safetensors =1
	tensors v.safetensors a=1 b=1
	verify_both() { # JOB TEXT ARGS... -- ARGS...: of rank 0, of rank 1
		local job=$1 text=$2 first=()
		shift 2
		while [[ $1 != -- ]]; do
			first+=("$1")
			shift
		done
		shift
		JOB=$job rank 0 2 verify "${first[@]}"
		JOB=$job rank 1 2 verify "$@"
		wait_ranks
		assert_ranks 2 7 "$text"
	}
	verify_both a 'number of files 2 differs from 1' in.npy -- in.npy in.npy
	verify_both b '--raw-file given differs' in.npy -- in.npy --raw-file
	verify_both c '--include a, b differs from not given' v.safetensors -- v.safetensors --include a --include b
	verify_both d 'content named tensors differs from one array' in.npy -- v.safetensors
	verify_both e "has a tensor 'input 2' that rank 0 doesn't have" in.npy v.safetensors -- in.npy in.npy
	for r in 0 1; do # of one tensor without a name the format doesn't matter
		JOB=f rank "$r" 2 verify w.safetensors -q
	done
	wait_ranks
	assert_ranks 2 0
}

# bats test_tags=smoke
@test "the format doesn't matter: a set, one file, an .npz; big-endian" {
	mkdir -p w.0
	tensors w.0/model-1.safetensors b=2
	tensors w.0/model-2.safetensors a=1 c=3
	tensors w.1 c=3 a=1 b=2
	mv w.1 w.1.safetensors
	"$PYTHON" - <<-'EOT'
		import numpy as np
		def of(first):
		    values = np.arange(1000, dtype='>f4')
		    values[0] = first
		    return values
		np.savez('w.2.npz', b=of(2), c=of(3), a=of(1))
	EOT
	make_secret
	start_serve
	rank 0 3 verify --json w.0
	rank 1 3 verify --json w.1.safetensors
	rank 2 3 verify --json w.2.npz
	wait_ranks
	assert_ranks 3 0
	assert_equal "$(json 0.out .digest)" "$(digest_of w.0)"
	assert_equal "$(json 1.out .digest)" "$(digest_of w.1.safetensors)"
	assert_equal "$(json 2.out .digest)" "$(digest_of w.2.npz)"
	assert_equal "$(json 0.out .digest)" "$(json 2.out .digest)"
	"$PYTHON" -c 'import numpy as np; w = dict(np.load("w.2.npz")); w["c"][9] += 1; np.savez("w.2.npz", **w)'
	JOB=again rank 0 3 verify w.0
	JOB=again rank 1 3 verify w.1.safetensors
	JOB=again rank 2 3 verify w.2.npz
	wait_ranks
	assert_ranks 3 10 'rank 2: ' "tensor 'c'"
}

@test "after allreduce: the digest that it told" {
	local r digest
	for r in 0 1 2; do
		tensors "in.$r.safetensors" "a=$r" "b=$((2 * r))"
	done
	collctl run -n 3 -- allreduce --json 'in.{rank}.safetensors' -o 'out.{rank}.safetensors' >told
	digest=$(jq -r .digest told | sort -u)
	assert_equal "$(wc -l <<<"$digest")" 1
	collctl run -n 3 -- verify --json 'out.{rank}.safetensors' >found
	assert_equal "$(jq -r .digest found | sort -u)" "$digest"
}

@test "--json and -v: several files, their digests and those of tensors" {
	local r digest
	make_shard in.npy f32 5,2 1
	tensors w.safetensors a=1 b=2
	make_secret
	start_serve
	ranks 2 verify --json in.npy 'w.safetensors'
	assert_ranks 2 0
	for r in 0 1; do
		jq -e --arg a "$(digest_of in.npy)" --arg b "$(digest_of w.safetensors)" '.command == "verify" and
			.ok and .bytes == 8040 and .count == 2010 and .dtype == "f32" and .inputs == ["in.npy", "w.safetensors"] and
			.files == [{file: "in.npy", digest: $a}, {file: "w.safetensors", digest: $b}] and
			(.digest | length) == 32 and .digest != $a and .digest != $b' "$r.out" || fail "$(<"$r.out")"
	done
	assert_equal "$(json 0.out .digest)" "$(json 1.out .digest)"
	JOB=loud ranks 2 verify -v in.npy w.safetensors
	assert_ranks 2 0
	for r in 0 1; do
		assert_rank "$r" 0 "rank $r: in.npy: digest $(digest_of in.npy)"
		digest=$(collctl info --json w.safetensors | jq -r '.tensors[] | select(.name == "b") | .digest')
		grep -qF "rank $r: w.safetensors: tensor 'b' f32 (1000,): digest $digest" "$r.err"
	done
	flip w.safetensors 1
	cp w.safetensors v.0.safetensors
	tensors v.1.safetensors a=1 b=2
	JOB=bad ranks 2 verify --json 'v.{rank}.safetensors'
	assert_ranks 2 10
	for r in 0 1; do # it still reports what it has read
		assert_equal "$(json "$r.out" '[.ok, .error.code, .error.phase, .files[0].digest] | @json')" \
			"[false,10,\"commit\",\"$(digest_of v.$r.safetensors)\"]"
	done
}

@test "stdin; what is missing or broken: 3 for all" {
	make_shard in.npy f32 5,2 1
	run -0 collctl verify -n 1 - <in.npy
	assert_output --partial "stdin: digest $(digest_of in.npy)"
	cp in.npy in.0.npy
	head -c 140 in.npy >in.1.npy
	run -3 --separate-stderr collctl run -n 2 -- verify 'in.{rank}.npy'
	[[ $stderr == *"rank 1: in.1.npy: "* ]]
	rm in.1.npy
	run -3 --separate-stderr collctl run -n 2 -- verify 'in.{rank}.npy'
	[[ $stderr == *"rank 1: in.1.npy: "* ]]
	run -2 collctl verify -n 1
	run -2 collctl verify -n 1 --raw-file --dtype f32 in.npy
}

@test "a file that is changed while it is read: 3" {
	make_shard in.npy f32 5,2 1
	mkfifo pipe.npy
	spawn_rank 0 "$COLLCTL" verify -n 1 in.npy pipe.npy
	exec {to}>pipe.npy # once it is being read, in.npy is open
	touch -d 2001-01-01 in.npy
	cat in.npy >&"$to"
	exec {to}>&-
	wait_ranks
	assert_rank 0 3 'in.npy: was changed while it was read: it has been written since'
}

@test "--progress json tells the bytes that were read" {
	make_shard in.npy f32 1000,1000 1
	run -0 --separate-stderr collctl verify -n 1 --progress json in.npy
	assert_equal "$(grep '^{' <<<"$stderr" | tail -n 1 | jq -c '.progress | [.moved, .total]')" '[4000000,4000000]'
}

# ---- the files of one rank ----

@test "7: a job of one rank compares its files with each other, and names both" {
	local args
	make_shard a.npy f32 5,4 1
	make_shard b.npy f32 5,4 1
	make_shard other.npy f32 5,4 2
	make_shard shape.npy f32 4,5 1
	make_shard type.npy f64 5,4 1
	"$PYTHON" -c 'import numpy as np; np.save("order.npy", np.asfortranarray(np.load("a.npy")))'
	tensors w.safetensors a=1 b=2
	tensors v.safetensors a=1 b=3
	tensors few.safetensors a=1
	"$PYTHON" -c 'import numpy as np; w = np.arange(1000, dtype="f4"); x, y = w.copy(), w.copy(); x[0], y[0] = 1, 2; np.savez("w.npz", a=x, b=y)'
	differs() { # TEXT FILE...
		run -7 --separate-stderr collctl verify -n 1 "${@:2}"
		[[ $stderr == "collctl: rank 0: $1"* ]] || fail "$stderr"
		assert_equal "$(collctl verify -n 1 --json "${@:2}" 2>/dev/null | jq -r '.error.code, .ok' | xargs)" '7 false'
		run -7 --separate-stderr collctl run -n 3 -- verify --same "${@:2}"
		[[ $stderr == *": $1"* ]] || fail "$stderr"
	}
	differs "other.npy: digest $(digest_of other.npy) differs from $(digest_of a.npy) of a.npy" a.npy b.npy other.npy
	differs 'shape.npy: shape (4, 5) differs from (5, 4) of a.npy' a.npy shape.npy
	differs 'type.npy: dtype f64 differs from f32 of a.npy' a.npy type.npy
	differs "order.npy: order Fortran's differs from C's of a.npy" a.npy order.npy
	differs 'w.npz: content named tensors differs from one array of a.npy' a.npy w.npz
	differs "v.safetensors: tensor 'b': digest " w.npz w.safetensors v.safetensors
	differs "few.safetensors: lacks the tensor 'b' of w.safetensors" w.safetensors few.safetensors
	differs 'w.npz: shape ' --raw-file w.safetensors w.npz
	differs 'v.safetensors: digest ' --raw-file w.safetensors v.safetensors
	# The same, also as another format, through a link, and by a pattern.
	ln -s a.npy link.npy
	cp a.npy same.npy
	for args in 'a.npy b.npy' 'a.npy link.npy' 'w.safetensors w.npz' '--include a w.npz v.safetensors few.safetensors'; do
		# shellcheck disable=SC2086 # words
		run -0 --separate-stderr collctl verify -n 1 $args
		[[ $stderr == *'files were compared with each other'* ]] || fail "$stderr"
	done
	run -7 collctl verify -n 1 '[ao]*.npy'
	run -0 --separate-stderr collctl verify -n 1 a.npy
	[[ $stderr == *'the file was not compared with any other: give another file, or start more ranks'* ]]
}

@test "several files and ranks: the result says what was compared with what; --same compares all" {
	local r
	for r in 0 1 2; do
		make_shard "a.$r.npy" f32 5,4 1
		make_shard "b.$r.npy" f32 5,4 2
	done
	run -0 --separate-stderr collctl run -n 3 -- verify {a,b}.'{rank}.npy'
	[[ $stderr == *'rank 0: each of 2 files was compared with the file in the same place on the other 2 ranks, but not with the other files of this rank (--same)'* ]]
	assert_equal "$(collctl run -n 2 -- verify -q --json {a,b}.'{rank}.npy' | jq -sc '.[0].compared')" \
		'{"files":2,"with_local":false,"with_ranks":true}'
	run -7 --separate-stderr collctl run -n 3 -- verify --same {a,b}.'{rank}.npy'
	[[ $stderr == *'b.'?'.npy: digest '*' differs from '*' of a.'?'.npy'* ]]
	# All the same: the ranks may have different numbers of files.
	cp a.0.npy more.1.npy
	rm b.*
	run -0 --separate-stderr collctl run -n 2 -- verify --same -v '*.{rank}.npy'
	[[ $stderr == *'rank 1: 2 files were compared with each other and with the files of the other rank'* ]] || fail "$stderr"
	# The first files of the ranks differ, though each rank's are the same.
	make_shard a.1.npy f32 5,4 3
	cp a.1.npy more.1.npy
	run -10 --separate-stderr collctl run -n 2 -- verify --same '*.{rank}.npy'
	[[ $stderr == *'rank 1: its result differs from that of rank 0: the digests are not the same'* ]] || fail "$stderr"
	# All ranks must give it.
	make_secret
	start_serve
	rank 0 2 verify a.0.npy --same
	rank 1 2 verify a.0.npy
	wait_ranks
	assert_ranks 2 7 '--same'
}
