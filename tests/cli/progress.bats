# --progress: what is shown where, on a terminal (terminal.py) and elsewhere.

load helpers

# on_terminal UNTIL COLUMNS COMMAND...: see terminal.py. $output: what was sent, then the screen.
on_terminal() { run "$PYTHON" "$HELPERS_DIR/terminal.py" "$@"; }

# The lines that stand on the screen at the end, but the last, which is empty.
screen() { printf '%s\n' "$output" | sed '1d;/^$/d'; }

# A file of holes that takes seconds to read, whatever the machine.
endless() { truncate -s 200G endless.bin; }

@test "a bar on a terminal, within its width" {
	endless
	for columns in 30 80 200; do
		on_terminal '%.*%' $columns "$COLLCTL" info --dtype u8 endless.bin
		assert_failure 130
		assert_line -n 0 --regexp '\\r(info  )?(\[[#.]+\]  )?0%.*\\x1b\[K\\r'
		# Drawn over itself: it has never wrapped.
		assert_equal "$(screen | wc -l)" 1
	done
	assert_line -n 0 --regexp 'info  \[[.#]+\]  0%  [0-9.]+ of 200 GiB  [0-9.]+ [KMG]iB/s  [0-9a-z. ]+ left  read'
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
trap '"$COLLCTL" info none.npy; kill $first $second' INT
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

@test "a job that waits for ranks says so, and goes before the error" {
	make_shards 1 f32 8
	start_serve
	on_terminal "" 80 "$COLLCTL" allreduce -n 2 -r 0 -R "$STORE" --insecure --join-timeout 2s in.0.npy -o out.npy
	assert_failure 5
	assert_line -n 0 --partial '\rallreduce  waiting for ranks\x1b[K'
	assert_equal "$(screen | wc -l)" 1
	assert_equal "$(screen)" 'collctl: rank 1: missing at the end of --join-timeout: rank 1'
}

@test "run: the bar of rank 0 is on run's terminal, and its lines begin on lines of their own" {
	make_shards 1 f32 8
	mkfifo in.1.npy # opened, but never filled
	sleep 30 >in.1.npy &
	STARTED+=($!)
	on_terminal 'allreduce ' 200 "$COLLCTL" run -n 2 -- allreduce --insecure 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_failure 130
	assert_line -n 0 --regexp '\\rallreduce  [^\\]*\\x1b\[K'
	refute_line -n 0 --partial '\r\n[0] \r'
	assert_equal "$(screen | grep -cv '^\[[01]\] collctl: rank')" 0
}

@test "run: the JSON lines of every rank come behind its prefix" {
	make_shards 2 f32 8
	run --separate-stderr collctl run -n 2 -- allreduce --insecure --progress json 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_success
	for r in 0 1; do
		printf '%s\n' "$stderr" | sed -n "s/^\[$r\] {/{/p" | tail -n 1 >"last.$r.json"
		assert_equal "$(json "last.$r.json" '.progress | .rank, .phase' | xargs)" "$r commit"
		json "last.$r.json" '.progress | .moved > 0 and .moved <= .total' | grep -qx true
	done
}
