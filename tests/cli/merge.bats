#!/usr/bin/env bats
# Merges of differences to an origin: --origin, --scale, ties, dare.

load helpers

OPS=(sum avg median trimmed:0.2 ties:0.2 ties:1 'dare:0.5,7' 'dare:1,0')

# on RANKS INPUTS OUT ARGS...: the inputs x.0 ... divided among the ranks in their order, as evenly as can be
# shellcheck disable=SC2016
on() {
	local ranks=$1 inputs=$2 out=$3
	shift 3
	collctl run -n "$ranks" -- bash -c 'n=$1 out=$2 first=$((COLLCTL_RANK * $1 / COLLCTL_SIZE)) end=$(((COLLCTL_RANK + 1) * $1 / COLLCTL_SIZE))
		shift 2
		for ((i = first; i < end; i++)); do files+=("x.$i.safetensors"); done
		((COLLCTL_RANK == 0)) || out=other.$COLLCTL_RANK.safetensors
		exec "$0" "$@" -q --no-sync --insecure --origin origin.safetensors "${files[@]}" -o "$out"' "$COLLCTL" "$inputs" "$out" "$@" 2>err ||
		fail "$*: $(<err)"
}

# bats test_tags=smoke
@test "each operation is numpy's, and has the same bits for every division of the inputs among ranks" {
	local op ranks
	oracle merge make 6
	for op in "${OPS[@]}"; do
		on 1 6 out.safetensors allreduce --op "$op" --scale 0.7
		oracle merge check out.safetensors "$op" 0.7 6
		for ranks in 2 4 6; do
			on "$ranks" 6 split.safetensors allreduce --op "$op" --scale 0.7
			cmp out.safetensors split.safetensors || fail "$op on $ranks ranks"
			cmp out.safetensors other.1.safetensors
		done
		on 3 6 small.safetensors allreduce --op "$op" --scale 0.7 --memory 4K --streams 3
		cmp out.safetensors small.safetensors || fail "$op, small memory"
		on 3 6 reduced.safetensors reduce --op "$op" --scale 0.7
		cmp out.safetensors reduced.safetensors || fail "$op, reduce"
	done
}

@test "types, weights, negative scales, other types of the output" {
	local t
	for t in f2 f8; do
		oracle merge make 4 "$t"
		on 2 4 out.safetensors allreduce --op ties:0.3 --scale=-1
		oracle merge check out.safetensors ties:0.3 -1 4
		on 2 4 out.safetensors allreduce --op avg --order rank
		oracle merge check out.safetensors avg 1 4
	done
	oracle merge make 4
	# shellcheck disable=SC2016
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && set -- "$@" --weight 3,4 x.2.safetensors x.3.safetensors || set -- "$@" --weight 1,2 x.0.safetensors x.1.safetensors
		exec "$0" allreduce -q --insecure --no-sync --op avg --origin origin.safetensors "$@" -o "out.$COLLCTL_RANK.safetensors"' "$COLLCTL"
	oracle merge check out.0.safetensors avg 1 4 1,2,3,4
	cmp out.0.safetensors out.1.safetensors
	on 1 4 f32.safetensors allreduce --op median
	on 1 4 f64.safetensors allreduce --op median --output-dtype f64
	on 1 4 bf16.safetensors allreduce --op median --output-dtype bf16
	py <<-'END'
		a, b = load_safetensors("f32.safetensors"), load_safetensors("f64.safetensors")
		assert all((b[k].astype("f4") == a[k]).all() for k in a)
	END
	# Two equal inputs are the result at scale 1, and the origin is it at scale 0.
	collctl allreduce -n 1 -q --op ties:1 --origin origin.safetensors x.1.safetensors x.1.safetensors -o same.safetensors
	collctl verify -n 1 -q --same same.safetensors x.1.safetensors
	collctl allreduce -n 1 -q --op sum --scale 0 --origin origin.safetensors x.?.safetensors -o zero.safetensors
	collctl verify -n 1 -q --same zero.safetensors origin.safetensors
}

@test "ties of tensors that are larger than the sample by which the passes over them begin" {
	local t part
	for t in f4 f8; do
		oracle merge make 2 "$t" large
		for part in 0.0001 0.3 0.9 1; do
			on 1 2 out.safetensors allreduce --op "ties:$part"
			oracle merge check out.safetensors "ties:$part" 1 2
		done
	done
}

