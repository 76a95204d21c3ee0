#!/usr/bin/env bats
# 33: each allocation of a process fails once (tests/fault/alloc.py): 11 or success, and no leak.

load ../cli/helpers

export BATS_TEST_TIMEOUT=$((LONG ? 7200 : ${BATS_TEST_TIMEOUT:-600}))

setup_file() {
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -pthread -o "$BATS_FILE_TMPDIR/allocfail.so" \
		"$HELPERS_DIR/../fault/allocfail.c"
}

# each CASE...: in the long runs at those that alloc.py --all takes, else at a seeded sample
each() {
	local case all=()
	((!LONG)) || all=(--all)
	ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 LD_PRELOAD=$BATS_FILE_TMPDIR/allocfail.so \
		"$COLLCTL" --version >/dev/null 2>&1 ||
		skip 'this build takes no allocator that is preloaded'
	# The build with ASAN finds leaks, too; its ranks take a second or more to set up OpenSSL.
	! grep -q libasan <(ldd "$COLLCTL") || export ALLOC_JOIN_TIMEOUT=15s
	for case; do
		COLLCTL=$COLLCTL TMPDIR=$BATS_TEST_TMPDIR run "$PYTHON" "$HELPERS_DIR/../fault/alloc.py" \
			"$BATS_FILE_TMPDIR/allocfail.so" "$case" "${all[@]}"
		echo "$output"
		((status == 0)) || return 1
	done
}

# bats test_tags=smoke
@test "33: info, plan, algorithms, keygen" { each info infostats infoset infozip plan algorithms keygen; }
@test "33: run and serve" { each run runprogram serve; }
@test "33: a rank without TLS, with windows, of an .npz, of a set, of files to gather" {
	each insecure windows zip set gather
}
@test "33: a rank with TLS, found by a store" { each tls store; }
@test "33: certificates" { each issue revoke certificates; }
@test "33: verify, barrier, bench" { each verify barrier bench; }
