#!/usr/bin/env bats
# Outputs that several ranks name: refused if the results differ, written once if they are the
# same.

# shellcheck disable=SC2016
load helpers

# with_outputs CODE OUT... -- COMMAND...: one rank per OUT, which it writes
with_outputs() {
	local code=$1 outs=()
	shift
	while [[ $1 != -- ]]; do
		outs+=("$1")
		shift
	done
	shift
	OUTS=$(printf '%s\n' "${outs[@]}") run --separate-stderr collctl run -n "${#outs[@]}" -- bash -c '
		mapfile -t outs <<<"$OUTS"
		exec "$0" "$@" --insecure --no-sync -o "${outs[COLLCTL_RANK]}"' "$COLLCTL" "$@"
	((status == code)) || fail "$*: $status instead of $code: $stderr"
}

# bats test_tags=smoke
@test "one path for results that differ: 2 before any data move, with the ranks, the path and {rank}" {
	make_shards 4 f32 8
	cp in.0.npy part.npy
	local k
	for k in scatter reduce-scatter alltoall scan exscan; do
		run --separate-stderr collctl run -n 4 -- $k --no-sync --insecure 'in.{rank}.npy' -o part.npy
		assert_equal "$k $status" "$k 2"
		# Every rank reports it; run prints it once.
		[[ $stderr == *'] collctl: rank 1: part.npy: is the output of ranks 0-3, whose results differ'*'part.{rank}.npy'* ]] ||
			fail "$k: $stderr"
		assert_equal "$(grep -c 'rank 1: part.npy' <<<"$stderr")" 1
	done
	cmp part.npy in.0.npy
	assert_only_files part.npy in.{0..3}.npy
	# Two of three ranks; a result that only the root has belongs to one rank.
	with_outputs 2 a.npy b.npy ./a.npy -- scan in.0.npy
	[[ $stderr == *'rank 2: a.npy: is the output of ranks 0, 2'* ]] || fail "$stderr"
	collctl run -n 4 -- reduce --no-sync --insecure 'in.{rank}.npy' -o part.npy
	collctl run -n 4 -- gather --no-sync --insecure 'in.{rank}.npy' -o part.npy
}

@test "one path for a result that all have is written once: arrays, archives, sets, --each, copies" {
	make_shards 3 f32 8
	local k
	for k in allreduce broadcast allgather; do
		collctl run -n 3 -- $k --no-sync --insecure 'in.{rank}.npy' -o "$k.{rank}.npy"
		echo old >$k.npy
		collctl run -n 3 -- $k --no-sync --insecure -v 'in.{rank}.npy' -o $k.npy 2>err || fail "$(<err)"
		cmp $k.npy $k.0.npy
		assert_equal "$(grep -c "$k.npy: another rank writes it" err)" 2
		run ! grep -F 'rank 0: '$k'.npy: another' err
	done
	"$PYTHON" -c 'import numpy as np
for r in range(2): np.savez(f"in.{r}.npz", a=np.arange(5.0) + r, b=np.ones((2, 2), "i4"))'
	oracle checkpoint make mixed 2 --in 'set.{rank}'
	for k in 'in.{rank}.npz:sum.{rank}.npz:sum.npz' 'set.{rank}:out.{rank}:out'; do
		IFS=: read -r in own one <<<"$k"
		collctl run -n 2 -- allreduce --no-sync --insecure "$in" -o "$own"
		collctl run -n 2 -- allreduce --no-sync --insecure "$in" -o "$one"
		diff -r "$one" "${own/\{rank\}/0}"
	done
	mkdir w0 w1
	for k in 0 1; do
		cp in.$k.npy w$k/a.npy
		cp in.2.npy w$k/b.npy
	done
	collctl run -n 2 -- allreduce --no-sync --insecure --each 'w{rank}/a.npy' 'w{rank}/b.npy' -o sums/
	collctl run -n 1 -- allreduce --no-sync --insecure w0/a.npy w1/a.npy -o a.npy
	cmp a.npy sums/a.npy
	assert_equal "$(ls -A sums)" $'a.npy\nb.npy'
	collctl run -n 2 -- broadcast --no-sync --insecure --each w0/a.npy w0/b.npy -o copies/
	cmp copies/b.npy w0/b.npy
	# Two copies per rank, of which both ranks name one.
	collctl run -n 2 -- allreduce --no-sync --insecure 'w{rank}/a.npy' w0/b.npy -o both.npy -o 'own.{rank}.npy'
	cmp both.npy own.1.npy
	# Different inputs in reverse order: one name for two results.
	run --separate-stderr collctl run -n 2 -- bash -c '
		((COLLCTL_RANK)) && set -- "$@" w1/b.npy w1/a.npy || set -- "$@" w0/a.npy w0/b.npy
		exec "$0" allreduce --each --insecure --no-sync -o mixed/ "$@"' "$COLLCTL"
	assert_equal "$status" 2
	[[ $stderr == *'mixed/: is the output of ranks 0, 1'* && ! -e mixed ]] || fail "$stderr"
}

