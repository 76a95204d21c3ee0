#!/usr/bin/env bats
# --op avg: rounding, --weight, --integers. The oracle is checkpoint.py.

load helpers

S=safetensors

ck() { oracle checkpoint "$@"; }

# average P [OPTION...]: average in.R into out.R
average() {
	local size=$1
	shift
	collctl run -n "$size" -- allreduce -q --no-sync --op avg "$@" "in.{rank}.$S" -o "out.{rank}.$S"
}

# ---- rounding ----

# in_rank_order P...: the bits equal those of a float64 average in rank order, rounded once
in_rank_order() {
	local size data
	for size; do
		for data in random adversarial; do
			ck make averaged "$size" --data $data --seed "$size"
			average "$size" --order rank
			ck check allreduce avg "$size" || fail "$data, $size ranks"
		done
	done
}

# bats test_tags=smoke
@test "--order rank: bit for bit an average in f64 in rank order, rounded once, 2 to 5 ranks" { in_rank_order 2 3 4 5; }
@test "--order rank: the same of 6 to 9 ranks" { in_rank_order 6 7 8 9; }

@test "--order rank: the same by every algorithm that adds in rank order, and of several local inputs" {
	local a
	ck make averaged 3 --data adversarial
	for a in $(collctl algorithms --json | jq -r '.[] | select(.collective == "allreduce") | .algorithm'); do
		run collctl run -n 3 -- allreduce -q --no-sync --op avg --order rank -a "$a" "in.{rank}.$S" -o "out.{rank}.$S"
		# shellcheck disable=SC2154
		[[ $status == 0 || $status == 2 ]] || fail "$a: $output"
		[[ $status == 2 ]] || ck check allreduce avg 3 || fail "$a"
	done
	ck make averaged 3 --data adversarial --inputs 2 --in "two.{rank}.{k}.$S"
	collctl run -n 3 -- allreduce -q --no-sync --op avg --order rank 'two.{rank}.'{0,1}".$S" -o "out.{rank}.$S"
	ck check allreduce avg 3 --inputs 2 --in "two.{rank}.{k}.$S"
}

@test "any order: differs from the exact average by no more than the manual says" {
	local size sizes=(2 3 5 8)
	((LONG)) && sizes=(2 3 4 5 6 7 8 9 16 33)
	for size in "${sizes[@]}"; do
		ck make averaged "$size" --data adversarial --seed "$size"
		average "$size"
		ck check allreduce avg "$size" --near || fail "$size ranks"
	done
}

@test "any order: the bound holds for every algorithm, 16- and 8-bit floats being rounded once" {
	local a
	ck make averaged 5 --data adversarial
	for a in $(algorithms_of allreduce); do
		average 5 --allow-divergent -a "$a" || fail "$a"
		diverges "$a" || ck check allreduce avg 5 --near || fail "$a"
	done
}

