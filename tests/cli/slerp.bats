#!/usr/bin/env bats
# --op slerp:T, which interpolates between two inputs: the oracle is numpy.

load helpers

# pair KIND OUT OPTION...: x.0 of rank 0 and x.1 of rank 1
pair() {
	local kind=$1 out=$2
	shift 2
	collctl run -n 2 -- "$kind" -q --no-sync "$@" 'x.{rank}.safetensors' -o "$out.{rank}.safetensors"
}

# bats test_tags=smoke
@test "one rank with both inputs, two ranks, small memory, several streams, TCP: numpy's values, and the same bits" {
	local t way n=0
	oracle merge arcs make
	for t in 0 0.3 1; do
		collctl allreduce -n 1 -q --no-sync --op "slerp:$t" x.0.safetensors x.1.safetensors -o one.safetensors
		oracle merge arcs check one.safetensors "$t"
		for way in '' '--memory 4K --streams 3' '--lanes tcp' '--insecure --lanes tcp --streams 2' '--threads 2 --streams 3'; do
			n=$((n + 1))
			# shellcheck disable=SC2086 # words
			pair allreduce "all.$n" --op "slerp:$t" $way
			# shellcheck disable=SC2086
			pair reduce "root.$n" --op "slerp:$t" $way
			cmp one.safetensors "all.$n.0.safetensors"
			cmp one.safetensors "all.$n.1.safetensors"
			cmp one.safetensors "root.$n.0.safetensors"
		done
	done
}

@test "every algorithm of allreduce and reduce" {
	local kind a options
	oracle merge arcs make
	collctl allreduce -n 1 -q --no-sync --op slerp:0.25 x.0.safetensors x.1.safetensors -o one.safetensors
	for kind in allreduce reduce; do
		for a in $(algorithms_of "$kind"); do
			options=(--insecure)
			[[ $kind == reduce ]] || options+=(--allow-divergent)
			pair "$kind" "$kind.$a" --op slerp:0.25 -a "$a" "${options[@]}"
			cmp one.safetensors "$kind.$a.0.safetensors" || fail "$kind $a"
		done
	done
}

@test "arrays: allreduce, reduce-scatter, rows of other numbers, Fortran order, a swapped byte order" {
	py <<-'END'
		r = np.random.default_rng(7)
		a, b = r.normal(size=(11, 6)).astype("f4"), (r.normal(size=(11, 6)) + 0.5).astype(">f4")
		np.save("x.0.npy", np.asfortranarray(a)); np.save("x.1.npy", b)
	END
	collctl allreduce -n 1 -q --no-sync --op slerp:0.7 x.0.npy x.1.npy -o one.npy
	collctl run -n 2 -- allreduce -q --no-sync --op slerp:0.7 'x.{rank}.npy' -o 'all.{rank}.npy'
	collctl run -n 2 -- reduce-scatter -q --no-sync --op slerp:0.7 'x.{rank}.npy' -o 'part.{rank}.npy'
	collctl run -n 2 -- reduce-scatter -q --no-sync --op slerp:0.7 --counts 3,8 'x.{rank}.npy' -o 'rows.{rank}.npy' --memory 4K
	py <<-'END'
		a, b = (np.load(f"x.{i}.npy").astype("f8") for i in (0, 1))
		angle = np.arccos((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))
		want = (np.sin(0.3 * angle) * a + np.sin(0.7 * angle) * b) / np.sin(angle)
		one = np.load("one.npy")
		np.testing.assert_allclose(one, want, rtol=2e-7, atol=1e-8)
		assert (np.load("all.0.npy") == one).all() and (np.load("all.1.npy") == one).all()
		assert (np.concatenate([np.load("part.0.npy"), np.load("part.1.npy")]) == one).all()
		assert np.load("rows.0.npy").shape == (3, 6)
		assert (np.concatenate([np.load("rows.0.npy"), np.load("rows.1.npy")]) == one).all()
	END
}

@test "NaN or infinity makes a tensor NaN, and --stats names it; zeros, parallel and opposite tensors have a result" {
	py <<-'END'
		one = {"fine": np.ones(3, "f4"), "nan": np.array([1, np.nan, 2], "f4"), "inf": np.array([1, np.inf, 2], "f4"), "zero": np.zeros(3, "f4")}
		two = {k: np.array([1, 2, 3], "f4") for k in one}
		save_safetensors("x.0.safetensors", one); save_safetensors("x.1.safetensors", two)
	END
	"$COLLCTL" allreduce -n 1 --no-sync --stats --op slerp:0.5 x.0.safetensors x.1.safetensors -o one.safetensors >said 2>&1
	grep -q "nan" said
	pair allreduce out --op slerp:0.5
	cmp one.safetensors out.1.safetensors
	py <<-'END'
		got = load_safetensors("one.safetensors")
		assert np.isnan(got["nan"]).all() and np.isnan(got["inf"]).all() and np.isfinite(got["fine"]).all()
		np.testing.assert_allclose(got["zero"], np.sin(np.pi / 4) * np.array([1, 2, 3]), rtol=1e-6)
	END
}

