#!/usr/bin/env bats
# Memory lanes: ranks of one host get the same bytes as over TCP, and use TCP where memory does not work.

load helpers

# moved P KIND OPTIONS...: a digest of the outputs of all ranks
moved() {
	local p=$1 kind=$2
	shift 2
	collctl run -n "$p" -- "$kind" --no-sync "$@" 'in.{rank}.npy' -o 'out.{rank}.npy' >run.out 2>&1 || fail "$kind $*: $(<run.out)"
	cat out.*.npy | sha256sum
	rm out.*
}

# large P: shards with blocks that are lent, not copied
large() {
	local r
	for ((r = 0; r < $1; r++)); do
		"$PYTHON" -c "import numpy as np; np.save('in.$r.npy', np.random.default_rng($r).standard_normal(120017, dtype=np.float32))"
	done
}

@test "every algorithm gives the same bytes over memory and over TCP" {
	local kind alg p want got n=0 options
	for p in 3 4; do
		large $p
		for kind in allreduce reduce-scatter allgather broadcast reduce gather scatter alltoall scan exscan; do
			options=(--lanes)
			[[ $kind != @(allreduce|reduce|reduce-scatter|scan|exscan) ]] || options=(--allow-divergent --lanes)
			for alg in $(collctl algorithms $kind --json | jq -r '.[].algorithm'); do
				[[ $alg != cuda_* && $alg != two_proc ]] || continue # devices; two ranks alone
				want=$(moved $p $kind -a "$alg" "${options[@]}" tcp)
				got=$(moved $p $kind -a "$alg" "${options[@]}" memory)
				[[ $got == "$want" ]] || fail "$kind by $alg on $p ranks"
				n=$((n + 1))
			done
		done
	done
	((n > 80)) || fail "only $n cases"
}

# bats test_tags=smoke
@test "windows, streams and several inputs" {
	local want options
	large 4
	want=$(moved 4 allreduce -a ring_chunked --op avg --lanes tcp)
	for options in '--memory 1M' '--memory 2M --streams 1' '--streams 5' '--insecure' '--memory 1M --insecure'; do
		# shellcheck disable=SC2086 # words
		[[ $(moved 4 allreduce -a ring_chunked --op avg --lanes memory $options) == "$want" ]] || fail "$options"
	done
	collctl run -n 3 -- allreduce -a ring_chunked --lanes tcp in.0.npy in.1.npy 'in.{rank}.npy' -o 'tcp.{rank}.npy'
	collctl run -n 3 -- allreduce -a ring_chunked --lanes memory in.0.npy in.1.npy 'in.{rank}.npy' -o 'memory.{rank}.npy'
	for r in 0 1 2; do cmp tcp.$r.npy memory.$r.npy; done
}

@test "with --lanes memory a rank that accepts no lanes is an error, and auto uses TCP" {
	large 2
	make_secret
	start_serve
	rank 0 2 allreduce --lanes memory in.0.npy -o out.0.npy
	rank 1 2 allreduce --lanes tcp in.1.npy -o out.1.npy
	wait_ranks
	assert_rank 0 11 "no memory lane to rank 1" "--lanes auto uses TCP there"
	assert_not_exist out.0.npy
	assert_not_exist out.1.npy
	rank 0 2 allreduce -v in.0.npy -o out.0.npy
	rank 1 2 allreduce --lanes tcp in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 0
	grep -q "no memory lane to rank 1, so TCP: " 0.err || fail "$(<0.err)"
	cmp out.0.npy out.1.npy
}

@test "ranks of one host are counted as such, and those with different names of it are not" {
	local r
	large 2
	make_secret
	collctl run -n 2 --json -- allreduce --lanes memory 'in.{rank}.npy' -o 'out.{rank}.npy' >same.json
	[[ $(jq '.ranks[0].hosts' same.json) == 1 ]] || fail "$(<same.json)"
	# One namespace, two names: two hosts, and so TCP.
	start_serve
	for r in 0 1; do
		COLLCTL_HOST_ID=host$r rank $r 2 allreduce -v --lanes memory --json --force in.$r.npy -o out.$r.npy
	done
	wait_ranks
	assert_ranks 2 0
	[[ $(jq .hosts 0.out) == 2 ]] || fail "$(<0.out)"
}

# as_two_users WORDS...: a job of this user and of nobody, each behind WORDS
as_two_users() {
	another_user
	AS_OTHER+=("$@")
	"${AS_OTHER[@]}" "$OTHER/collctl" --version || skip "nobody can't run $* a program in /tmp here"
	large 2
	make_secret
	start_serve
	install -o nobody -m 600 in.1.npy "$SECRET" "$OTHER"
	spawn_rank 0 "$@" "$COLLCTL" allreduce -v in.0.npy -o out.0.npy -r 0 -n 2 -R "$STORE" -j job --secret-file "$SECRET"
	spawn_rank 1 "${AS_OTHER[@]}" "$OTHER/collctl" allreduce -v "$OTHER/in.1.npy" -o "$OTHER/out.1.npy" \
		-r 1 -n 2 -R "$STORE" -j job --secret-file "$OTHER/job.key"
	wait_ranks
	assert_ranks 2 0
	cmp out.0.npy "$OTHER/out.1.npy"
}

@test "ranks of different users do not share memory" {
	as_two_users
	grep -q "no memory lane to rank 1, so TCP: it runs as another user" 0.err || fail "$(<0.err)"
}

@test "ranks of different users do not share memory in user namespaces that show both as nobody" {
	as_two_users unshare -U
	grep -q "no memory lane to rank 1, so TCP: this user namespace does not tell" 0.err || fail "$(<0.err)"
}
