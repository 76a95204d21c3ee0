# --progress: output on a terminal (terminal.py) and elsewhere.

load helpers

# The lines on the screen at the end, without the last, which is empty.
screen() { printf '%s\n' "$output" | sed '1d;/^$/d'; }

# A sparse file that takes seconds to read on any machine.
endless() { truncate -s 200G endless.bin; }

@test "a bar on a terminal, within its width" {
	endless
	for columns in 30 80 200; do
		on_terminal '%.*%' $columns "$COLLCTL" info --dtype u8 endless.bin
		assert_failure 130
		assert_line -n 0 --regexp '\\r(info  )?(\[[#.]+\]  )?[0-9]+%.*\\x1b\[J\\r'
		# The bar was redrawn in place, never wrapped, and erased at the end.
		assert_equal "$(screen | wc -l)" 0
	done
	assert_line -n 0 --regexp 'info  \[[.#]+\]  [0-9]+%  [0-9.]+ of 200 GiB  [0-9.]+ [KMG]iB/s  [0-9a-z. ]+ left  read'
}

@test "SIGQUIT erases the bar, too" {
	endless
	ulimit -c 0
	on_terminal "" 80 timeout --foreground -s QUIT 2 "$COLLCTL" info --dtype u8 endless.bin
	assert_failure
	assert_line -n 0 --regexp '%.*\\x1b\[J\\r'
	refute_line --regexp '^info'
}

@test "what is done soon shows no bar" {
	"$PYTHON" -c 'import numpy as np; np.save("a.npy", np.arange(3))'
	on_terminal "" 80 "$COLLCTL" info a.npy
	assert_success
	refute_line -n 0 --partial '%'
	refute_line -n 0 --partial 'x1b'
}

@test "no bar: --progress never, -q, a terminal that can't be drawn on, no terminal" {
	endless
	on_terminal 1 80 "$COLLCTL" info --dtype u8 endless.bin --progress never
	assert_line -n 0 "''"
	on_terminal 1 80 "$COLLCTL" info --dtype u8 endless.bin -q
	assert_line -n 0 "''"
	TERM=dumb on_terminal 1 80 "$COLLCTL" info --dtype u8 endless.bin
	assert_line -n 0 "''"
	truncate -s 3 small.bin
	run --separate-stderr collctl info --dtype u8 small.bin
	assert_equal "$stderr" ''
	on_terminal '0%' 80 "$COLLCTL" info --dtype u8 endless.bin -q --progress always
	assert_line -n 0 --partial '0%'
}

@test "processes of one terminal: one bar, and messages on lines of their own" {
	endless
	cat >both.sh <<'SH'
trap '"$COLLCTL" info none.npy; kill $first $second; exit' INT
"$COLLCTL" info --dtype u8 endless.bin & first=$!
"$COLLCTL" info --dtype u8 endless.bin & second=$!
wait
SH
	COLLCTL=$COLLCTL on_terminal '%' 80 sh both.sh
	assert_line 'collctl: none.npy: cannot open: No such file or directory'
}

@test "always: where there is no terminal, lines" {
	truncate -s 3M small.bin
	run --separate-stderr collctl info --dtype u8 small.bin --progress always -q
	assert_success
	assert_regex "$stderr" '^collctl: info  100%  3\.0 of 3\.0 MiB(  [0-9.]+ [KMG]iB/s)?  read$'
}

@test "json: an object a line, the last at the end" {
	truncate -s 3M small.bin
	run --separate-stderr collctl info --json --dtype u8 small.bin --progress json
	assert_success
	printf '%s\n' "$stderr" | tail -n 1 >last.json
	assert_equal "$(json last.json '.progress | keys | join(" ")')" 'left moved phase rank rate slowest total'
	assert_equal "$(json last.json '.progress | .rank, .phase, .moved, .total, .left, .slowest' | xargs)" \
		'null read 3145728 3145728 0 null'
}

# ---- collectives ----

@test "under run, the bar is erased before rank 0 prints its table on the same terminal" {
	on_terminal "" 100 "$COLLCTL" run -n 2 -- check --insecure --time 700ms
	assert_success
	assert_line -n 0 --regexp '%.*\\x1b\[J.*connect: '
	refute_line -n 0 --regexp 'connect: .*\\x1b\[J'
}

