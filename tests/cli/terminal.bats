#!/usr/bin/env bats
# What a terminal is sent: colours, tables that fit, wide characters, a bar that survives a resize.
# terminal.py prints the bytes, then the screen.

load helpers

setup() {
	common_setup
	unset NO_COLOR COLUMNS
	export TERM=xterm
}

# The bytes that the terminal was sent, as Python's repr.
sent() { head -n 1 <<<"$output"; }

# tensors: set.safetensors, whose names are long, wide, combining, hostile
tensors() {
	"$PYTHON" - <<-'E'
		import json
		names = ["model.layers.%d.self_attn.q_proj.weight" % i for i in (0, 10)]
		names += ["模型.层.零.注意力.权重.查询投影.偏置项", "e\u0301te\u0301." + "n\u0303" * 30,
		          "b\x1b[31mred\x9b1m\u202eright", "short"]
		header, at = {}, 0
		for i, name in enumerate(names):
		    header[name] = {"dtype": "F32", "shape": [i + 1, 7], "data_offsets": [at, at + 28 * (i + 1)]}
		    at += 28 * (i + 1)
		text = json.dumps(header).encode()
		open("set.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + bytes(at))
	E
}

# table FIRST LAST: the lines of $output's repr from the one that matches FIRST to before the one that
# matches LAST, without styles, each after its number of columns
table() {
	"$PYTHON" - "$1" "$2" "$(sent)" <<-'E'
		import ast, re, sys, unicodedata
		def columns(s):
		    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
		               for c in s)
		inside = False
		for line in re.sub(r"\033\[[0-9;]*[mJ]|\r(?!\n)", "", ast.literal_eval(sys.argv[3])).split("\r\n"):
		    inside = (inside or re.search(sys.argv[1], line)) and not re.search(sys.argv[2], line)
		    if inside:
		        print(columns(line), line)
	E
}

# fits COLUMNS FIRST LAST: no line of that table is wider, and there are some
fits() {
	local found
	found=$(table "$2" "$3")
	[[ -n $found ]] || fail "no table: $output"
	awk -v most="$1" '$1 > most { exit 1 }' <<<"$found" || fail "$found"
}

# The words of a text, sorted.
words() { tr -s ' ' '\n' | grep . | sort; }

@test "an error's first word is red on a terminal; not with NO_COLOR, on a dumb one, in a pipe" {
	on_terminal '' 80 "$COLLCTL" info none.npy
	assert_failure 3
	local red='\x1b[1;31mcollctl:\x1b[0m none.npy: cannot open'
	assert_line -n 0 --partial "$red"
	NO_COLOR='' on_terminal '' 80 "$COLLCTL" info none.npy
	assert_line -n 0 --partial "$red"
	NO_COLOR=1 on_terminal '' 80 "$COLLCTL" info none.npy
	assert_line -n 0 --regexp "^'collctl: none.npy: cannot open"
	TERM=dumb on_terminal '' 80 "$COLLCTL" info none.npy
	assert_line -n 0 --regexp "^'collctl: none.npy: cannot open"
	run -3 --separate-stderr collctl info none.npy
	assert_equal "$stderr" 'collctl: none.npy: cannot open: No such file or directory'
	# The ranks of run write to pipes, which no other program needs to clean of colours.
	on_terminal '' 80 "$COLLCTL" run -n 2 -- allreduce none.npy -o out.npy
	assert_line -n 0 --regexp "\[[01]\] collctl: rank [01]: "
	refute_line -n 0 --partial 'x1b[1'
	# A note is no error.
	on_terminal '' 80 "$COLLCTL" ca init authority
	assert_success
	refute_line -n 0 --partial 'x1b'
}

