#!/usr/bin/env bats
# --wire: how data travel to other hosts. Ranks of this machine stand for hosts: --lanes tcp.

load helpers

setup() {
	common_setup
	export COLLCTL_LANES=tcp
}

# weights: w.R.npy of three ranks: bf16, as trained weights are
weights() {
	py <<-'END'
		def weights(r): return (np.random.default_rng(r).standard_normal((300, 500)) * 0.02).astype("f4")
		for r in range(3): np.save(f"w.{r}.npy", (weights(r).view("u4") >> 16).astype("u2").view("V2"))
	END
}

# both SAME COMMAND...: three ranks, raw and lossless; the files SAME.raw.* and SAME.lossless.* are equal, and the digests are
both() {
	local how
	for how in raw lossless; do
		collctl run -n 3 -- "${@:2}" -o "$1.$how.{rank}.npy" --json --no-sync --wire "$how" >"json.$how" 2>err || fail "$*: $(<err)"
	done
	for how in "$1".raw.*; do
		cmp "$how" "${how/raw/lossless}"
	done
	[[ $(jq -s 'sort_by(.rank) | map(.digest)' json.raw) == "$(jq -s 'sort_by(.rank) | map(.digest)' json.lossless)" ]]
	jq -es 'all(.wire == null)' json.raw
	jq -es 'all(.wire.coding == "lossless" and .wire.coded_bytes < .wire.plain_bytes)' json.lossless || fail "$*: $(<json.lossless)"
}

# bats test_tags=smoke
@test "lossless gives the same bytes and digests in fewer bytes, in every collective" {
	weights
	both sum allreduce --op avg --dtype bf16 'w.{rank}.npy'
	jq -es 'all(.wire.coded_bytes < 0.75 * .wire.plain_bytes)' json.lossless
	both ring allreduce --dtype bf16 -a ring_chunked --threads 3 --streams 3 --memory 1M --insecure 'w.{rank}.npy'
	both mean allreduce --op avg --order rank --dtype bf16 'w.{rank}.npy'
	both part reduce-scatter --dtype bf16 'w.{rank}.npy'
	both all allgather --dtype bf16 'w.{rank}.npy'
	both turn alltoall --dtype bf16 'w.{rank}.npy'
	both copy broadcast --raw-file w.0.npy
	cmp w.0.npy copy.lossless.2.npy
	both scan scan --dtype bf16 'w.{rank}.npy'
	yes 'a line of a log' | head -c 300000 >log.0
	both log broadcast --raw-file log.0
	jq -es 'all(.wire.coded_bytes < 0.01 * .wire.plain_bytes)' json.lossless
}

@test "-v and --json say what travelled; memory lanes carry data as they are" {
	weights
	collctl run -n 2 -- allreduce -v --json --dtype bf16 --wire lossless 'w.{rank}.npy' -o 'out.{rank}.npy' >j 2>err
	grep -F 'rank 0: --wire: data travel to other hosts in coded pieces of at most 262080 bytes' err
	grep -E 'rank 1: --wire: [0-9.]+ KiB of data travelled to and from other hosts as [0-9.]+ KiB \([67][0-9] %\)' err
	collctl run -n 2 -- allreduce --force --json --dtype bf16 --wire lossless --lanes memory 'w.{rank}.npy' -o 'out.{rank}.npy' >j
	jq -es 'all(.wire == {coding: "lossless", plain_bytes: 0, coded_bytes: 0})' j
	jq -es 'all(.lanes.tcp == 0)' j
}

@test "auto codes where a link is known to be slow" {
	weights
	collctl run -n 2 -- allreduce -v --json --dtype bf16 --wire auto 'w.{rank}.npy' -o 'out.{rank}.npy' >j 2>err
	grep -F -- '--wire auto: no link is known to be slower than the coder, so data travel as they are' err
	jq -es 'all(.wire.coding == "raw")' j
	collctl run -n 2 -- allreduce --force --json --dtype bf16 --wire auto --limit-rate 800Mbit 'w.{rank}.npy' -o 'out.{rank}.npy' >j
	jq -es 'all(.wire.coding == "lossless" and .wire.coded_bytes > 0)' j
	# shellcheck disable=SC2016
	COLLCTL_BIN=$COLLCTL collctl run -n 2 -- bash -c 'COLLCTL_HOST_ID=n$COLLCTL_RANK exec "$COLLCTL_BIN" allreduce --force --json --dtype bf16 \
		--wire auto --link-rate $((100 + 9900 * COLLCTL_RANK))Mbit w.$COLLCTL_RANK.npy -o out.$COLLCTL_RANK.npy' >j
	jq -es 'all(.wire.coding == "lossless")' j
}