@test "a collective's bar: the phase, bytes, the slowest rank; gone at the end" {
	truncate -s 200G endless.bin
	on_terminal '%.*slowest: rank' 110 "$COLLCTL" run -n 2 -- exchange --insecure --steps 1 --dtype u8 endless.bin
	assert_failure 130
	assert_line -n 0 --regexp '\\rexchange  \[[.#]+\]  0%  [0-9.]+ of 200 GiB  .*  run  slowest: rank [01] \([0-9]+%\)\\x1b\[J\\r'
	refute_line --regexp '^exchange' # nothing of it stands on the screen
	# The rank that ends first is named once: another may learn of it before its own signal arrives.
	assert_line --regexp '^\[[01]\] collctl: rank [01]: ended by SIGINT'
	free_port
	printf '127.0.0.1:%d\n127.0.0.1\n' "$PORT" >hosts
	on_terminal 'waiting for ranks' 80 "$COLLCTL" allreduce --insecure -H hosts -r 0 --dtype u8 endless.bin -o none.bin
	assert_failure 130
	assert_equal "$(screen)" 'collctl: rank 0: ended by SIGINT'
}

@test "a collective's progress: bytes of the file; run passes rank 0's JSON lines; auto: nothing" {
	make_shards 2 f32 500000
	run --separate-stderr collctl run -n 2 -- allreduce --insecure --no-sync --progress json -q 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_success
	printf '%s\n' "$stderr" >lines
	assert_equal "$(jq -s 'map(.progress.rank) | unique | @json' -r lines)" '[0]'
	assert_equal "$(jq -s 'last.progress | [.phase, .moved, .total, .left] | @json' -r lines)" \
		'["commit",2000000,2000000,0]'
	assert_equal "$(jq -s 'last.progress.bytes | [.skipped, .read, .sent, .received, .written, .stored] | @json' -r lines)" \
		'[0,2000000,2000000,2000000,2000000,0]'
	# The bytes that a rank reads or writes, whichever is more: here two joined files.
	run --separate-stderr collctl run -n 2 -- allgather --insecure --progress json -q 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_success
	printf '%s\n' "$stderr" >lines
	assert_equal "$(jq -s 'last.progress | [.moved, .total] | @json' -r lines)" '[4000000,4000000]'
	# Lines of stdout, and other lines of stderr, come from the program.
	run --separate-stderr collctl run --label -n 2 -- sh -c 'echo "{\"progress\":{\"rank\":7}}"; echo "{\"progress\":1}" >&2'
	assert_success
	assert_equal "$(sort <<<"$output")" "$(printf '[%d] {"progress":{"rank":7}}\n' 0 1)"
	assert_equal "$(sort <<<"$stderr")" "$(printf '[%d] {"progress":1}\n' 0 1)"
	run --separate-stderr collctl run -n 2 -- allreduce --insecure --no-sync --progress always -q 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_success
	for r in 0 1; do # the last of a rank's lines, if it took long
		grep -F "[$r] collctl: rank $r: allreduce  " <<<"$stderr" | tail -n 1 | grep -q storing
	done
	run --separate-stderr collctl run -n 2 -- allreduce --insecure --no-sync -q 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_success
	assert_equal "$stderr" ''
	# What all ranks have is skipped, and no work to come.
	cp in.0.npy file.bin
	collctl run -n 2 -- broadcast --insecure --progress json -q --raw-file file.bin -o 'copy.{rank}.bin' 2>lines
	assert_equal "$(jq -s 'last.progress | [.moved, .total, .bytes.skipped, .bytes.stored] | @json' -r lines)" \
		'[2000128,2000128,0,2000128]'
	printf x >>file.bin
	collctl run -n 2 -- broadcast --insecure --progress json -q --raw-file file.bin -o 'copy.{rank}.bin' --update --force 2>lines
	assert_equal "$(jq -s 'last.progress.bytes | [.compared > 0, .skipped, .stored] | @json' -r lines)" '[true,1048576,2000129]'
	collctl run -n 2 -- broadcast --insecure --progress json -q --raw-file file.bin -o 'copy.{rank}.bin' --update --force 2>lines
	assert_equal "$(jq -s 'last.progress | [.moved, .bytes.skipped, .bytes.stored] | @json' -r lines)" '[0,2000129,0]'
	collctl run --json -n 2 -- allreduce --insecure --no-sync --progress json 'in.{rank}.npy' -o 'out.{rank}.npy' >j 2>err
	assert_equal "$(json j .ok)" true
}