@test "the chosen algorithm is bold, links that fail are red, on a terminal only" {
	collctl plan allreduce -n 4 --compare >plan.txt
	local chosen first
	chosen=$(awk '/chosen: / { print $1 }' plan.txt)
	on_terminal '' 200 "$COLLCTL" plan allreduce -n 4 --compare
	assert_line -n 0 --partial "\\x1b[1m$chosen\\x1b[0m"
	first=${output#*x1b[1m}
	assert_equal "${first%%[^a-z_]*}" "$chosen"
	NO_COLOR=1 on_terminal '' 200 "$COLLCTL" plan allreduce -n 4 --compare
	assert_equal "$(table . '^$' | cut -d ' ' -f 2-)" "$(<plan.txt)"
	on_terminal '' 80 "$COLLCTL" run -n 2 -- check --time 2ms --min-bandwidth 9000Gbit
	assert_failure 8
	assert_equal "$(sent | grep -oE '\\x1b\[31m +[0-9.]+\\x1b\[0m' | wc -l)" 4 # two links, two tables
	collctl run -n 2 -- check --time 2ms --min-bandwidth 9000Gbit >out 2>&1 || true
	grep -q 'bandwidth in Mbit/s' out
	run -1 grep $'\033' out
}

@test "tables fit a terminal of 60 columns, or 40, and lose no figure" {
	tensors
	local columns
	collctl plan allreduce --hosts 4x4 --compare >plan.txt
	for columns in 60 40; do
		on_terminal '' $columns "$COLLCTL" plan allreduce --hosts 4x4 --compare
		fits $columns '^algorithm|out of' '^steps: '
		assert_equal "$(table . '^$' | cut -d ' ' -f 2- | words)" "$(words <plan.txt)"
		on_terminal '' $columns "$COLLCTL" info --stats set.safetensors
		fits $columns '^dtype' '^$'
		assert_equal "$(table '^dtype' '^$' | grep -oE '[0-9a-f]{32}' | sort)" \
			"$(collctl info set.safetensors | sed '1,2d' | grep -oE '[0-9a-f]{32}' | sort)"
		on_terminal '' $columns "$COLLCTL" run -n 2 -- bench allreduce -b 1K -e 4K -w 0 --iters 1 --check
		fits $columns '^# +size' '^$'
		assert_equal "$(table '^# +size' '^$' | grep -cE ' 0$')" 2 # wrong elements
		on_terminal '' $columns "$COLLCTL" run -n 9 -- check --time 1ms
		fits $columns '^ .* 0 ' '^(median|bandwidth|$)'
		assert_equal "$(table '^bandwidth in' '^$' | awk '{ print $2 }' | grep -c '^8$')" \
			$((columns == 60 ? 2 : 3)) # the last row of each part
	done
	on_terminal '' 60 "$COLLCTL" algorithms
	fits 60 '^collective' '^$'
	on_terminal '' 26 "$COLLCTL" run -n 20 -- check --time 1ms
	fits 26 '^ .*[0-9]' '^$'
}

@test "no terminal: the whole table, whatever COLUMNS says" {
	tensors
	COLUMNS=40 collctl info set.safetensors >out
	assert_equal "$(sed 1,3d out | wc -l)" 6
	grep -q 'model.layers.10.self_attn.q_proj.weight$' out
	COLUMNS=40 collctl plan allreduce -n 4 --compare >plan.txt
	assert_equal "$(grep -c '[0-9]  chosen: ' plan.txt)" 1
}

@test "names: cut in the middle, by columns; what a terminal would obey is escaped" {
	tensors
	on_terminal '' 66 "$COLLCTL" info set.safetensors
	fits 66 '^dtype' '^$'
	"$PYTHON" - "$(table '^dtype' '^$')" <<-'E'
		import sys
		lines = [l.split(" ", 1)[1] for l in sys.argv[1].splitlines()]
		at = lines[0].index("name")
		names = sorted(l[at:] for l in lines[1:]) # all before the names is one column wide
		assert len(names) == 6 and all(" " not in n for n in names), names
		cut = [n for n in names if "…" in n]
		assert len(cut) == 5, names
		assert any(n.startswith("模型.") and n.endswith("偏置项") for n in cut), names
		assert any(n.startswith("e\u0301te\u0301.") and n.endswith("n\u0303") for n in cut), names
		assert not any("…\u0303" in n for n in cut), names
		assert any(n.startswith("b\\x1b[31mred") and n.endswith("right") for n in cut), names
	E
	"$PYTHON" - "$(sent)" <<-'E'
		import ast, sys
		text = ast.literal_eval(sys.argv[1])
		assert "b\\x1b[31mred" in text, text
		assert not any(c in text for c in ("\x1b[31", "\x9b", "\u202e")), text
	E
}

@test "the bar survives a resize: nothing of an older one stays, whether the terminal wraps or cuts" {
	truncate -s 200G endless.bin
	on_terminal '%[^%]*\[J\r' 120,40,90,25 "$COLLCTL" info --dtype u8 endless.bin
	assert_failure 130
	assert_line -n 0 --regexp '%.*%.*%.*%'
	assert_equal "$(sed 1d <<<"$output" | tr -d ' \n')" ''
	on_terminal '%[^%]*\[J\r' 120,30 "$COLLCTL" run -n 2 -- exchange --insecure --steps 1 --dtype u8 endless.bin
	assert_failure 130
	assert_equal "$(sed 1d <<<"$output" | grep -cE '%|\.\.\.')" 0
	assert_line --regexp '^\[[01]\] collctl: rank'
}
