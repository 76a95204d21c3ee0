#!/usr/bin/env bats
# One fault a job, at every place or at a seeded sample of them (tests/fault/trials.py). Numbers are
# the rows of the table of faults.

load ../cli/helpers

export BATS_TEST_TIMEOUT=$((LONG ? 7200 : ${BATS_TEST_TIMEOUT:-240}))

setup_file() {
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -o "$BATS_FILE_TMPDIR/sysfault" "$HELPERS_DIR/../fault/sysfault.c"
}

# trials WHAT [ARGS...]
trials() {
	local all=()
	((!LONG)) || all=(--all)
	COLLCTL=$COLLCTL TMPDIR=$BATS_TEST_TMPDIR run "$PYTHON" "$HELPERS_DIR/../fault/trials.py" "$@" "${all[@]}"
	echo "$output"
	((status == 0))
}

under_ptrace() {
	local rc=0
	"$BATS_FILE_TMPDIR/sysfault" count -- true || rc=$?
	((rc == 0)) || skip "ptrace is not to be had here"
}

@test "17: SIGKILL in place of any system call of a rank" {
	under_ptrace
	trials kill "$BATS_FILE_TMPDIR/sysfault"
}

# disk CALL ERROR
disk() {
	under_ptrace
	trials disk "$BATS_FILE_TMPDIR/sysfault" "$@"
}

@test "28: no space at the k-th write: 4" { disk pwrite64 ENOSPC; }
@test "28: an I/O error at the k-th write: 4" { disk pwrite64 EIO; }
@test "28: short writes go on" { disk pwrite64 short; }
@test "28: no space for the whole file: 4" { disk fallocate ENOSPC; }
@test "29: fsync fails: 4" { disk fsync EIO; }
@test "29: close fails: 4" { disk close EIO; }
@test "29: link fails: 4" { disk linkat EIO; }
@test "29: rename fails: 4 on every rank, the others' files are in place" { disk renameat EIO; }
@test "29: the output can't be created: 4" { disk openat EACCES; }
@test "36: the k-th read fails: 3" { disk pread64 EIO; }
@test "36: short reads go on" { disk pread64 short; }

@test "19: a data connection reset at any byte, TLS: 8, the link named" { trials reset; }
@test "19: a data connection reset at any byte, plain: 8, the link named" { trials reset --insecure; }
@test "23: a bit of any byte flipped, TLS: 10" { trials flip; }
@test "23: a bit of any byte flipped, plain: 10" { trials flip --insecure; }
@test "24: cut at any byte, TLS: 10" { trials cut; }
@test "24: cut at any byte, plain: 10" { trials cut --insecure; }
@test "26: oversized, repeated, missing, unplanned frames: 10" { trials frames; }
@test "26: oversized, unknown, unexpected control messages: 10" { trials control; }