# diverges ALGORITHM: as `collctl algorithms` documents it
diverges() {
	[[ $(collctl algorithms --json | jq --arg a "$1" 'any(.[]; .collective == "allreduce" and
		.algorithm == $a and (.restrictions | test("--allow-divergent")))') == true ]]
}

@test "any order: the bound holds for several local inputs, of different numbers" {
	ck make averaged 2 --data adversarial --inputs 3 --in "in.{rank}.{k}.$S"
	collctl run -n 2 -- allreduce -q --no-sync --op avg 'in.{rank}.'{0,1,2}".$S" -o "out.{rank}.$S"
	ck check allreduce avg 2 --inputs 3 --in "in.{rank}.{k}.$S" --near
}

@test "an average of f16 does not overflow on the way" {
	local n
	"$PYTHON" - <<-END
		import numpy as np
		for r in range(4):
		    np.save(f"in.{r}.npy", np.full(5, 60000, "<f2"))
	END
	for n in any rank; do
		collctl run -n 4 -- allreduce -q --no-sync --op avg --order "$n" 'in.{rank}.npy' 'in.{rank}.npy' -o 'out.{rank}.npy'
		cmp in.0.npy out.3.npy
	done
}

@test "complex numbers: each part" {
	ck make complex 4 --data random
	average 4 --order rank
	ck check allreduce avg 4
}

# ---- weights ----

# weighted P W,W... [OPTION...]: each rank with its own weight
weighted() {
	local size=$1 r weights
	IFS=, read -ra weights <<<"$2"
	shift 2
	for ((r = 0; r < size; r++)); do
		rank "$r" "$size" "${KIND:-allreduce}" -q --no-sync --op avg --weight "${weights[r]}" "$@" \
			"in.$r.$S" -o "out.$r.$S"
	done
	wait_ranks
}

@test "--weight in rank order: bit for bit the weighted average in f64, rounded once" {
	local data
	start_serve
	make_secret
	for data in random adversarial; do
		ck make averaged 4 --data $data
		weighted 4 0.3,17,1e-3,123456.789 --order rank
		assert_ranks 4 0
		ck check allreduce avg 4 --weights 0.3,17,1e-3,123456.789
	done
	ck make complex 3 --data random
	weighted 3 0.3,17,1e-3 --order rank
	ck check allreduce avg 3 --weights 0.3,17,1e-3
	ck make mixed 2
	KIND=reduce weighted 2 2,0.5 --order rank --integers round --exclude '[iu]64.*'
	assert_ranks 2 0
	rm -f out.[123].$S # of the runs before
	ck check reduce avg 2 --weights 2,0.5 --exclude '[iu]64.*'
}

@test "--weight in any order: within the bound" {
	start_serve
	make_secret
	ck make averaged 5 --data adversarial
	weighted 5 0.3,17,1e-3,123.789,0
	assert_ranks 5 0
	ck check allreduce avg 5 --weights 0.3,17,1e-3,123.789,0 --near
}

@test "--weight: a weight counts for each of a rank's inputs" {
	start_serve
	make_secret
	ck make averaged 2 --data random --inputs 3 --in "in.{rank}.{k}.$S"
	rank 0 2 allreduce -q --no-sync --op avg --order rank --weight 2.5 in.0.{0,1,2}."$S" -o "out.0.$S"
	rank 1 2 allreduce -q --no-sync --op avg --order rank in.1.{0,1,2}."$S" -o "out.1.$S"
	wait_ranks
	assert_ranks 2 0
	ck check allreduce avg 2 --inputs 3 --in "in.{rank}.{k}.$S" --weights 2.5,1
	# Different numbers of inputs; each input has a weight.
	rank 0 2 allreduce -q --no-sync --op avg --order rank in.0.{0,1,2}."$S" -o "out.0.$S"
	rank 1 2 allreduce -q --no-sync --op avg --order rank --weight 3 "in.1.0.$S" -o "out.1.$S"
	wait_ranks
	assert_ranks 2 0
	ck check allreduce avg 2 --inputs 3,1 --in "in.{rank}.{k}.$S" --weights 1,3
	rank 0 2 allreduce -q --no-sync --op avg "in.0.0.$S" -o "out.0.$S"
	rank 1 2 allreduce -q --no-sync --op avg in.1.{0,1,2}."$S" -o "out.1.$S"
	wait_ranks
	assert_ranks 2 0
	ck check allreduce avg 2 --inputs 1,3 --in "in.{rank}.{k}.$S" --near
}

# Small integers: sums and products are exact, so that only the division rounds.
@test "--weight W,W: one for each local input; a list of another length, or given twice: 2" {
	"$PYTHON" - <<-'END'
	import numpy
	rng = numpy.random.default_rng(1)
	parts = [rng.integers(-99, 99, 50).astype("f8") for _ in range(5)]
	for k, part in enumerate(parts):
	    numpy.save(f"in.{k}.npy", part)
	numpy.save("want.npy", numpy.average(parts, axis=0, weights=[3, 1, 0, 0.25, 8]))
	numpy.save("each.npy", sum(parts[:2]) / 2)
	END
	start_serve
	make_secret
	for order in any rank; do
		rank 0 2 allreduce -q --no-sync --op avg --order $order --weight 3,1,0 in.[012].npy -o out.0.npy
		rank 1 2 allreduce -q --no-sync --op avg --order $order --weight 0.25,8 'in.[34].npy' -o out.1.npy
		wait_ranks
		assert_ranks 2 0
		cmp out.0.npy want.npy
		cmp out.1.npy want.npy
		rm out.*
	done
	# One for all is as before.
	collctl run -n 1 -- allreduce -q --op avg --weight 7 in.0.npy in.1.npy -o out.npy
	cmp out.npy each.npy
	rm out.npy
	local w
	for w in 3,1,2 1,2,3,4; do
		run --separate-stderr collctl run -n 2 -- allreduce --op avg --weight $w in.0.npy in.1.npy -o out.npy
		assert_equal "$status" 2
		[[ $stderr == *"--weight: has $(tr -cd , <<<"$w," | wc -c) weights for 2 local inputs: give one for all, or one for each"* ]]
	done
	run --separate-stderr collctl run -n 2 -- allreduce --op avg --weight 3 --weight 1 in.0.npy in.1.npy -o out.npy
	assert_equal "$status" 2
	[[ $stderr == *"--weight: is given twice, '3' and '1': give it once, as W[,W,...]"* ]]
	run --separate-stderr collctl run -n 2 -- allreduce --op avg --each --weight 3,1 in.0.npy in.1.npy -o out
	assert_equal "$status" 2
	[[ $stderr == *'--weight: has 2 weights: with --each all inputs have the same one'* ]]
	for w in '' ',' '1,' ,1 1,,2 1,x '1 2' -1 1,-1 inf 1,nan; do
		run --separate-stderr collctl run -n 2 -- allreduce --op avg --weight="$w" in.0.npy in.1.npy -o out.npy
		assert_equal "$status" 2
		[[ $stderr == *"--weight: '$w' is not a weight, such as 1 or 0.25, or a list of them"* ]]
	done
	assert_not_exists out.npy
	assert_not_exists out
}

@test "--weight 0: what that rank has, NaN too, has no say, and -0.0 of the others stays" {
	start_serve
	make_secret
	"$PYTHON" - <<-END
		import numpy as np
		for d in ("f2", "f4", "f8"):
		    np.save(f"{d}.0.npy", np.array([1, 2, 3, -0.0, 0.0], d))
		    np.save(f"{d}.1.npy", np.array([np.nan, np.inf, -np.inf, 5, -5], d))
		    np.save(f"{d}.2.npy", np.array([3, 4, 5, -0.0, -0.0], d))
		    np.save(f"{d}.want.npy", np.array([2, 3, 4, -0.0, 0.0], d))
		    if d != "f2": # the same numbers as real and imaginary parts
		        for name in "0", "1", "2", "want":
		            a = np.load(f"{d}.{name}.npy")
		            np.save(f"c{d}.{name}.npy", np.repeat(a, 2).view({"f4": "c8", "f8": "c16"}[d]))
	END
	for d in f2 f4 f8 cf4 cf8; do
		for order in any rank; do
			rank 0 3 allreduce -q --no-sync --op avg --order $order $d.0.npy -o "$d.o.0.npy"
			rank 1 3 allreduce -q --no-sync --op avg --order $order --weight 0 $d.1.npy -o "$d.o.1.npy"
			rank 2 3 allreduce -q --no-sync --op avg --order $order $d.2.npy -o "$d.o.2.npy"
			wait_ranks
			assert_ranks 3 0
			cmp $d.want.npy $d.o.1.npy
		done
	done
}

@test "--weight: all 0, no number, below 0 or without avg is a usage error" {
	local w
	ck make two 2
	run -2 --separate-stderr collctl run -n 2 -- allreduce --op avg --weight 0 "in.{rank}.$S" -o "out.{rank}.$S"
	# shellcheck disable=SC2154
	[[ $stderr == *--weight*0* ]] || fail "$stderr"
	for w in -1 nan inf x 1e999 '' 1x; do
		run -2 collctl run -n 2 -- allreduce --op avg --weight="$w" "in.{rank}.$S" -o "out.{rank}.$S"
	done
	for w in sum max; do
		run -2 --separate-stderr collctl run -n 2 -- allreduce --op $w --weight 2 "in.{rank}.$S" -o "out.{rank}.$S"
		[[ $stderr == *'--op avg'* ]]
		run -2 --separate-stderr collctl run -n 2 -- allreduce --op $w --integers round "in.{rank}.$S" -o "out.{rank}.$S"
		[[ $stderr == *'--op avg'* ]]
	done
	[[ -z $(compgen -G 'out*') ]]
}

# ---- integers ----

@test "--integers round: exactly, to the nearest, ties to even, also near the ends of the range" {
	local size data kind
	for size in 1 2 3 5; do
		for data in random adversarial; do
			ck make integers "$size" --data $data --seed "$size"
			average "$size" --integers round
			ck check allreduce avg "$size"
		done
	done
	collctl run -n 5 -- reduce -q --no-sync --op avg --integers round --root 3 "in.{rank}.$S" -o "red.{rank}.$S"
	ck check reduce avg 5 --root 3 --out "red.{rank}.$S"
	ck make integers 3 --data adversarial --inputs 2 --in "two.{rank}.{k}.$S"
	collctl run -n 3 -- allreduce -q --no-sync --op avg --integers round 'two.{rank}.'{0,1}".$S" -o "out.{rank}.$S"
	ck check allreduce avg 3 --inputs 2 --in "two.{rank}.{k}.$S"
}

@test "--integers round with weights" {
	start_serve
	make_secret
	ck make integers 3 --data adversarial
	weighted 3 0.5,3,0 --integers round --exclude '[iu]64.n'
	assert_ranks 3 0
	ck check allreduce avg 3 --weights 0.5,3,0 --exclude '[iu]64.n'
}

@test "--integers first and equal: rank 0's" {
	ck make integers 3 --data random
	average 3 --integers first
	ck check allreduce avg 3 --integers first
	collctl run -n 3 -- reduce -q --no-sync --root 1 --op avg --integers first "in.{rank}.$S" -o "red.{rank}.$S"
	ck check reduce avg 3 --root 1 --integers first --out "red.{rank}.$S"
	cp "in.0.$S" "in.1.$S"
	cp "in.0.$S" "in.2.$S"
	average 3 --integers equal
	ck check allreduce avg 3 --integers equal
	collctl run -n 3 -- reduce -q --no-sync --root 2 --op avg --integers equal "in.{rank}.$S" -o "red.{rank}.$S"
}

# unequal KIND ROOT FILES...: rank 2's u16.n differs
unequal() {
	run -7 --separate-stderr collctl run -n 3 -- "$1" --root "$2" --op avg --integers equal "${@:3}" -o "new.{rank}.$S"
	all_say "rank 2: .*u16.n"
	[[ -z $(compgen -G 'new*') ]]
}

@test "--integers equal: what differs is named with tensor and rank" {
	local r
	ck make integers 1 --data random
	for r in 1 2; do
		cp "in.0.$S" "in.$r.$S"
	done
	ck edit "in.2.$S" set u16.n
	run -7 --separate-stderr collctl run -n 3 -- allreduce --op avg --integers equal "in.{rank}.$S" -o "new.{rank}.$S"
	all_say "rank 2: .*u16.n"
	[[ -z $(compgen -G 'new*') ]]
	unequal reduce 1 "in.{rank}.$S"
	unequal reduce 2 "in.{rank}.$S"
	# Each of several local inputs must be equal.
	run -7 --separate-stderr collctl run -n 2 -- allreduce --op avg --integers equal "in.{rank}.$S" "in.2.$S" -o "new.{rank}.$S"
	[[ $stderr == *u16.n* ]] || fail "$stderr"
	[[ -z $(compgen -G 'new*') ]]
}

@test "averages of integers without --integers are refused by name" {
	local kind
	ck make mixed 2
	for kind in allreduce reduce; do
		run -2 --separate-stderr collctl run -n 2 -- "$kind" --op avg --exclude '[ub]*' --exclude 'i[83]*' "in.{rank}.$S" -o "out.{rank}.$S"
		[[ $stderr == *"tensor 'i16.bias'"*--integers* ]] || fail "$stderr"
	done
	run -2 collctl run -n 2 -- allreduce --op avg --integers maybe "in.{rank}.$S" -o "out.{rank}.$S"
	[[ -z $(compgen -G 'out*') ]]
}

# ---- reduce-scatter ----

# Each rank's part of reduce-scatter equals that of allreduce.
parts_as_allreduce() {
	collctl run -n 3 -- allreduce -q --no-sync --op avg --order rank "$@" 'in.{rank}.npy' -o 'all.{rank}.npy'
	collctl run -n 3 -- reduce-scatter -q --no-sync --op avg --order rank "$@" 'in.{rank}.npy' -o 'part.{rank}.npy'
	"$PYTHON" - <<-END
		import numpy as np
		parts = np.concatenate([np.load(f"part.{r}.npy") for r in range(3)])
		assert parts.tobytes() == np.load("all.0.npy").tobytes(), (parts, np.load("all.0.npy"))
	END
}

@test "reduce-scatter averages as allreduce does" {
	local d
	for d in f16 f32 f64; do
		make_shards 3 $d 11,5 random
		parts_as_allreduce
	done
	for d in i8 u16 i32 i64 u64; do
		make_shards 3 $d 11,5 random
		parts_as_allreduce --integers round
		parts_as_allreduce --integers first
		run -2 --separate-stderr collctl run -n 3 -- reduce-scatter --op avg 'in.{rank}.npy' -o 'no.{rank}.npy'
		[[ $stderr == *in.?.npy*$d*--integers* ]] || fail "$stderr"
		run -7 --separate-stderr collctl run -n 3 -- reduce-scatter --op avg --integers equal 'in.{rank}.npy' -o 'no.{rank}.npy'
	done
	cp in.0.npy in.1.npy
	cp in.0.npy in.2.npy
	parts_as_allreduce --integers equal
	parts_as_allreduce --integers equal --memory 64
	[[ -z $(compgen -G 'no.*') ]]
}

@test "reduce-scatter --integers equal: a difference in another rank's part counts too" {
	"$PYTHON" - <<-END
		import numpy as np
		for r in range(3):
		    x = np.arange(9)
		    x[0] += r == 2  # in rank 0's part
		    np.save(f"in.{r}.npy", x)
	END
	run -7 --separate-stderr collctl run -n 3 -- reduce-scatter --op avg --integers equal 'in.{rank}.npy' -o 'out.{rank}.npy'
	[[ $stderr == *'rank 2: in.2.npy'* ]] || fail "$stderr"
}

@test "weights of any magnitude: no average overflows, nor loses bits" {
	local weight r
	"$PYTHON" - <<-END
		import numpy as np
		for r, d in enumerate(("f2", "f4", "f8")):
		    most = np.finfo(d).max if d != "f8" else 2.0**1023
		    np.save(f"in.{r}.npy", np.array([most, -most, 1, 2.0**-12], d))
	END
	for weight in 1e-44 3e-30 3 1e36 1e200; do
		for ((r = 0; r < 3; r++)); do
			collctl run -n 3 -- allreduce -q --no-sync --op avg --weight $weight in.$r.npy -o "out.{rank}.npy"
			cmp in.$r.npy out.2.npy || fail "$weight: in.$r.npy"
		done
	done
}

# ---- without other ranks ----

@test "files of one machine: without a way to meet, the error names -n 1, which averages them" {
	make_shards 3 f32 50,3
	run -2 --separate-stderr collctl allreduce --op avg in.{0..2}.npy -o mean.npy
	# shellcheck disable=SC2154 # set by bats
	assert_equal "$stderr" "collctl: no way to find the other ranks: give --rendezvous URL or --hostfile FILE, start all \
of them with 'collctl run', or give -n 1 if this is the only rank"
	assert_not_exist mean.npy
	collctl allreduce -n 1 --op avg in.{0..2}.npy -o mean.npy
	check_numpy avg mean.npy --in in.{0..2}.npy
}