@test "a folder of scan --each: names that differ go together, names that are the same do not" {
	make_shards 2 f32 8
	collctl run -n 2 -- scan --no-sync --insecure --each 'in.{rank}.npy' -o out/
	assert_equal "$(ls -A out)" $'in.0.npy\nin.1.npy'
	run --separate-stderr collctl run -n 2 -- scan --no-sync --insecure --each in.0.npy -o one/
	assert_equal "$status" 2
	[[ $stderr == *'one/: is the output of ranks 0, 1'*'one.{rank}'* && ! -e one ]] || fail "$stderr"
}

@test "one file by several paths: ./, symbolic links, a bind mount; files that are not one" {
	make_shards 1 f32 8
	mkdir real other
	ln -s real link
	with_outputs 2 real/x.npy link/x.npy -- scan in.0.npy
	with_outputs 2 real/x.npy ./other/../real//x.npy -- scan in.0.npy
	with_outputs 2 "$PWD/real/x.npy" real/x.npy -- scan in.0.npy
	with_outputs 0 real/x.npy other/x.npy -- scan in.0.npy
	# Each name is replaced separately, even if two names are links to one file.
	ln -f real/x.npy real/y.npy
	with_outputs 0 real/x.npy real/y.npy -- scan in.0.npy
	# A symbolic link that --force follows.
	ln -s ../real/x.npy other/soft.npy
	with_outputs 2 real/x.npy other/soft.npy -- scan --force in.0.npy
	with_outputs 0 - - -- scan in.0.npy
	mkdir mounted
	unshare -m mount --bind real mounted 2>/dev/null || skip 'no mount namespaces here: no bind mount'
	run --separate-stderr unshare -m bash -c '
		mount --bind real mounted
		exec "$0" run -n 2 -- bash -c "((COLLCTL_RANK)) && o=mounted || o=real
			exec \"\$0\" scan --insecure --no-sync in.0.npy -o \$o/x.npy" "$0"' "$COLLCTL"
	assert_equal "$status" 2
	[[ $stderr == *'real/x.npy: is the output of ranks 0, 1'* ]] || fail "$stderr"
	# The same path in two containers, where it is a different folder in each.
	run --separate-stderr collctl run -n 2 -- unshare -m bash -c '
		mount -t tmpfs none mounted &&
			"$0" scan --insecure --no-sync in.0.npy -o mounted/x.npy && [[ -s mounted/x.npy ]]' "$COLLCTL"
	assert_equal "$status" 0
}

# on_tmpfs SIZE COMMAND...: in a folder `small` of SIZE bytes
on_tmpfs() {
	# shellcheck disable=SC2016
	run --separate-stderr unshare -m bash -c 'mkdir -p small && mount -t tmpfs -o "size=$1" none small && shift && "$@"
		rc=$?
		find small -mindepth 1 >left
		exit "$rc"' - "$@"
}

