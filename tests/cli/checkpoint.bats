#!/usr/bin/env bats
# Checkpoints: safetensors and sharded sets through allreduce, reduce and broadcast. The oracle is
# checkpoint.py: numpy, and a separate reader and writer.

load helpers

S=safetensors
OPS=(sum prod min max avg band bor bxor land lor lxor)

ck() { oracle checkpoint "$@"; }

# Selects the tensors of the mixed checkpoint that have operation $1: sets SELECT and CHOSEN, the options
# of collctl and of the oracle.
choose() {
	SELECT=()
	CHOSEN=()
	case $1 in
	min | max) SELECT=(--exclude 'c64.*') ;;
	band | bor | bxor | land | lor | lxor) SELECT=(--exclude 'f*' --exclude 'bf16.*' --exclude 'c64.*') ;;
	esac
	CHOSEN=("${SELECT[@]}")
	[[ $1 != avg ]] || SELECT=(--integers round)
}

# every_op P: each operation on each type that has it
every_op() {
	local op
	ck make mixed "$1"
	for op in "${OPS[@]}"; do
		choose "$op"
		collctl run -n "$1" -- allreduce -q --no-sync --op "$op" "${SELECT[@]}" \
			"in.{rank}.$S" -o "out.{rank}.$S" || fail "$op"
		ck check allreduce "$op" "$1" "${CHOSEN[@]}"
	done
}

# refused CODE TEXT... -- COMMAND...: 2 ranks refuse it with all texts and leave no files
refused() {
	local code=$1 texts=() text
	shift
	while [[ $1 != -- ]]; do
		texts+=("$1")
		shift
	done
	shift
	run "-$code" --separate-stderr collctl run -n 2 -- "$@"
	for text in "${texts[@]}"; do
		# shellcheck disable=SC2154
		[[ $stderr == *"$text"* ]] || fail "does not say '$text': $stderr"
	done
	[[ -z $(compgen -G 'out*') ]] || fail "left $(echo out*)"
}

# ---- results ----

# bats test_tags=smoke
@test "every operation on every type, 2 ranks" { every_op 2; }
@test "every operation on every type, 1 rank" { every_op 1; }
@test "every operation on every type, 3 ranks" { every_op 3; }
@test "every operation on every type, 5 ranks" { every_op 5; }

@test "reduce: the root alone has a result" {
	local op
	ck make mixed 3
	for op in sum prod avg; do
		choose "$op"
		rm -f out.*
		collctl run -n 3 -- reduce -q --no-sync --root 2 --op "$op" "${SELECT[@]}" "in.{rank}.$S" -o "out.{rank}.$S"
		ck check reduce "$op" 3 --root 2
	done
}

@test "broadcast carries every type as it is, also those without arithmetic" {
	ck make types 3
	rm "in.0.$S" "in.2.$S"
	collctl run -n 3 -- broadcast -q --no-sync --root 1 "in.{rank}.$S" -o "out.{rank}.$S"
	cmp "in.1.$S" "out.0.$S"
	cmp "in.1.$S" "out.1.$S"
	cmp "in.1.$S" "out.2.$S"
	ck make types 2 --in 'set.{rank}' --shuffle
	collctl run -n 2 -- broadcast -q --no-sync --root 1 'set.{rank}' -o 'bset.{rank}'
	diff -r set.1 bset.0
	diff -r set.1 bset.1
}

@test "types without arithmetic are refused by reductions, and can be left out" {
	ck make types 2
	refused 3 f4 "tensor 'f4." 'broadcast' exclude -- allreduce "in.{rank}.$S" -o "out.{rank}.$S"
	refused 3 fnuz -- reduce --include '*fnuz.*' "in.{rank}.$S" -o "out.{rank}.$S"
	collctl run -n 2 -- allreduce -q --no-sync --exclude 'f4.*' --exclude 'f6_*' --exclude '*fnuz.*' --exclude 'f8_e8m0.*' \
		"in.{rank}.$S" -o "out.{rank}.$S"
	ck check allreduce sum 2 --exclude 'f4.*' --exclude 'f6_*' --exclude '*fnuz.*' --exclude 'f8_e8m0.*'
}

