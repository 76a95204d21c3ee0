#!/usr/bin/env bats
# --threads: the streams of a rank on several threads give the same bytes, and the same errors.

load helpers

# several_windows P: shards that a job with 64K of memory moves in many windows
several_windows() {
	local r
	for ((r = 0; r < $1; r++)); do
		"$PYTHON" -c "import numpy as np; np.save('in.$r.npy', np.random.default_rng($r).standard_normal(60013, dtype=np.float32))"
	done
}

# moved KIND OPTIONS...: a collective of three ranks
moved() {
	collctl run -n 3 -- "$1" --no-sync --memory 1M --streams 4 "${@:2}" 'in.{rank}.npy' -o 'out.{rank}.npy' >/dev/null 2>&1
	cat out.*.npy | sha256sum
	rm out.*
}

# bats test_tags=smoke
@test "any number of threads gives the same bytes, over TLS, plain TCP and memory" {
	local row kind threads want got
	several_windows 3
	# auto chooses by the lanes, too
	for row in 'allreduce -a circulant' 'reduce-scatter -a ring' 'allgather -a bruck' 'broadcast -a binomial' \
		'alltoall -a direct' 'scan -a linear'; do
		read -ra kind <<<"$row"
		want=$(moved "${kind[@]}" --threads 1 --lanes tcp)
		for threads in 2 3 4 64 auto; do
			got=$(moved "${kind[@]}" --threads $threads --lanes tcp)
			[[ $got == "$want" ]] || fail "${kind[*]} over TLS with $threads threads"
			got=$(moved "${kind[@]}" --threads $threads --lanes memory)
			[[ $got == "$want" ]] || fail "${kind[*]} over memory with $threads threads"
		done
		got=$(moved "${kind[@]}" --threads 3 --lanes tcp --insecure)
		[[ $got == "$want" ]] || fail "${kind[*]} over plain TCP"
	done
}

@test "ranks need not have the same number of threads" {
	local want got
	several_windows 3
	want=$(moved allreduce --op avg --threads 1)
	got=$(moved allreduce --op avg --threads 3)
	[[ $got == "$want" ]] || fail "3 threads each"
	make_secret
	start_serve
	for r in 0 1 2; do
		rank $r 3 allreduce --op avg --no-sync --memory 1M --streams 4 --threads $((r + 1)) "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 3 0
	got=$(cat out.*.npy | sha256sum)
	[[ $got == "$want" ]] || fail "1, 2 and 3 threads"
}

@test "a rank that dies is named by the threads of the others" {
	local lanes r
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -o sysfault "$ROOT/tests/fault/sysfault.c"
	./sysfault count -- true || skip "system calls can't be traced here"
	several_windows 3
	make_secret
	start_serve
	for lanes in tcp memory; do
		for r in 0 1 2; do
			wrap=()
			((r != 2)) || wrap=(./sysfault kill 5 pwrite64 --)
			spawn_rank $r "${wrap[@]}" "$COLLCTL" allreduce --threads 3 --memory 1M --streams 4 --lanes $lanes \
				"in.$r.npy" -o "out.$r.npy" -r $r -n 3 -R "$STORE" -j $lanes --secret-file "$SECRET"
		done
		wait_ranks
		for r in 0 1; do
			assert_rank $r 8
			grep -q "rank 2: lost" "$r.err" || fail "rank $r: $(<"$r.err")"
			assert_not_exist "out.$r.npy"
		done
	done
}

@test "the number of threads is checked" {
	several_windows 1
	local bad
	for bad in 0 -1 65 many 1.5; do
		run -2 --separate-stderr collctl allreduce -n 1 --threads $bad in.0.npy -o out.npy
		[[ $stderr == *"--threads"*"a number of threads from 1 to 64, or auto"* ]] || fail "$stderr"
	done
}
