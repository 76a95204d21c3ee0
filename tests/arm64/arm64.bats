#!/usr/bin/env bats
# The program for aarch64 under qemu-user (tests/arm64.sh), alone and in jobs with ranks of this machine's processor.

load ../cli/helpers

setup() {
	[[ -n ${ARM64_BUILD-} ]] || skip 'tests/arm64.sh builds the program'
	common_setup
	ARM64=$ARM64_BUILD/emulated/collctl
}

emulated() { qemu-aarch64 -L "$ARM64_BUILD/sysroot" "$@"; }

# units NAME...: the unit tests of that name pass. tests/arm64.sh builds those of the lines that begin with it.
units() {
	local name failed
	cd "$ROOT" || return
	for name; do
		if ! emulated "$ARM64_BUILD/unit/test_$name" >"$BATS_TEST_TMPDIR/out" 2>&1; then
			# qemu-user maps no more than the memory, and installs descriptors for which a message has no room.
			failed=$(sed -nE 's/^\[  FAILED  \] (\w+)$/\1/p' "$BATS_TEST_TMPDIR/out" | sort -u)
			[[ $failed == @(larger_than_the_memory|too_many_descriptors) ]] || fail "test_$name: $(grep -B 4 '^\[  FAILED' "$BATS_TEST_TMPDIR/out")"
		fi
	done
}

# program LETTER: x is that of this machine, a that for aarch64
program() {
	[[ $1 == a ]] && echo "$ARM64" || echo "$COLLCTL"
}

# mixed LETTERS TAG DTYPE OPTIONS...: an allreduce of three ranks, each of the program of its letter. Leaves its outputs,
# out.TAG.R.npy, and its digest, TAG.digest
mixed() {
	local letters=$1 tag=$2 dtype=$3 r
	shift 3
	for r in 0 1 2; do
		# shellcheck disable=SC2046 # an option or none
		COLLCTL=$(program "${letters:r:1}") JOB=$tag rank $r 3 allreduce --json --no-sync $(hints "$dtype") "$@" \
			in.$r.npy -o "out.$tag.$r.npy"
	done
	wait_ranks
	assert_ranks 3 0
	json 0.out .digest >"$tag.digest"
}

@test "all that make builds is for aarch64, and the manual is that of any other processor" {
	local file n=0
	for file in collctl libcollctl.so.0 libcollctl.a; do
		readelf -h "$ARM64_BUILD/$file" | grep -q 'Machine: *AArch64' || fail "$file"
	done
	[[ $("$ARM64" help --mdoc) == "$("$COLLCTL" help --mdoc)" ]] || fail 'help --mdoc differs'
	for file in "$ARM64_BUILD"/man/*.1; do
		[[ -s $file ]] || fail "$file is empty"
		n=$((n + 1))
	done
	((n > 20)) || fail "only $n manual pages"
}

# NEON has no product of 64 bits, and no arithmetic of 128. The sums of complex numbers call those of their parts.
@test "all kernels are compiled to vector instructions" {
	local name scalar='prod_64|sum_128|sum_c.*|reduce_kernel_.*|f64_by_[iu]64|scale_kernel'
	for name in reduce_integer reduce_float reduce_complex reduce_f16c scale; do
		aarch64-linux-gnu-objdump -d --no-show-raw-insn "$ARM64_BUILD/lib/data/kernels/$name.o"
	done >code
	awk -v scalar="^($scalar)\$" '/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); if (name !~ scalar) { n++; left[name] = 1 } }
		/\tv[0-9]+\.(16b|8h|4s|2d|8b|4h|2s)/ || /[ ,{]v[0-9]+\.(16b|8h|4s|2d|8b|4h|2s)/ { delete left[name] }
		END { for (name in left) { print name; bad = 1 }; exit bad || n < 90 }' code >scalars || fail "without vectors: $(xargs <scalars)"
	awk '/<sum_f16>:/ { here = 1 } /^$/ { here = 0 } here' code | grep -q 'fcvtn.*4h' || fail 'f16 is not converted by instructions'
}

@test "version names the processor's features" {
	"$ARM64" version >out
	grep -qE '^processor .*asimd' out || fail "$(<out)"
	grep -qE '^system .* aarch64' out || fail "$(<out)"
	[[ $("$ARM64" version --json | jq -r .system.machine) == aarch64 ]]
}

@test "two ranks give the bytes of another processor, over TCP and over memory" {
	local lanes
	make_shards 2 f32 120017 random
	"$COLLCTL" run -n 2 -- allreduce --no-sync 'in.{rank}.npy' -o 'here.{rank}.npy'
	for lanes in tcp memory; do
		"$ARM64" run -n 2 -- allreduce --no-sync --lanes $lanes 'in.{rank}.npy' -o "$lanes.{rank}.npy"
		cmp here.0.npy $lanes.0.npy
		cmp here.1.npy $lanes.1.npy
	done
	"$ARM64" run -n 2 -- allreduce --no-sync --threads 2 --memory 1M --streams 3 'in.{rank}.npy' -o 'threads.{rank}.npy'
	cmp here.0.npy threads.0.npy
}

@test "unit tests: kernels" {
	units reduce convert dtypes stats coding coding_hostile
}

@test "unit tests: formats, digests" {
	units buf npy npz safetensors format fortran dataset digest sink
}

@test "unit tests: lanes, the arena, TLS records" {
	units arena conn_shared conn_shared_peers transport tls_record
}

@test "ranks of both processors meet at a store and give the bytes and the digest of ranks of one" {
	local dtype letters lanes op tag r
	make_secret
	start_serve
	for dtype in f32 f16 bf16 i64 c64; do
		op=sum
		[[ $dtype != i64 ]] || op=prod
		make_shards 3 $dtype 30011 random
		mixed xxx $dtype.here $dtype --op $op -a ring_chunked
		for letters in xaa axx; do # the coordinator is of either
			for lanes in tcp memory; do
				tag=$dtype.$letters.$lanes
				mixed $letters $tag $dtype --op $op -a ring_chunked --lanes $lanes
				cmp $tag.digest $dtype.here.digest || fail "$tag: $(<$tag.digest), not $(<$dtype.here.digest)"
				for r in 0 1 2; do
					cmp out.$tag.$r.npy out.$dtype.here.$r.npy || fail "$tag: rank $r"
				done
			done
		done
	done
}

@test "ranks of both processors meet by a hostfile, and agree on a choice of auto" {
	local r letters=xa
	make_secret
	make_shards 2 f64 50021 random
	make_hostfile hosts 2
	"$COLLCTL" run -n 2 -- allreduce --no-sync --op avg 'in.{rank}.npy' -o 'here.{rank}.npy'
	for r in 0 1; do
		spawn_rank $r "$(program ${letters:r:1})" allreduce --no-sync --op avg -r $r -H hosts --secret-file "$SECRET" in.$r.npy -o out.$r.npy
	done
	wait_ranks
	assert_ranks 2 0
	cmp out.0.npy here.0.npy
	cmp out.1.npy here.1.npy
}