@test "outputs that do not fit: 4 with need and room, before data move; also of all a host's ranks, and in a dry run" {
	unshare -m true 2>/dev/null || skip 'no mount namespaces here: no small file system'
	make_shard in.npy f32 300000 1
	py <<-'END'
		save_safetensors("set.safetensors", {f"t{i:02}": some("f4", (15000,), i) for i in range(40)})
	END
	on_tmpfs 1m "$COLLCTL" allreduce -n 1 in.npy -o small/out.npy
	assert_equal "$status" 4
	[[ $stderr == *'small/out.npy: No space left on device: needs 1.1 MiB, and the file system has 1.0 MiB left: make room'* ]] || fail "$stderr"
	assert_equal "$(<left)" ''
	# Each of 40 files is small: they are added up.
	on_tmpfs 2m "$COLLCTL" allreduce -n 1 --max-shard-size 1 set.safetensors -o small/set
	assert_equal "$status" 4
	[[ $stderr == *'small/set/model-00001-of-00040.safetensors and 40 other outputs: No space left on device: need 2.3 MiB, and the file system has 1.'* ]] || fail "$stderr"
	assert_equal "$(<left)" ''
	# Two ranks, each of which would have room.
	on_tmpfs 2m "$COLLCTL" run -n 2 -- allreduce --insecure in.npy -o 'small/out.{rank}.npy'
	assert_equal "$status" 4
	assert_equal "$(grep -c 'No space left on device: needs 1.1 MiB' <<<"$stderr")" 1
	[[ $stderr != *'data were moving'* ]] || fail "$stderr"
	assert_equal "$(<left)" ''
	on_tmpfs 1m "$COLLCTL" allreduce -n 1 --dry-run in.npy -o small/out.npy
	assert_equal "$status" 4
	[[ $stderr == *'needs 1.1 MiB, and the file system has 1.0 MiB left'* ]] || fail "$stderr"
	on_tmpfs 2m "$COLLCTL" allreduce -n 1 --dry-run --max-shard-size 1 set.safetensors -o small/deep
	assert_equal "$status" 4
	[[ $stderr == *'model-00001-of-00040.safetensors and 40 other outputs: No space left on device: need 2.3 MiB'* ]] || fail "$stderr"
	# A dry run adds up what the ranks of a host need, and tells file systems and hosts apart.
	on_tmpfs 2m "$COLLCTL" run -n 3 -- allreduce --insecure --dry-run in.npy -o 'small/out.{rank}.npy'
	assert_equal "$status" 4
	assert_equal "$(grep -c 'out.[012].npy and 2 other outputs: No space left on device: need 3.4 MiB, and the file system has 2.0 MiB left' <<<"$stderr")" 1
	on_tmpfs 4m "$COLLCTL" run -n 3 -- allreduce --insecure --dry-run in.npy -o 'small/out.{rank}.npy'
	assert_equal "$status" 0
	# shellcheck disable=SC2016
	on_tmpfs 2m "$COLLCTL" run -n 3 -- bash -c '((COLLCTL_RANK)) && set -- "$@" -o "out.$COLLCTL_RANK.npy" || set -- "$@" -o small/out.npy
		exec "$0" allreduce --insecure --dry-run in.npy "$@"' "$COLLCTL"
	assert_equal "$status" 0
	# shellcheck disable=SC2016
	on_tmpfs 2m "$COLLCTL" run -n 3 -- bash -c 'COLLCTL_HOST_ID=$COLLCTL_RANK exec "$0" allreduce --insecure --dry-run in.npy -o "small/out.$COLLCTL_RANK.npy"' "$COLLCTL"
	assert_equal "$status" 0
	on_tmpfs 4m "$COLLCTL" allreduce -n 1 --max-shard-size 1 set.safetensors -o small/set
	assert_equal "$status" 0
}
