#!/usr/bin/env bats
# Faults while checkpoints are reduced: a sharded set, a .safetensors, an .npz. After each the old
# output is whole, survivors say the same and leave nothing, and a second run succeeds
# (tests/fault/checkpoints.py). Numbers are the rows of the table of faults.

# shellcheck disable=SC2016
load ../cli/helpers
load fault

export BATS_TEST_TIMEOUT=$((LONG ? 7200 : ${BATS_TEST_TIMEOUT:-600}))

teardown() {
	! mountpoint -q full || umount full
	common_teardown
}

setup_file() {
	compile_sysfault
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$BATS_FILE_TMPDIR/corrupt.so" \
		"$FAULT_DIR/corrupt.c" -ldl
}

# trials WHAT [ARGS...]
trials() {
	local all=()
	((!LONG)) || all=(--all)
	COLLCTL=$COLLCTL TMPDIR=$BATS_TEST_TMPDIR PYTHONDONTWRITEBYTECODE=1 run "$PYTHON" "$FAULT_DIR/checkpoints.py" "$@" "${all[@]}"
	echo "$output"
	((status == 0))
}

# disk CALL ERROR
disk() {
	need_sysfault
	trials disk "$SYSFAULT" "$@"
}

@test "28: no space at the k-th write: 4" { disk pwrite64 ENOSPC; }
@test "28: an I/O error at the k-th write: 4" { disk pwrite64 EIO; }
@test "28: short writes go on" { disk pwrite64 short; }
@test "28: no space for a whole file: 4" { disk fallocate ENOSPC; }
@test "29: fsync fails: 4" { disk fsync EIO; }
@test "29: close fails: 4" { disk close EIO; }
@test "29: linking fails: 4, also of the old files" { disk linkat EIO; }
@test "29: a rename fails: 4 on every rank, all of that rank's old files are back" { disk renameat EIO; }
@test "29: an output can't be created: 4" { disk openat EACCES; }
@test "36: the k-th read fails: 3" { disk pread64 EIO; }
@test "36: short reads go on" { disk pread64 short; }

@test "30: killed around the verdict and the renames: each file old or new, whole" {
	need_sysfault
	trials kill "$SYSFAULT"
}

@test "31, 34: limits of files and of memory on a rank: 4 and 11, not a signal; or it works" {
	no_sanitizers 'take more address space than there is'
	trials limit
}

@test "38: memory corrupted after the reduction: 10, the rank and the tensor named" {
	no_sanitizers 'must be loaded first'
	trials corrupt "$BATS_FILE_TMPDIR/corrupt.so"
}

# ---- jobs that are held in the middle ----

# make_checkpoints KIND: in.R, old outputs out.R and copies of them, old.R, of three ranks
make_checkpoints() {
	local made=$BATS_FILE_TMPDIR/made.$1
	if [[ ! -d $made ]]; then
		mkdir "$made"
		(cd "$made" && new_checkpoints "$1")
	fi
	cp -r "$made/." .
}

new_checkpoints() {
	PYTHONPATH=$HELPERS_DIR:$FAULT_DIR PYTHONDONTWRITEBYTECODE=1 "$PYTHON" - "$1" <<-'E'
		import sys
		import checkpoints as ck
		from files import *
		kind = sys.argv[1]
		ck.tensors = lambda r: {n: some(d, (500, 700), [r, i]) for i, (n, d) in enumerate(ck.TENSORS)}
		for r in range(3):
		    for what, t in ("in", ck.tensors(r)), ("out", ck.tensors(9)), ("old", ck.tensors(9)):
		        ck.save(kind, f"{what}.{r}{ck.SUFFIX[kind]}", t)
	E
}

