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