@test "arrays: reduce-scatter, other orders of bytes and elements, an origin through a link, in place" {
	py <<-'END'
		r = np.random.default_rng(1)
		o, x, y = (r.normal(size=(11, 6)).astype("f4") for _ in range(3))
		np.save("o.npy", np.asfortranarray(o)); np.save("x.0.npy", x); np.save("x.1.npy", y.astype(">f4"))
		np.save("want.npy", (o.astype("f8") + 0.5 * ((x.astype("f8") - o).astype("f4").astype("f8") + (y.astype("f8") - o).astype("f4"))).astype("f4"))
	END
	ln -s o.npy link.npy
	go 2 allreduce --origin link.npy --op sum --scale 0.5 'x.{rank}.npy' -o 'out.{rank}.npy'
	go 2 reduce-scatter --origin o.npy --op sum --scale 0.5 'x.{rank}.npy' -o 'part.{rank}.npy'
	py <<-'END'
		want = np.load("want.npy")
		assert np.abs(np.load("out.0.npy") - want).max() <= 2e-7 * np.abs(want).max()
		assert (np.concatenate([np.load("part.0.npy"), np.load("part.1.npy")]) == np.load("out.0.npy")).all()
	END
	go 2 allreduce --origin o.npy --op sum --scale 0.5 'x.{rank}.npy' -o o.npy
	py <<<'assert (np.load("o.npy") == np.load("out.0.npy")).all()'
}

@test "NaN in a difference is NaN in the result; integers are taken from rank 0" {
	local op
	py <<-'END'
		o = {"w": np.zeros(8, "f4"), "n": np.arange(3)}
		x = {"w": np.ones(8, "f4"), "n": np.arange(3) + 5}
		x["w"][2] = np.nan
		save_safetensors("origin.safetensors", o); save_safetensors("x.0.safetensors", x)
		save_safetensors("x.1.safetensors", {"w": np.ones(8, "f4"), "n": np.arange(3) + 9})
	END
	for op in avg median trimmed:0.1 ties:0.5 ties:1 dare:1,1; do
		on 2 2 out.safetensors allreduce --op "$op" --integers first
		py <<-'END'
			out = load_safetensors("out.safetensors")
			assert np.isnan(out["w"][2]) and np.isfinite(np.delete(out["w"], 2)).all(), out
			assert (out["n"] == np.arange(3) + 5).all()
		END
	done
	run -2 --separate-stderr collctl allreduce -n 1 --op avg --origin origin.safetensors x.0.safetensors -o out.safetensors
	[[ $stderr == *"tensor 'n': --origin is not defined on i64: give --integers first or equal"* ]] || fail "$stderr"
}

@test "another origin on a rank: 7; another shape: 3; one that changes meanwhile or is not there" {
	oracle merge make 2
	cp x.0.safetensors other.safetensors
	start_serve
	make_secret
	rank 0 2 allreduce --op avg --origin origin.safetensors x.0.safetensors -o out.0.safetensors
	rank 1 2 allreduce --op avg --origin other.safetensors x.1.safetensors -o out.1.safetensors
	wait_ranks
	assert_ranks 2 7 '--origin'
	rank 0 2 allreduce --op avg --origin origin.safetensors x.0.safetensors -o out.0.safetensors
	rank 1 2 allreduce --op avg x.1.safetensors -o out.1.safetensors
	wait_ranks
	assert_ranks 2 7 '--origin'
	rank 0 2 allreduce --op ties:0.5 --origin origin.safetensors x.0.safetensors -o out.0.safetensors
	rank 1 2 allreduce --op ties:0.4 --origin origin.safetensors x.1.safetensors -o out.1.safetensors
	wait_ranks
	assert_ranks 2 7 'ties:0.'
	py <<<'save_safetensors("short.safetensors", {"b": np.zeros(3, "f4")})'
	refused 3 'short.safetensors: ' 1 allreduce --op avg --origin short.safetensors x.0.safetensors -o out.0.safetensors
	refused 3 'missing.safetensors' 1 allreduce --op avg --origin missing.safetensors x.0.safetensors -o out.0.safetensors
	assert_not_exists out.0.safetensors
}

@test "what has no meaning is refused" {
	local op
	oracle merge make 2
	refused 2 '--op ties: merges differences to an origin: give --origin FILE' 1 allreduce --op ties:0.5 x.0.safetensors -o out
	refused 2 '--scale: needs --origin' 1 allreduce --scale 2 x.0.safetensors -o out
	refused 2 '--origin: differences cannot be merged by --op max' 1 allreduce --op max --origin origin.safetensors x.0.safetensors -o out
	refused 2 '--origin: is one file, and --each has several' 1 allreduce --op avg --each --origin origin.safetensors x.0.safetensors -o out
	refused 2 '--weight' 1 allreduce --op ties:0.5 --weight 2 --origin origin.safetensors x.0.safetensors -o out
	refused 2 '--origin' 1 allreduce --op avg --origin origin.safetensors --origin origin.safetensors x.0.safetensors -o out
	refused 2 '--origin' 1 allreduce --op avg --origin '' x.0.safetensors -o out
	refused 2 '--origin' 1 scan --origin origin.safetensors x.0.safetensors -o out
	refused 2 'needs all inputs at once' 1 allreduce --op avg -a ring --origin origin.safetensors x.0.safetensors -o out
	for op in ties ties: ties:0 ties:1.1 ties:-1 ties:0.5,1 ties:x dare dare:0.5 'dare:0.5,' dare:0.5,x dare:0,1 dare:0.5,-1 dare:0.5,1,2 \
		dare:0.5,18446744073709551616; do
		refused 2 "--op: '$op' is not " 1 allreduce --op "$op" --origin origin.safetensors x.0.safetensors -o out
	done
	for op in '' x 1e400 nan inf 1,2; do
		refused 2 '--scale' 1 allreduce --op avg --scale "$op" --origin origin.safetensors x.0.safetensors -o out
	done
	assert_not_exists out
}