# check_sums KIND: the outputs are what numpy has
check_sums() {
	PYTHONPATH=$HELPERS_DIR:$FAULT_DIR PYTHONDONTWRITEBYTECODE=1 "$PYTHON" - "$1" <<-'E'
		import sys
		import checkpoints as ck
		from files import *
		s = ck.SUFFIX[sys.argv[1]]
		ins = [load(f"in.{r}{s}") for r in range(3)]
		for r in range(3):
		    check(f"out.{r}{s}", {n: ins[0][n] + ins[1][n] + ins[2][n] for n in ins[0]})
	E
}

# start_held KIND: three ranks, stopped in the middle of the run; `resume` lets them go on
start_held() {
	local r options suffix=.$1
	[[ $1 != set ]] || suffix=
	[[ $1 != file ]] || suffix=.safetensors
	SUFFIX=$suffix
	hold_data 750000
	make_hostfile hosts 3
	for r in 0 1 2; do
		options=()
		((r != 1)) || options=("${THROUGH[@]}")
		spawn_rank "$r" "$COLLCTL" allreduce -a ring_chunked --streams 1 --memory 2M -H hosts -r "$r" \
			--insecure "in.$r$suffix" -o "out.$r$suffix" "${options[@]}"
	done
	read -r -t 60 <held
}

# assert_aborted: all ranks say the same, every output is the old one, no temporary file is left
assert_aborted() {
	local r
	for r in 0 1 2; do
		assert_equal "$(<"$r.err")" "$(<"0.err")"
		diff -r "old.$r$SUFFIX" "out.$r$SUFFIX"
	done
	assert_equal "$(find . -name '.*' -type f)" ''
}

# again KIND: a second run succeeds; its outputs are those of the first such run, which numpy has checked
again() {
	local first=$BATS_FILE_TMPDIR/again.$1 r
	run --separate-stderr collctl run -n 3 -- allreduce --insecure "in.{rank}$SUFFIX" -o "out.{rank}$SUFFIX"
	((status == 0)) || fail "the second run: $stderr"
	if [[ ! -e $first ]]; then
		check_sums "$1"
		cp -r "out.0$SUFFIX" "$first"
	fi
	for r in 0 1 2; do diff -r "$first" "out.$r$SUFFIX"; done
}

# bats test_tags=smoke
@test "43: file threads, parts of several types, streams, fsync aside and progress at once: right, no race" {
	make_checkpoints npz
	SUFFIX=.npz
	run --separate-stderr collctl run -n 3 -- allreduce -a ring_chunked --streams 2 --memory 2M --progress always \
		'in.{rank}.npz' -o 'out.{rank}.npz'
	((status == 0)) || fail "$stderr"
	check_sums npz
}

# victim KIND: what to damage of rank 2's input
victim() {
	case $1 in
	set) echo "in.2/2.safetensors" ;;
	file) echo in.2.safetensors ;;
	npz) echo in.2.npz ;;
	esac
}

@test "36, 52: an input truncated, changed, rewritten or replaced while the job runs: 3, or the job has what it needs" {
	local kind damage file
	for kind in set file npz; do
		for damage in truncated changed rewritten; do
			rm -rf -- *
			make_checkpoints $kind
			file=$(victim $kind)
			cp -p "$file" keep
			start_held $kind
			if [[ $damage == truncated ]]; then
				truncate -s 5000 "$file"
			else
				printf 'x' | dd of="$file" bs=1 seek=5000 conv=notrunc status=none
			fi
			[[ $damage != rewritten ]] || touch -r keep "$file"
			resume
			wait_ranks
			assert_ranks 3 3 "rank 2: $file: "
			assert_aborted
			cp keep "$file"
			again $kind
		done
		# Who replaces a file by a rename does no harm: it is open.
		rm -rf -- *
		make_checkpoints $kind
		file=$(victim $kind)
		start_held $kind
		cp "$file" new
		mv new "$file"
		resume
		wait_ranks
		assert_ranks 3 0
		check_sums $kind
	done
}