@test "sharded sets: tensors match by name, whatever shard and place they have on a rank" {
	local spec index
	for spec in mixed names small; do
		for index in '' --no-index; do
			rm -rf in.* out.* red.*
			# shellcheck disable=SC2086
			ck make "$spec" 3 --in 'in.{rank}' --shuffle $index
			collctl run -n 3 -- allreduce -q --no-sync 'in.{rank}' -o 'out.{rank}' || fail "$spec $index"
			ck check allreduce sum 3 --in 'in.{rank}' --out 'out.{rank}'
			collctl run -n 3 -- reduce -q --no-sync --root 1 'in.{rank}/' -o 'red.{rank}/'
			diff -r out.1 red.1
			[[ ! -e red.0 && ! -e red.2 ]]
		done
	done
}

@test "a set into a folder beside an index of another name" {
	local kind
	ck make two 2 --in 'in.{rank}'
	for kind in allreduce broadcast; do
		mkdir o.0 o.1
		collctl run -n 2 -- "$kind" -q --no-sync 'in.{rank}' -o 'o.{rank}/my.safetensors.index.json'
		assert_file_not_exist o.0/model.safetensors.index.json
		mv o.0/my.safetensors.index.json o.0/model.safetensors.index.json
		mv o.1/my.safetensors.index.json o.1/model.safetensors.index.json
		ck check "$kind" sum 2 --in 'in.{rank}' --out 'o.{rank}'
		rm -r o.0 o.1
	done
	ck make two 2 --in 'in.{rank}' --no-index
	rm in.?/*.json
	refused 2 'no index' -- broadcast 'in.{rank}' -o 'my.safetensors.index.json'
}

@test "a folder from which another set would be read afterwards is refused" {
	local kind
	ck make two 2 --in 'in.{rank}'
	collctl broadcast -q --no-sync -n 1 in.0 -o none
	rm none/*.json
	for kind in allreduce broadcast; do
		# an index of other files
		cp -r in.1 old
		run -4 --separate-stderr collctl run -n 2 -- $kind none -o old
		[[ $stderr == *"old: holds model.$S.index.json, which would be read as part of the output"* ]]
		diff -r in.1 old
		# an extra file, without an index
		rm old/*.json
		mv "$(compgen -G 'old/*' | head -n 1)" "old/stray.$S"
		run -4 --separate-stderr collctl run -n 2 -- $kind none -o old
		[[ $stderr == *"old: holds stray.$S, which would be read as part of the output"* ]]
		# the set's index does not list the extra file; the set replaces its own files
		collctl run -n 2 -- $kind -q --no-sync in.0 -o 'old.{rank}'
		cp "old/stray.$S" old.0
		cp "old/stray.$S" old.1
		collctl run -n 2 -- $kind -q --no-sync in.0 -o 'old.{rank}'
		collctl run -n 2 -- verify -q 'old.{rank}'
		rm -r old old.0 old.1
	done
	collctl run -n 1 -- allreduce -q --no-sync none -o none
}

@test "shards of another set that an output folder holds are named once, and stay" {
	local kind
	ck make two 2 --in 'in.{rank}'
	for kind in allreduce broadcast; do
		rm -rf old
		cp -r in.1 old
		echo 1 >"old/model-00007-of-00009.$S"
		echo 2 >"old/model-00008-of-00009.$S"
		run -0 --separate-stderr collctl run -n 2 -- $kind --no-sync in.0 -o old
		assert_equal "$(grep -c "old: model-00007-of-00009.$S and 1 other file: not part of the set that was written" <<<"$stderr")" 1
		assert_equal "$(cat old/*-of-00009.$S)" $'1\n2'
		rm "old/model-00008-of-00009.$S"
		run -0 --separate-stderr collctl run -n 2 -- $kind --no-sync in.0 -o old/
		[[ $stderr == *"old: model-00007-of-00009.$S: not part of the set"* ]]
		rm "old/model-00007-of-00009.$S"
		run -0 --separate-stderr collctl run -n 2 -- $kind --no-sync in.0 -o old
		[[ $stderr != *'not part of the set'* ]]
	done
}

@test "too few descriptors for the files of a set: 11, and how many they are" {
	local limit
	"$PYTHON" - <<-END
		import json, os, struct
		os.mkdir("set")
		for i in range(60):
		    head = json.dumps({f"t{i:02}": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
		    open(f"set/{i:02}.$S", "wb").write(struct.pack("<Q", len(head)) + head + b"1234")
	END
	for limit in 40 100; do
		run -11 --separate-stderr bash -c "ulimit -n $limit; exec \"\$0\" allreduce -n 1 set -o out" "$COLLCTL"
		[[ $stderr == *' 60 files '*"'ulimit -n' allows $limit"* ]] || fail "$stderr"
		[[ ! -e out ]]
	done
	collctl allreduce -n 1 --no-sync set -o out
}

@test "a set by the name of its index, file against set, and into a folder that is there" {
	ck make mixed 2 --in 'in.{rank}' --shuffle
	mkdir out.0
	echo mine >out.0/notes.txt
	collctl run -n 2 -- allreduce -q --no-sync 'in.{rank}/model.safetensors.index.json' -o 'out.{rank}'
	assert_equal "$(<out.0/notes.txt)" mine
	rm out.0/notes.txt
	ck check allreduce sum 2 --in 'in.{rank}' --out 'out.{rank}'
	# Rank 0 has a set, rank 1 one file of the same tensors.
	ck make mixed 2 --in "one.{rank}.$S"
	mv "one.0.$S" "two.0.$S"
	mv in.0 one.0.set
	start_serve
	make_secret
	rank 0 2 allreduce -q --no-sync one.0.set -o res.0
	rank 1 2 allreduce -q --no-sync "one.1.$S" -o "res.1.$S"
	wait_ranks
	assert_ranks 2 0
	assert_equal "$(collctl info --json res.0 | jq -r .digest)" "$(collctl info --json "res.1.$S" | jq -r .digest)"
}

@test "odd names, many small tensors, tensors in another order on each rank" {
	local spec
	for spec in names small; do
		ck make "$spec" 3 --shuffle
		collctl run -n 3 -- allreduce -q --no-sync --op max "in.{rank}.$S" -o "out.{rank}.$S"
		ck check allreduce max 3
	done
}

@test "files without a tensor, and tensors without an element" {
	ck make none 2
	collctl run -n 2 -- allreduce -q --no-sync "in.{rank}.$S" -o "out.{rank}.$S"
	ck check allreduce sum 2
	collctl run -n 2 -- allreduce -q --no-sync --op avg --integers first "in.{rank}.$S" -o "out.{rank}.$S"
	ck check allreduce avg 2
	ck make mixed 3
	collctl run -n 3 -- allreduce -q --no-sync --include '*.none' "in.{rank}.$S" -o "out.{rank}.$S"
	ck check allreduce sum 3 --include '*.none'
}

@test "several local inputs are reduced with one another" {
	local op
	ck make mixed 2 --inputs 3 --in "in.{rank}.{k}.$S" --shuffle
	for op in sum prod max avg; do
		choose "$op"
		collctl run -n 2 -- allreduce -q --no-sync --op "$op" "${SELECT[@]}" 'in.{rank}'.{0,1,2}."$S" -o "out.{rank}.$S"
		ck check allreduce "$op" 2 --inputs 3 --in "in.{rank}.{k}.$S" "${CHOSEN[@]}"
	done
	ck make mixed 2 --inputs 2 --in 'set.{rank}.{k}' --shuffle
	collctl run -n 2 -- allreduce -q --no-sync 'set.{rank}.0' 'set.{rank}.1' -o 'sum.{rank}'
	ck check allreduce sum 2 --inputs 2 --in 'set.{rank}.{k}' --out 'sum.{rank}'
}

@test "--each: every file on its own, in one join" {
	local op kind
	ck make mixed 2 --in "x.{rank}.$S" --seed 1
	ck make two 2 --in "y.{rank}.$S" --shuffle
	for op in sum avg; do
		choose "$op"
		collctl run -n 2 -- allreduce --each -q --no-sync --op "$op" "${SELECT[@]}" "x.{rank}.$S" "y.{rank}.$S" -o 'each.{rank}'
		ck check allreduce "$op" 2 --in "x.{rank}.$S" --out "each.{rank}/x.{rank}.$S"
		ck check allreduce "$op" 2 --in "y.{rank}.$S" --out "each.{rank}/y.{rank}.$S"
	done
	rm -r each.?
	collctl run -n 2 -- broadcast --each -q --no-sync --root 1 "x.{rank}.$S" "y.{rank}.$S" -o 'each.{rank}'
	cmp "x.1.$S" "each.0/x.1.$S"
	cmp "y.1.$S" "each.1/y.1.$S"
	# The error names the tensor and the difference.
	ck edit "y.1.$S" drop b.weight
	refused 7 'rank 1' b.weight -- allreduce --each "x.{rank}.$S" "y.{rank}.$S" -o 'out.{rank}'
}

@test ".npz in and out" {
	"$PYTHON" -B - <<-END
		import numpy as np
		np.savez("a.npz", x=np.arange(5), y=np.ones((2, 3), "f4"))
	END
	collctl run -n 2 -- allreduce -q --no-sync --op avg --integers round a.npz a.npz -o 'out.{rank}.npz'
	"$PYTHON" -B - <<-END
		import numpy as np
		got, want = np.load("out.1.npz"), np.load("a.npz")
		assert sorted(got) == sorted(want)
		assert all(got[k].tobytes() == want[k].tobytes() and got[k].dtype == want[k].dtype for k in want)
	END
}

@test "several local inputs must be alike: what differs is named" {
	ck make two 2 --inputs 2 --in "in.{rank}.{k}.$S"
	ck edit "in.1.1.$S" flat a.weight
	refused 3 'rank 1' 'a.weight' '(1, 4, 3)' -- allreduce 'in.{rank}'.{0,1}."$S" -o "out.{rank}.$S"
	ck make two 2 --inputs 2 --in "in.{rank}.{k}.$S"
	ck edit "in.0.1.$S" drop b.weight
	refused 3 'rank 0' 'b.weight' -- allreduce 'in.{rank}'.{0,1}."$S" -o "out.{rank}.$S"
}

# ---- selection ----

@test "--include and --exclude, of files and sets; the index is made anew" {
	local kind
	ck make mixed 2
	ck make mixed 2 --in 'set.{rank}' --shuffle
	for kind in allreduce broadcast; do
		collctl run -n 2 -- "$kind" -q --no-sync --include 'f*.weight' --include 'i32.*' --exclude 'f8*' --exclude '*.scale' \
			"in.{rank}.$S" -o "out.{rank}.$S"
		ck check "$kind" sum 2 --include 'f*.weight' --include 'i32.*' --exclude 'f8*' --exclude '*.scale'
		rm -rf out.*
		collctl run -n 2 -- "$kind" -q --no-sync --include 'f*.weight' --include 'i32.*' --exclude 'f8*' --exclude '*.scale' \
			'set.{rank}' -o 'out.{rank}'
		ck check "$kind" sum 2 --in 'set.{rank}' --out 'out.{rank}' \
			--include 'f*.weight' --include 'i32.*' --exclude 'f8*' --exclude '*.scale'
		rm -rf out.*
		# Whole shards are excluded.
		collctl run -n 2 -- "$kind" -q --no-sync --include 'u16.bias' 'set.{rank}' -o 'out.{rank}'
		ck check "$kind" sum 2 --in 'set.{rank}' --out 'out.{rank}' --include 'u16.bias'
		assert_equal "$(find out.0 -type f | wc -l)" 2
		rm -rf out.*
	done
}

@test "nothing left of the tensors is a usage error" {
	local kind
	ck make two 2
	np_save a.npy
	for kind in allreduce broadcast reduce; do
		refused 2 "no tensor matches --include 'x*': the nearest names: '" -- "$kind" --include 'x*' "in.{rank}.$S" -o "out.{rank}.$S"
		refused 2 -- "$kind" --exclude '*' "in.{rank}.$S" -o "out.{rank}.$S"
		refused 2 -- "$kind" --include 'a' a.npy -o 'out.{rank}.npy'
	done
}

@test "a pattern that matches no tensor: 2 with the nearest names for --include, a note for --exclude" {
	local kind note="no tensor matches --exclude '*.biass'"
	ck make two 2
	for kind in allreduce broadcast reduce; do
		refused 2 "no tensor matches --include 'a.weigth': the nearest names: 'a.weight', " -- \
			"$kind" --include b.weight --include a.weigth "in.{rank}.$S" -o "out.{rank}.$S"
		run --separate-stderr collctl run -n 2 -- "$kind" --include 'a.*' --exclude '*.biass' "in.{rank}.$S" -o "out.{rank}.$S"
		assert_success
		assert_equal "$(grep -c . <<<"$stderr")" 2
		[[ $stderr == *"[0] collctl: rank 0: in.0.$S: $note"* ]] || fail "$stderr"
		rm out.*
		run --separate-stderr collctl run -n 2 -- "$kind" -q --exclude '*.biass' "in.{rank}.$S" -o "out.{rank}.$S"
		assert_success
		assert_equal "$stderr" ''
		rm out.*
	done
	refused 2 "in.0.$S: no tensor matches --include 'a'" -- verify --include a "in.0.$S"
	run --separate-stderr collctl run -n 2 -- verify --exclude '*.biass' "in.0.$S"
	assert_success
	[[ $stderr == *"[0] collctl: rank 0: in.0.$S: $note"* && $stderr != *'rank 1'* ]] || fail "$stderr"
	run --separate-stderr collctl info --exclude '*.biass' "in.0.$S"
	assert_success
	assert_equal "$stderr" "collctl: in.0.$S: $note"
}

np_save() { make_shard "$1" f32 3 0; }

# ---- disagreement ----

# dissent HOW NAME: ranks 1 and 3 of 4 have a different tensor; all ranks report it before creating outputs
dissent() {
	ck make two 4
	ck edit "in.1.$S" "$1" "$2"
	ck edit "in.3.$S" "$1" "$2"
	run -7 --separate-stderr collctl run -n 4 -- allreduce "in.{rank}.$S" -o "out.{rank}.$S"
	all_say "rank 1: .*$2.*rank 3"
	[[ $stderr == *"$3"* ]] || fail "$stderr"
	[[ -z $(compgen -G 'out*') ]]
}

@test "a type that differs is named with tensor and ranks" { dissent as a.weight i32; }
@test "a shape that differs is named with tensor and ranks" { dissent flat b.weight '(1, 6)'; }
@test "a missing tensor is named with the ranks" { dissent drop c.weight c.weight; }
@test "an extra tensor is named with the ranks" { dissent add bb.weight bb.weight; }

@test "one that differs of many: the tensor and the rank are named" {
	ck make small 3
	ck edit "in.2.$S" as layers.77.norm
	run -7 --separate-stderr collctl run -n 3 -- allreduce "in.{rank}.$S" -o "out.{rank}.$S"
	[[ $stderr == *'rank 2'*layers.77.norm* ]] || fail "$stderr"
	ck make names 2
	ck edit "in.1.$S" drop $'new\nline'
	run -7 --separate-stderr collctl run -n 2 -- allreduce "in.{rank}.$S" -o "out.{rank}.$S"
	[[ $stderr == *'new\x0aline'* ]] || fail "$stderr"
}

@test "an array and a file of one tensor are not alike" {
	ck make two 2
	np_save b.npy
	collctl run -n 1 -- allreduce -q --no-sync --include a.weight "in.0.$S" -o "a.$S"
	start_serve
	make_secret
	rank 0 2 allreduce b.npy -o out.npy
	rank 1 2 allreduce "a.$S" -o "out.$S"
	wait_ranks
	assert_ranks 2 7 "rank 1: a.$S: content named tensors differs from one array on rank 0"
	# One array, and two arrays.
	JOB=each rank 0 2 allreduce --each b.npy -o out.0
	JOB=each rank 1 2 allreduce --each b.npy "a.$S" -o out.1
	wait_ranks
	assert_ranks 2 7 'number of inputs'
	[[ -z $(compgen -G 'out*') ]] || fail "left $(echo out*)"
}

@test "names that begin alike for thousands of bytes are still told apart" {
	local long
	long=$(printf 'x%.0s' {1..9000})
	ck make two 2
	ck edit "in.0.$S" add "${long}a"
	ck edit "in.1.$S" add "${long}b"
	refused 7 tensors 'rank 1' -- allreduce "in.{rank}.$S" -o "out.{rank}.$S"
	ck edit "in.1.$S" drop "${long}b"
	ck edit "in.1.$S" add "${long}a"
	collctl run -n 2 -- allreduce -q --no-sync "in.{rank}.$S" -o "out.{rank}.$S"
	ck check allreduce sum 2
}

# ---- hostile files ----

@test "hostile files and sets: exit 3, with words and the rank, nothing written" {
	local what kind file n=0
	ck make two 2
	for what in $("$PYTHON" -B "$HELPERS_DIR/broken.py"); do
		case $what in
		set-*) file=bad.$what ;;
		*) file=bad.$what.$S ;;
		esac
		"$PYTHON" -B "$HELPERS_DIR/broken.py" "$what" "$file"
		kind=allreduce
		((n++ % 2)) || kind=broadcast
		run -3 --separate-stderr collctl run -n 2 -- "$kind" "$file" -o "out.{rank}"
		[[ $stderr == *'collctl: rank '?": $file"* ]] || fail "$what: $stderr"
		[[ -z $(compgen -G 'out*') ]] || fail "$what left $(echo out*)"
	done
	((n > 30))
}

@test "a hostile file at one rank stops all, who name it" {
	ck make two 3
	"$PYTHON" -B "$HELPERS_DIR/broken.py" overlap bad
	mv bad "in.1.$S"
	run -3 --separate-stderr collctl run -n 3 -- allreduce "in.{rank}.$S" -o "out.{rank}.$S"
	all_say "rank 1: in.1.$S: tensor 'b'"
	[[ -z $(compgen -G 'out*') ]]
}

# ---- usage ----

@test "collectives that cut or join rows refuse named tensors" {
	local kind
	ck make two 2
	for kind in reduce-scatter scatter gather allgather alltoall scan exscan; do
		refused 2 "in.0.$S" 'allreduce, reduce and broadcast' -- "$kind" "in.0.$S" -o "out.{rank}.$S"
	done
	ck make two 2 --in 'set.{rank}'
	refused 2 'allreduce, reduce and broadcast' -- allgather 'set.{rank}' -o 'out.{rank}'
}

@test "the output has the input's format" {
	local kind
	ck make two 2
	ck make two 2 --in 'set.{rank}'
	np_save a.npy
	for kind in allreduce broadcast; do
		refused 2 'out.0.npy' -- "$kind" "in.{rank}.$S" -o 'out.{rank}.npy'
		refused 2 'out.0.npz' -- "$kind" "in.{rank}.$S" -o 'out.{rank}.npz'
		refused 2 "out.0.$S" -- "$kind" a.npy -o "out.{rank}.$S"
		refused 2 "out.0.$S" -- "$kind" 'set.{rank}' -o "out.{rank}.$S"
	done
	refused 2 -- allreduce "in.{rank}.$S" -o - --json
	mkdir there
	refused 2 there -- allreduce "in.{rank}.$S" -o there
	ck make two 2 --in 'in.{rank}.bin.safetensors'
	mv in.0.bin.safetensors x.0
	mv in.1.bin.safetensors x.1
	collctl run -n 2 -- allreduce -q --no-sync --format safetensors 'x.{rank}' -o 'y.{rank}'
	ck check allreduce sum 2 --in 'x.{rank}' --out 'y.{rank}'
}

@test "stdout: one safetensors file" {
	ck make two 1
	collctl run -n 1 -- allreduce -q --no-sync "in.0.$S" -o - >"out.0.$S"
	ck check allreduce sum 1
	collctl run -n 1 -- allreduce -q --no-sync --format safetensors - -o - <"in.0.$S" >"out.0.$S"
	ck check allreduce sum 1
}

# ---- replacing ----

@test "output over input" {
	ck make mixed 2
	cp "in.0.$S" "keep.0.$S"
	cp "in.1.$S" "keep.1.$S"
	collctl run -n 2 -- allreduce -q --no-sync "in.{rank}.$S" -o "in.{rank}.$S"
	ck check allreduce sum 2 --in "keep.{rank}.$S" --out "in.{rank}.$S"
	ck make mixed 2 --in 'set.{rank}' --shuffle
	cp -r set.0 keep.0
	cp -r set.1 keep.1
	collctl run -n 2 -- allreduce -q --no-sync 'set.{rank}' -o 'set.{rank}'
	ck check allreduce sum 2 --in 'keep.{rank}' --out 'set.{rank}'
}

@test "a set is replaced whole or not at all, on every rank, when one fails" {
	ck make mixed 2 --in 'in.{rank}'
	ck make two 2 --in 'out.{rank}' --shards 2
	rm out.1/model-00002-of-00002.safetensors
	cp -r in.0 a.0
	cp -r out.0 old.0
	# The last shard of rank 1 cannot be replaced, because a folder has its name.
	mkdir out.1/model-00003-of-00003.safetensors
	cp -r out.1 old.1
	run -4 --separate-stderr collctl run -n 2 -- allreduce --no-sync 'in.{rank}' -o 'out.{rank}'
	[[ $stderr == *'rank 1'*model-00003-of-00003.safetensors* ]] || fail "$stderr"
	diff -r old.0 out.0
	diff -r old.1 out.1
	rmdir out.1/model-00003-of-00003.safetensors
	rm -r out.0 out.1
	collctl run -n 2 -- allreduce -q --no-sync 'in.{rank}' -o 'out.{rank}'
	ck check allreduce sum 2 --in 'in.{rank}' --out 'out.{rank}'
}

# ---- messages ----

@test "--json: the number of tensors, mixed types, and the digest that info prints" {
	ck make mixed 2
	collctl run -n 2 --label -- allreduce --json --no-sync "in.{rank}.$S" -o "out.{rank}.$S" >labelled
	grep -F '[1]' labelled | sed 's/^\[1\] //' >json
	assert_equal "$(json json '.ok, .dtype, .command, .output, .error')" $'true\nmixed\nallreduce\nout.1.safetensors\nnull'
	assert_equal "$(jq -r .digest json)" "$(collctl info --json "out.0.$S" | jq -r .digest)"
	assert_equal "$(jq -r .bytes json)" "$(collctl info --json "out.0.$S" | jq -r .bytes)"
	ck edit "in.1.$S" drop u8.bias
	run -7 --separate-stderr collctl run -n 2 --label -- allreduce --json "in.{rank}.$S" -o "out.{rank}.$S"
	# shellcheck disable=SC2154
	sed -n 's/^\[0\] //p' <<<"$output" >json
	assert_equal "$(json json '.ok, .error.code, .error.name')" $'false\n7\ndisagree'
	[[ $(jq -r .error.message json) == *u8.bias* ]]
}

@test "the digest is one of names and values, not of the layout" {
	local set file
	ck make mixed 2
	ck make mixed 2 --in 'set.{rank}' --shuffle
	collctl run -n 2 -- allreduce -q --no-sync "in.{rank}.$S" -o "out.{rank}.$S"
	collctl run -n 2 -- allreduce -q --no-sync 'set.{rank}' -o 'out.{rank}'
	file=$(collctl info --json "out.0.$S" | jq -r .digest)
	set=$(collctl info --json out.1 | jq -r .digest)
	assert_equal "$set" "$file"
}

# ---- windows, orders ----

@test "--order rank: the same bits for all windows, in 64K as in 256M" {
	local m
	ck make large 3 --data random
	collctl run -n 3 -- allreduce -q --no-sync --order rank "in.{rank}.$S" -o "out.{rank}.$S"
	ck check allreduce sum 3
	for m in 1M 64K; do
		collctl run -n 3 -- allreduce -q --no-sync --order rank --memory "$m" "in.{rank}.$S" -o "b.{rank}.$S"
		cmp "out.0.$S" "b.0.$S"
		cmp "out.2.$S" "b.2.$S"
	done
	collctl run -n 3 -- allreduce -q --no-sync --op avg --integers round --order rank --memory 64K \
		"in.{rank}.$S" "in.{rank}.$S" -o "b.{rank}.$S"
	collctl run -n 3 -- allreduce -q --no-sync --op avg --integers round --order rank "in.{rank}.$S" -o "out.{rank}.$S"
	cmp "out.1.$S" "b.1.$S"
}

@test "every algorithm of allreduce gives the same result over a checkpoint" {
	local a
	ck make mixed 3
	for a in $(algorithms_of allreduce); do
		collctl run -n 3 -- allreduce -q --no-sync --allow-divergent -a "$a" "in.{rank}.$S" -o "out.{rank}.$S" || fail "$a"
		ck check allreduce sum 3 || fail "$a"
	done
}

# ---- the reference library ----

@test "the reference library reads what is written, and lays it out alike" {
	command -v pip >/dev/null || skip "no pip: the reference library is not at hand"
	pip install -q --disable-pip-version-check --no-deps --target ref safetensors==0.8.0 >pip.log 2>&1 ||
		skip "pip can't install the reference library: $(tail -n 1 pip.log)"
	export PYTHONPATH=$PWD/ref
	"$PYTHON" -c 'import safetensors' 2>/dev/null || skip "$PYTHON can't load the reference library"
	ck make mixed 2
	ck make names 2 --in "n.{rank}.$S"
	ck make none 2 --in "z.{rank}.$S"
	ck make mixed 2 --in 'set.{rank}' --shuffle
	collctl run -n 2 -- allreduce -q --no-sync "in.{rank}.$S" -o "out.{rank}.$S"
	collctl run -n 2 -- allreduce -q --no-sync "n.{rank}.$S" -o "nout.{rank}.$S"
	collctl run -n 2 -- allreduce -q --no-sync "z.{rank}.$S" -o "zout.{rank}.$S"
	collctl run -n 2 -- allreduce -q --no-sync 'set.{rank}' -o 'sout.{rank}'
	collctl run -n 2 -- broadcast -q --no-sync --include 'b*' "in.{rank}.$S" -o "bout.{rank}.$S"
	# Not in the server of this file, which may have begun without the library.
	"$PYTHON" -B "$HELPERS_DIR/checkpoint.py" reference {out,nout,zout,bout}.{0,1}.$S sout.?/*.$S
}