@test "--outer: steps of an optimiser, whose momentum is replaced with the output, or neither" {
	local r t
	for t in f4 f2; do
		rm -f momentum.* out.* other.*
		oracle merge make 3 "$t"
		py <<-'END'
			for name in ("origin", "x.0", "x.1", "x.2"):
			    have = load_safetensors(f"{name}.safetensors")
			    save_safetensors(f"{name}.safetensors", {**have, "n": np.arange(3)})
		END
		step() { # ORIGIN
			collctl run -n 3 -- allreduce -q --insecure --no-sync --op avg --integers first --origin "$1" --outer nesterov:0.7,0.9 \
				--momentum 'momentum.{rank}.safetensors' 'x.{rank}.safetensors' -o 'out.{rank}.safetensors'
			for r in 1 2; do
				cmp "out.$r.safetensors" out.0.safetensors
				cmp "momentum.$r.safetensors" momentum.0.safetensors
			done
			cp out.0.safetensors out.safetensors
			cp momentum.0.safetensors momentum.safetensors
		}
		step origin.safetensors
		oracle merge outer 1 0.7 0.9 3
		step out.safetensors
		step out.safetensors
		oracle merge outer 3 0.7 0.9 3
	done
	# A rank whose momentum differs: 7; one that cannot be replaced: 4. Nothing changes.
	cp momentum.1.safetensors before
	py <<-'END'
		have = load_safetensors("momentum.2.safetensors")
		save_safetensors("momentum.2.safetensors", {k: np.asarray(v + v.dtype.type(1), v.dtype) for k, v in have.items()})
	END
	run -7 --separate-stderr collctl run -n 3 -- allreduce --insecure --op avg --integers first --origin origin.safetensors --outer nesterov:0.7,0.9 \
		--momentum 'momentum.{rank}.safetensors' 'x.{rank}.safetensors' -o 'out.{rank}.safetensors'
	[[ $stderr == *'--momentum'* ]] || fail "$stderr"
	cmp momentum.1.safetensors before
	mkdir folder.safetensors
	refused 4 'folder.safetensors' 2 reduce --op avg --integers first --origin origin.safetensors --outer nesterov:0.7,0.9 \
		--momentum none/folder.safetensors 'x.{rank}.safetensors' -o out.safetensors
}

@test "--outer and --momentum: what has no meaning is refused" {
	local o
	oracle merge make 2
	o=(--op avg --origin origin.safetensors --outer 'nesterov:0.7,0.9')
	refused 2 '--outer: needs --origin and --momentum' 1 allreduce "${o[@]}" x.0.safetensors -o out.safetensors
	refused 2 '--momentum: needs --outer' 1 allreduce --momentum m x.0.safetensors -o out.safetensors
	refused 2 '--scale: the learning rate of --outer takes its place' 1 allreduce "${o[@]}" --momentum m --scale 1 x.0.safetensors -o out.safetensors
	refused 2 '--momentum: origin.safetensors is also --origin' 1 allreduce "${o[@]}" --momentum origin.safetensors x.0.safetensors -o out.safetensors
	ln x.0.safetensors linked.safetensors
	refused 2 '--momentum: linked.safetensors is also an input' 1 allreduce "${o[@]}" --momentum linked.safetensors x.0.safetensors -o out.safetensors
	refused 2 'm.npy: ' 1 allreduce "${o[@]}" --momentum m.npy x.0.safetensors -o out.safetensors
	refused 2 'is given as output twice' 1 allreduce "${o[@]}" --momentum out.safetensors x.0.safetensors -o out.safetensors
	refused 2 '--outer' 1 reduce-scatter "${o[@]}" --momentum m x.0.safetensors -o out.safetensors
	py <<<'save_safetensors("m.safetensors", {"b": np.zeros(3, "f4")})'
	refused 3 "m.safetensors: --momentum: lacks the tensor 'a.bias'" 1 allreduce "${o[@]}" --momentum m.safetensors x.0.safetensors -o out.safetensors
	for t in '' sgd:1,0 nesterov:0.7 nesterov:0.7,1 nesterov:-1,0 nesterov:0.7,0.9,1 nesterov; do
		refused 2 '--outer' 1 allreduce --op avg --origin origin.safetensors --outer "$t" --momentum m.safetensors x.0.safetensors -o out.safetensors
	done
	assert_not_exists out.safetensors
}