@test "ranks must agree on it, and one without libzstd makes all send data as they are" {
	weights
	make_secret
	start_serve
	rank 0 2 allreduce --dtype bf16 --wire lossless w.0.npy -o out.0.npy
	rank 1 2 allreduce --dtype bf16 w.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 7
	assert_rank 0 7 '--wire'
	[[ ! -e out.0.npy && ! -e out.1.npy ]]
	run -2 collctl allreduce -n 1 --wire '' w.0.npy -o out.npy
	assert_output --partial "--wire: '' is not one of raw, lossless, "
	run -2 collctl barrier -n 1 --wire raw
	unshare -m true 2>/dev/null || skip 'no mount namespaces here: libzstd cannot be hidden'
	local zstd
	zstd=$(ldconfig -p | sed -n 's/.*libzstd\.so\.1 .*=> //p' | head -1)
	[[ -n $zstd ]] || skip 'no libzstd.so.1 here that could be hidden'
	make_hostfile hosts 2
	spawn_rank 0 "$COLLCTL" allreduce --json --dtype bf16 --wire lossless w.0.npy -o out.0.npy -H hosts -r 0 --secret-file "$SECRET"
	# shellcheck disable=SC2016
	spawn_rank 1 unshare -m bash -c 'mount --bind /dev/null "$(readlink -f "$1")" && shift && exec "$@"' - "$zstd" \
		"$COLLCTL" allreduce --json --dtype bf16 --wire lossless w.1.npy -o out.1.npy -H hosts -r 1 --secret-file "$SECRET"
	wait_ranks
	assert_ranks 2 0
	assert_rank 0 0 '--wire: rank 1 cannot open libzstd (Debian: libzstd1), so data travel as they are'
	cmp out.0.npy out.1.npy
	jq -es 'all(.wire.coding == "raw")' 0.out 1.out
}

# near OUT BOUND EXPRESSION: no element of OUT, but for NaN and Inf, is off by more; special ones are alike
near() {
	OUT=$1 BOUND=$2 WANT=$3 py <<-'END'
		import os
		x = [np.load(f"f.{r}.npy").astype("f8") for r in range(3)]
		got, want = np.load(os.environ["OUT"]).astype("f8"), eval(os.environ["WANT"])
		ok = np.isfinite(want)
		assert (np.isnan(want) == np.isnan(got)).all() and (got[np.isinf(want)] == want[np.isinf(want)]).all()
		off = np.abs(got - want)[ok].max()
		assert 0 < off <= float(os.environ["BOUND"]), off
	END
}