@test "36: an input that can't be read: 3" {
	local kind file
	for kind in set file npz; do
		rm -rf -- *
		make_checkpoints $kind
		file=$(victim $kind)
		SUFFIX=${file#in.2}
		[[ $kind != set ]] || SUFFIX=
		mv "$file" keep
		run --separate-stderr collctl run -n 3 -- allreduce --insecure "in.{rank}$SUFFIX" -o "out.{rank}$SUFFIX"
		((status == 3))
		all_say "rank 2: .*$(basename "$file")"
		mkdir "$file"
		run --separate-stderr collctl run -n 3 -- allreduce --insecure "in.{rank}$SUFFIX" -o "out.{rank}$SUFFIX"
		((status == 3)) || fail "$status: $stderr"
		rmdir "$file"
		for r in 0 1 2; do diff -r "old.$r$SUFFIX" "out.$r$SUFFIX"; done
		mv keep "$file"
		again $kind
	done
}

# ---- targets ----

@test "35: a symlink among a set's outputs is refused: 4; --force follows it" {
	make_checkpoints set
	SUFFIX=
	cp out.1/1.safetensors elsewhere
	ln -sf ../elsewhere out.1/1.safetensors
	run --separate-stderr collctl run -n 3 -- allreduce --insecure 'in.{rank}' -o 'out.{rank}'
	((status == 4))
	all_say 'rank 1: out.1/1.safetensors: is a symbolic link'
	[[ -L out.1/1.safetensors ]]
	cmp elsewhere old.1/1.safetensors
	diff -r old.0 out.0
	diff -r old.2 out.2
	assert_equal "$(find . -name '.*' -type f)" ''
	run --separate-stderr collctl run -n 3 -- allreduce --insecure --force 'in.{rank}' -o 'out.{rank}'
	((status == 0)) || fail "$stderr"
	[[ -L out.1/1.safetensors ]]
	cmp elsewhere out.0/1.safetensors
	check_sums set
}

@test "35: a folder or a FIFO among a set's outputs is refused, with --force too" {
	local force
	make_checkpoints set
	SUFFIX=
	rm out.2/0.safetensors
	mkfifo out.2/0.safetensors
	rm out.1/model.safetensors.index.json
	for force in '' --force; do
		# shellcheck disable=SC2086
		run --separate-stderr collctl run -n 3 -- allreduce --insecure $force 'in.{rank}' -o 'out.{rank}'
		((status == 4))
		all_say 'rank 2: out.2/0.safetensors: is a FIFO'
		diff -r old.0 out.0
		[[ ! -e out.1/model.safetensors.index.json ]]
	done
	rm out.2/0.safetensors
	again set
}

@test "28: a full disk on one rank: 4, nothing left there; then room is made, and it works" {
	local kind left
	mkdir full
	mount -t tmpfs -o size=2m collctl-test full 2>/dev/null || skip 'no tmpfs to be had here'
	for kind in set file npz; do
		find . -mindepth 1 -maxdepth 1 ! -name full -exec rm -rf {} +
		make_checkpoints $kind
		SUFFIX=$(compgen -G 'in.0*')
		SUFFIX=${SUFFIX#in.0}
		rm -rf "out.1$SUFFIX"
		SUFFIX=$SUFFIX run --separate-stderr collctl run -n 3 -- bash -c 'out=out.$COLLCTL_RANK$SUFFIX
			((COLLCTL_RANK != 1)) || out=full/$out
			exec "$0" allreduce --insecure "in.$COLLCTL_RANK$SUFFIX" -o "$out"' "$COLLCTL"
		left=$(find full -type f)
		((status == 4)) || fail "$kind: $status: $stderr"
		assert_equal "$(grep -c 'rank 1: full/out.1.*: .*No space left on device' <<<"$stderr")" 1
		assert_equal "$left" ''
		diff -r "old.0$SUFFIX" "out.0$SUFFIX"
		diff -r "old.2$SUFFIX" "out.2$SUFFIX"
		again $kind
	done
}