@test "types of the output, tensors by name, integers from rank 0, in place, a shard set" {
	py <<-'END'
		r = np.random.default_rng(9)
		for i in range(2):
		    save_safetensors(f"x.{i}.safetensors", {"w": r.normal(size=(20, 3)).astype("f2"), "n": np.array([i, 5], "i8"), "v": r.normal(size=4).astype("f4")})
	END
	collctl allreduce -n 1 -q --no-sync --op slerp:0.5 --integers first --output-dtype f32 x.0.safetensors x.1.safetensors -o wide.safetensors
	collctl allreduce -n 1 -q --no-sync --op slerp:0.5 --include '[wv]' x.0.safetensors x.1.safetensors -o some.safetensors
	collctl allreduce -n 1 -q --no-sync --op slerp:0.5 --integers first --max-shard-size 100 x.0.safetensors x.1.safetensors -o set/
	pair allreduce out --op slerp:0.5 --integers first
	py <<-'END'
		wide, some, out, x = (load_safetensors(f) for f in ("wide.safetensors", "some.safetensors", "out.1.safetensors", "x.0.safetensors"))
		assert wide["w"].dtype == np.float32 and some["w"].dtype == np.float16 and sorted(some) == ["v", "w"]
		assert (wide["w"].astype("f2") == some["w"]).all() and (wide["v"] == some["v"]).all()
		assert (out["n"] == x["n"]).all() and (out["w"] == some["w"]).all()
	END
	collctl verify -n 1 -q --same out.0.safetensors set/
	collctl run -n 2 -- allreduce -q --no-sync --op slerp:0.5 --integers first 'x.{rank}.safetensors' -o 'x.{rank}.safetensors'
	cmp x.0.safetensors out.0.safetensors
}

@test "the devices of the stand-in: the host's bits" {
	use_standin 2
	oracle merge arcs make
	collctl allreduce -n 1 -q --no-sync --op slerp:0.3 x.0.safetensors x.1.safetensors -o one.safetensors
	pair allreduce dev --op slerp:0.3 --device cuda:0
	cmp one.safetensors dev.0.safetensors
	collctl allreduce -n 1 -q --no-sync --op slerp:0.3 --device cuda:0,1 x.0.safetensors x.1.safetensors -o dev.safetensors
	cmp one.safetensors dev.safetensors
}

@test "a rank that is killed while the data move for the angle: the other one names it, and has no output" {
	py <<-'END'
		for i in range(2):
		    np.save(f"x.{i}.npy", np.random.default_rng(i).normal(size=1 << 20).astype("f4"))
	END
	# At this rate the data move for more than a minute before there is an angle.
	# shellcheck disable=SC2016
	run collctl run -n 2 -- bash -c '((COLLCTL_RANK == 0)) || exec timeout -s KILL 4 "$0" "$@"
		exec "$0" "$@"' "$COLLCTL" allreduce -q --no-sync --op slerp:0.3 'x.{rank}.npy' -o 'out.{rank}.npy' --lanes tcp --limit-rate 100K
	((status != 0))
	[[ $output == *'rank 1'* ]]
	[[ ! -e out.0.npy && ! -e out.1.npy ]]
}

@test "tensors without elements, for which no data move" {
	local n
	py <<<'save_safetensors("x.0.safetensors", {"x": np.zeros((0, 3), "f4")}); save_safetensors("x.1.safetensors", {"x": np.zeros((0, 3), "f4")})'
	for n in 1 2 3 4 5 6 7 8 9 10; do
		pair allreduce out --op slerp:0.5
		pair allreduce out --op slerp:0.5 --trace t.json
		pair reduce "out.$n" --op slerp:0.5
	done
	collctl verify -n 1 -q --same x.0.safetensors out.1.safetensors
}

@test "what has no meaning is refused" {
	local t
	oracle merge arcs make
	for t in slerp slerp: slerp:2 slerp:-0.1 slerp:0.5,1 slerp:x slerp:nan slerpx; do
		refused 2 "$t" 1 allreduce --op "$t" x.0.safetensors x.1.safetensors -o out
	done
	refused 2 'slerp:T with one number T from 0 to 1, such as slerp:0.5' 1 allreduce --op slerp:2 x.0.safetensors x.1.safetensors -o out
	refused 2 'interpolates between two inputs, but the ranks give 1' 1 allreduce --op slerp:0.5 x.0.safetensors -o out
	refused 2 'interpolates between two inputs, but the ranks give 3' 3 allreduce --op slerp:0.5 x.0.safetensors -o 'out.{rank}'
	refused 2 '--weight' 1 allreduce --op slerp:0.5 --weight 1,2 x.0.safetensors x.1.safetensors -o out
	refused 2 '--each' 1 allreduce --op slerp:0.5 --each x.0.safetensors x.1.safetensors -o out/
	refused 2 '--op slerp' 1 allreduce --op slerp:0.5 --origin x.0.safetensors x.0.safetensors x.1.safetensors -o out
	refused 2 '--op slerp is not defined for scan' 2 scan --op slerp:0.5 'x.{rank}.safetensors' -o 'out.{rank}'
	py <<-'END'
		np.save("i.npy", np.arange(4)); np.save("c.npy", np.ones(4, "c8"))
	END
	refused 2 '--op slerp is not defined on i64: give --integers first or equal' 1 allreduce --op slerp:0.5 i.npy i.npy -o out
	refused 2 '--op slerp is not defined on c64' 1 allreduce --op slerp:0.5 c.npy c.npy -o out
	run -2 --separate-stderr "$COLLCTL" bench allreduce -n 1 --op slerp:0.5
	[[ $stderr == *'--op slerp: bench measures only'* ]]
	"$COLLCTL" plan allreduce -n 2 --op slerp:0.5 | grep -q .
	run -2 --separate-stderr "$COLLCTL" plan allreduce -n 4 --op slerp:0.5
	[[ $stderr == *'two inputs, but the ranks give 4'* ]]
}