@test "q8: sums and averages are within the bound that is said, with the same bits on all ranks" {
	local a
	py <<-'END'
		def data(r): return np.random.default_rng(r).standard_normal(70001).astype("f4")
		for r in range(3): a = data(r); a[7] = np.nan; a[9] = np.inf; a[11] = 0; a[13] = 1e-44; np.save(f"f.{r}.npy", a)
	END
	for a in '--threads 3 --streams 3 --memory 300K' '--insecure --order rank' '-a direct'; do
		# shellcheck disable=SC2086
		collctl run -n 3 -- allreduce --json --force --wire q8 $a 'f.{rank}.npy' -o 'o.{rank}.npy' >j 2>err || fail "$a: $(<err)"
		jq -es 'map(.wire.max_error, .digest) | unique | length == 2' j
		jq -es 'all(.wire.coding == "q8" and .wire.coded_bytes < 0.27 * .wire.plain_bytes and .lanes.memory == 0)' j
		near o.1.npy "$(jq -s '.[0].wire.max_error' j)" 'sum(x)'
		cp o.0.npy o.first.npy
		cmp o.0.npy o.2.npy
	done
	collctl run -n 3 -- allreduce --json --force --wire q8 'f.{rank}.npy' -o 'p.{rank}.npy' >j 2>err
	cmp p.0.npy o.first.npy
	grep -F 'f.0.npy: elements are off by at most 0.0' err
	# weights, several inputs, another type of the output; weight 0 ignores NaN
	py <<<'a = np.load("f.2.npy"); a[:] = np.nan; np.save("nan.npy", a)'
	# shellcheck disable=SC2016
	COLLCTL_BIN=$COLLCTL collctl run -n 3 -- bash -c 'r=$COLLCTL_RANK; exec "$COLLCTL_BIN" allreduce --op avg --json --force --wire q8 --weight $((r + 1)),0 \
		f.$r.npy nan.npy --output-dtype f64 -o w.$r.npy' >j 2>err || fail "$(<err)"
	near w.0.npy "$(jq -s '.[0].wire.max_error' j)" '(x[0] + 2 * x[1] + 3 * x[2]) / 6'
	collctl allreduce -n 1 -q --op avg --weight 3 --wire q8 f.0.npy -o one.npy
	near one.npy 0.05 'x[0]'
}

@test "q8: tensors have bounds of their own, --max-error, and what it is not for" {
	py <<-'END'
		def data(r, n, s): return (np.random.default_rng(r).standard_normal(n) * s).astype("f4")
		for r in range(2): save_safetensors(f"m.{r}.safetensors", {"small": data(r, (3, 50), 1e-3), "large": data(r, 200, 100), "none": data(r, 0, 1), "one": data(r, (), 1)})
	END
	collctl run -n 2 -- allreduce --op avg --json --wire q8 'm.{rank}.safetensors' -o 'o.{rank}.safetensors' >j 2>err || fail "$(<err)"
	cmp o.0.safetensors o.1.safetensors
	grep -F "tensor 'large': elements are off by at most" err
	py <<-'END'
		a, b, o = (load(n) for n in ("m.0.safetensors", "m.1.safetensors", "o.0.safetensors"))
		assert np.abs((a["small"] + b["small"]) / 2 - o["small"]).max() < 4e-5
		assert o["none"].size == 0 and abs((a["one"] + b["one"]) / 2 - o["one"]) < 0.02
	END
	cp o.0.safetensors kept
	run -7 --separate-stderr collctl run -n 2 -- allreduce --op avg --force --wire q8 --max-error 0.01 'm.{rank}.safetensors' -o 'o.{rank}.safetensors'
	[[ $stderr == *"tensor 'large': with --wire q8 elements may be off by "*', and --max-error allows 0.01: '* ]] || fail "$stderr"
	cmp o.0.safetensors kept
	collctl run -n 2 -- allreduce -q --op avg --wire q8 --max-error 5 'm.{rank}.safetensors' -o 'p.{rank}.safetensors'
	cmp p.1.safetensors kept
	py <<<'np.save("i.npy", np.arange(9)); np.save("c.npy", np.ones(9, "c8"))'
	for a in 'allreduce i.npy|--wire q8 is for floats, not i64' 'allreduce c.npy|--wire q8 is for floats, not c64' \
		'reduce i.npy|--wire q8: reduce has no sums in blocks: it is for allreduce' 'allreduce --op max i.npy|--wire q8: --op max needs the exact values' \
		'allreduce -a ring_chunked i.npy|--algorithm ring_chunked adds arrays in pairs, and --wire q8' \
		'allreduce --lanes memory i.npy|--wire q8: memory lanes carry no blocks'; do
		# shellcheck disable=SC2086
		run -2 collctl ${a%|*} -n 1 --wire q8 -o x.npy
		assert_output --partial -- "${a#*|}"
	done
	run -2 collctl allreduce -n 1 --max-error 1 i.npy -o x.npy
	assert_output --partial -- '--max-error: needs --wire q8'
	run -2 collctl allreduce -n 1 --wire q8 --max-error -1 i.npy -o x.npy
	assert_output --partial -- '--max-error'
}
