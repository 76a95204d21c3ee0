#!/usr/bin/env bats
# The command line: help, errors, failures in JSON, completions and the man page.

load helpers

COMMANDS='allreduce reduce reduce-scatter broadcast scatter gather allgather alltoall scan exscan exchange
	barrier bench run invite serve plan algorithms info verify clean keygen version'

# usage_error TEXT ARGS...: exit code 2, one line on stderr that contains TEXT, nothing on stdout
usage_error() {
	local text=$1
	shift
	run -2 --separate-stderr collctl "$@"
	assert_output ''
	[[ $stderr == "collctl: "*"$text"* && $stderr != *$'\n'* ]] || fail "$* says: $stderr"
}

# bats test_tags=smoke
@test "--version and --help, before and after COMMAND" {
	run -0 --separate-stderr collctl --version
	assert_output --regexp '^collctl [0-9]+\.[0-9]+\.[0-9]+$'
	run -0 collctl --json --version
	assert_equal "$(jq -r '.version | type' <<<"$output")" string
	collctl --help >help
	local c
	for c in $COMMANDS; do
		grep -q "^  $c " help || fail "--help does not list $c"
		collctl "$c" --help >one
		collctl help "$c" >two
		collctl --help "$c" >three
		cmp one two
		cmp one three
		head -n 1 one | grep -q "^Usage: collctl $c"
	done
}

@test "version: libraries, the processor's features, and as JSON" {
	export COLLCTL_PLUGIN_PATH=/none.so # there may be a GPU here
	run -0 --separate-stderr collctl version
	assert_line --index 0 "$(collctl --version)"
	assert_line --regexp '^openssl +[0-9]'
	assert_line --regexp '^libzip +([0-9]|not usable here \(needed for \.npz\))'
	assert_line --regexp '^libzstd +([0-9]|not usable here \(needed for compressed pieces\))'
	assert_line --regexp '^processor'
	assert_line --regexp "^system +Linux $(uname -r) $(uname -m)"
	assert_line --regexp "^limits +$(nproc) processor.*memory, $(ulimit -Hn) open files$"
	assert_line --regexp '^protocol +[0-9]+$'
	[[ $output == *'bug report needs'* ]]
	assert_line --regexp '^GPU plug-in +none: the plug-in /none.so cannot be read: No such file or directory$'
	run -0 --separate-stderr collctl version --json
	assert_equal "$(jq -c 'map_values(type)' <<<"$output")" \
		'{"command":"string","ok":"boolean","version":"string","build":"object","protocol":"number","libraries":"object","tls_records":"string","processor":"array","gpu_plugin":"null","gpu_plugin_why":"string","system":"object","error":"null"}'
	assert_equal "$(jq -r .gpu_plugin_why <<<"$output")" 'the plug-in /none.so cannot be read: No such file or directory'
	assert_equal "$(jq .system.processors <<<"$output")" "$(nproc)"
	assert_equal "$(jq -c '.libraries | keys' <<<"$output")" \
		'["glibc","ipsec-mb","jansson","libcurl","libmicrohttpd","libzip","libzstd","openssl","xxhash"]'
	if [[ $(uname -m) == x86_64 ]] && grep -qw avx2 /proc/cpuinfo; then
		jq -e '.processor | index("avx2")' <<<"$output"
	fi
	usage_error "'x' is one operand too many" version x
}

# bats test_tags=smoke
@test "usage errors exit 2 and name what is wrong" {
	usage_error 'frobnicate: unknown command' frobnicate
	usage_error 'did you mean allreduce?' alreduce x
	usage_error '--frobnicate: unknown option' allreduce --frobnicate x
	usage_error 'did you mean --timeout?' barrier --timout 3
	usage_error '--op is not an option of barrier' barrier --op sum
	usage_error '--op goes after COMMAND' --op sum barrier
	usage_error "--timeout: 'soon'" barrier --timeout soon
	usage_error "-n: '0'" barrier -n 0
	usage_error '-n needs an argument' barrier -n
	usage_error 'too few operands' allreduce -o out.npy
	usage_error 'too few operands' gather -o out.npy
	usage_error "'b.npy' is one operand too many" scan a.npy b.npy -o out.npy
	usage_error '--op is not an option of broadcast' broadcast --op sum x -o y
	usage_error '--counts is not an option of gather' gather --counts 1 x -o y
	usage_error '--raw-file is not an option of scatter' scatter --raw-file x -o y
	usage_error '-o is not an option of exchange' exchange --steps 1 x -o y
	usage_error "--base: '1' is not a number from 2" allgather --base 1 x -o y
	usage_error 'no output: give -o FILE' alltoall -n 2 -r 0 x
	usage_error 'allgather has no algorithm' allgather -a direkt x -o y
	usage_error "'file' is one operand too many" barrier file
	usage_error 'did you mean barrier?' help barrer
}

@test "a malformed variable is named; an empty one is unset; flags win" {
	COLLCTL_MEMORY=lots usage_error "COLLCTL_MEMORY: 'lots'" allreduce x -o y
	COLLCTL_MEMORY=lots usage_error "'file' is one operand too many" barrier file
	COLLCTL_TIMEOUT='' COLLCTL_SIZE=x usage_error "COLLCTL_SIZE: 'x'" barrier
	COLLCTL_SIZE=x usage_error "'file' is one operand too many" barrier -n 3 file
}

# bats test_tags=smoke
@test "--json, wherever it stands, prints one object for a usage error" {
	local line
	while read -r line; do
		# shellcheck disable=SC2086 # the line is words
		run -2 --separate-stderr collctl $line
		jq -es 'length == 1 and (.[0] | .ok == false and .error.code == 2 and .error.name == "usage" and
			.error.phase == "start" and .error.rank == null and (.error.message | length) > 0)' \
			<<<"$output" || fail "$line: $output"
		[[ $stderr == "collctl: $(jq -r .error.message <<<"$output")" ]]
	done <<-'EOT'
		--json
		--json frobnicate
		frobnicate --json
		--json barrier --timeout soon
		barrier --json --timeout soon
		barrier --timeout soon --json
		barrier --frobnicate --json
		--json barrier file
		allreduce x -o - --json
		--json run barrier
		--json run -n 2 nosuchprogram
		--json keygen
		keygen --json
		serve --json
		serve --listen nowhere --json
		help --json
		help --completions bash --json
	EOT
	# Every command prints a JSON value or fails with one.
	while read -r line; do
		run --separate-stderr collctl "$line" --json </dev/null
		jq -es 'length == 1' <<<"$output" >out || fail "$line: $output"
		((status == 2)) || [[ $line == @(algorithms|version) ]]
	done <<<"$(tr ' ' '\n' <<<"$COMMANDS")"
	run -2 --separate-stderr collctl --json barrier --op sum
	assert_equal "$(jq -r .command <<<"$output")" barrier
	run -2 --separate-stderr collctl --json frobnicate
	assert_equal "$(jq -r .command <<<"$output")" null
}

@test "control characters of an argument are escaped" {
	run -2 --separate-stderr collctl $'a\e[31m\nb'
	[[ $stderr == *'a\x1b[31m\x0ab'* ]]
}

@test "a full disk behind stdout is 4" {
	[[ -c /dev/full ]] || skip 'no /dev/full'
	help_to_full() { "$COLLCTL" --help >/dev/full; }
	run -4 help_to_full
	assert_output --partial stdout
	# An earlier write failed.
	plan_to_full() { "$COLLCTL" plan allreduce -n 16 >/dev/full; }
	run -4 plan_to_full
	assert_output --regexp 'stdout: .*(No space|cannot write)'
}

@test "a reader that has left ends what only prints by SIGPIPE, without a word" {
	local command
	for command in --help 'plan allreduce -n 64 --json' 'algorithms --json'; do
		# shellcheck disable=SC2086 # the command is words
		run -0 "$PYTHON" -c 'import os, signal, subprocess, sys
r, w = os.pipe()
os.close(r)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
code = subprocess.run(sys.argv[1:], stdout=w, restore_signals=True).returncode
assert code == -signal.SIGPIPE, code' "$COLLCTL" $command
		assert_output ''
	done
}

@test "without a command: 2, and how to begin" {
	run -2 --separate-stderr collctl
	assert_output ''
	[[ $stderr == "collctl: no command given; 'collctl --help' lists them"$'\n'*'collctl run -n 4 -- allreduce'* ]]
	# What it suggests runs.
	local n=0 line
	"$PYTHON" -c 'import numpy
for r in range(4): numpy.save(f"x{r}.npy", numpy.arange(5.) + r)'
	while read -r line; do
		n=$((n + 1))
		[[ $line != *host1* ]] || line="collctl run -H host1,host2 --ssh true --dry-run -- check"
		bash -c "${line/#collctl/$COLLCTL}"
	done < <(grep '^    collctl' <<<"$stderr")
	assert_equal "$n" 3
	"$PYTHON" -c 'import numpy
assert (numpy.load("avg3.npy") == numpy.arange(5.) + 1.5).all()'
}

@test "every option of every command is in the man page" {
	local c name
	collctl help --mdoc >options.mdoc
	for c in $COMMANDS; do
		collctl "$c" --help | sed -nE 's/^ {2,6}(-., )?--([a-z-]+).*/\2/p' >names
		[[ -s names ]]
		while read -r name; do
			grep -qE "Fl .-${name//-/.-}( |\$)" options.mdoc || fail "$c --$name"
		done <names
	done
}

@test "help, man page, README and docs are in plain English" {
	local c phrases='is told|of its own|of their own|be it|has to be said|who comes|not there|lanes are'
	{
		for c in '' $COMMANDS; do
			collctl help ${c:+"$c"}
		done
		collctl algorithms
		collctl help --mdoc
		cat "$ROOT"/{README.md,docs/{guide,tutorial,recipes,comparison}.md,man/*.1.in}
	} >text
	# A phrase may be broken across lines.
	tr -s ' \n' ' ' <text | grep -oiE ".{0,40}\b($phrases)\b.{0,20}" >found || return 0
	fail "$(<found)"
}

@test "bash completion offers commands, options, values and files" {
	collctl help --completions bash >collctl.bash
	touch array.npy
	complete_words() { # WORD...: what is offered for the last one
		bash -c '. ./collctl.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
			compopt() { :; }; _collctl; printf "%s\n" "${COMPREPLY[@]}"' - collctl "$@"
	}
	assert_equal "$(complete_words allr)" allreduce
	assert_equal "$(complete_words allreduce --ord)" --order
	assert_equal "$(complete_words allreduce --order r)" rank
	assert_equal "$(complete_words broadcast --raw)" --raw-file
	assert_equal "$(complete_words allgather -a sp)" sparbit
	assert_equal "$(complete_words run -n 2 allreduce --allow)" --allow-divergent
	assert_equal "$(complete_words allreduce arr)" array.npy
	complete_words allreduce -a '' | grep -qx auto
	complete_words plan '' | grep -qx allreduce
	assert_equal "$(complete_words bench allr)" allreduce
	assert_equal "$(complete_words algorithms allr)" allreduce
	assert_equal "$(complete_words ca is)" issue
	assert_equal "$(complete_words ca init arr)" array.npy
	# The list has every option.
	collctl barrier --help | sed -nE 's/^ {2,6}(-., )?(--[a-z-]+).*/\2/p' | sort >want
	complete_words barrier -- | sort >got
	diff want got
}

@test "bash completes behind '=', and the command of run" {
	collctl help --completions bash >collctl.bash
	complete_words() { # BREAKS WORD...
		bash -c '. ./collctl.bash; COMP_WORDBREAKS=$1; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
			compopt() { :; }; _collctl; printf "%s\n" "${COMPREPLY[@]}"' - "$@"
	}
	# bash splits a word at '=' by default.
	assert_equal "$(complete_words '=' collctl allreduce --progress = | xargs)" 'auto always never json'
	assert_equal "$(complete_words '=' collctl allreduce --progress = al)" always
	assert_equal "$(complete_words '' collctl allreduce --progress=al)" --progress=always
	assert_equal "$(complete_words '=' collctl run -n 4 -- allred)" allreduce
	assert_equal "$(complete_words '=' collctl run -n 4 -- allreduce --order = r)" rank
	assert_equal "$(complete_words '=' collctl run -n 4 -- allreduce --progr)" --progress
	# The same as bash itself calls it.
	need_terminal
	cat >keys <<-'SH'
		. ./collctl.bash
		collctl() { printf '<%s>\n' "$@"; }
		collctl run -n 4 -- allred	--progress=js	
	SH
	script -qec 'bash --norc --noprofile -i' /dev/null <keys >typed 2>&1 || true
	grep -q '<--progress=json>' typed || fail "$(cat -v typed)"
}

# offers SHELL LINE: the completions of SHELL for the end of LINE
offers() {
	# shellcheck disable=SC2016
	case $1 in
	fish) HOME=$PWD fish --no-config -c 'source collctl.fish; complete -C "$argv[1]"' "$2" | cut -f1 ;;
	zsh) timeout 100 zsh -f "$HELPERS_DIR/complete.zsh" "$PWD" "$2" ;;
	esac
}

# check_shell SHELL: the commands, options, values and files, also after `run -n N --`
check_shell() {
	local run
	for run in '' 'run -n 4 ' 'run -n 4 -- '; do
		assert_equal "$(offers "$1" "collctl ${run}allr")" allreduce
		assert_equal "$(offers "$1" "collctl ${run}allreduce --ord")" --order
		assert_equal "$(offers "$1" "collctl ${run}broadcast -a bino")" binomial
		assert_equal "$(offers "$1" "collctl ${run}info arr")" array.npy
	done
	assert_equal "$(offers "$1" 'collctl run -n 4 -- allreduce --order r')" rank
	assert_equal "$(offers "$1" 'collctl run --lab')" --label
	assert_equal "$(offers "$1" 'collctl plan alltoa')" alltoall
	offers "$1" 'collctl allreduce --progress=al' | grep -qxE '(--progress=)?always'
}

@test "fish completes, also the command of run" {
	command -v fish >/dev/null || skip 'no fish here'
	collctl help --completions fish >collctl.fish
	touch array.npy
	fish -n collctl.fish
	check_shell fish
}

@test "zsh completes, also the command of run" {
	need_terminal
	command -v zsh >/dev/null || skip 'no zsh here'
	collctl help --completions zsh >_collctl
	touch array.npy
	zsh -n _collctl
	check_shell zsh
}

@test "make install puts completions where the shells of the prefix look" {
	command -v make >/dev/null || skip 'no make here'
	local want
	for prefix in /usr /usr/local; do
		want=site-functions
		[[ $prefix != /usr ]] || want=vendor-completions
		make -s -n -C "$HELPERS_DIR/../.." install PREFIX=$prefix DESTDIR="$PWD/there" >steps
		grep -q "there$prefix/share/zsh/$want/_collctl" steps || fail "$(<steps)"
		grep -q "there$prefix/share/fish/vendor_completions.d/collctl.fish" steps
		grep -q "there$prefix/share/bash-completion/completions/collctl" steps
	done
}

@test "make without a header names the package and make deps, before it compiles anything" {
	command -v make >/dev/null || skip 'no make here'
	pkg-config --exists jansson libcurl openssl || skip 'no headers of the libraries here: nothing is built'
	cat >without <<-'SH'
		#!/bin/sh
		case " $* " in
		*' -E '*) sed '/jansson.h/s/.*/#error none/' | cc "$@" ;;
		*) exec cc "$@" ;;
		esac
	SH
	chmod +x without
	run make -C "$HELPERS_DIR/../.." BUILD="$PWD/build" CC="$PWD/without"
	assert_failure
	assert_output --partial "packages that the build needs are missing: libjansson-dev (Debian's names); 'make deps' installs them"
	refute_output --partial 'fatal error'
	assert_dir_not_exist build/cmd
}

@test "make with other flags compiles again, with the same flags it does not" {
	command -v make >/dev/null || skip 'no make here'
	pkg-config --exists jansson libcurl openssl || skip 'no headers of the libraries here: nothing is built'
	local object=$PWD/build/lib/base/sort.o
	compile() { run -0 make -C "$HELPERS_DIR/../.." BUILD="$PWD/build" V=1 "$@" "$object"; }
	compile
	compile CFLAGS=-O1
	assert_output --partial ' -O1 '
	compile CFLAGS=-O1
	refute_output --partial ' -O1 '
}

@test "make help lists every target" {
	command -v make >/dev/null || skip 'no make here'
	cd "$HELPERS_DIR/../.."
	run -0 make -s help
	sed -nE 's/^\.PHONY: //p' Makefile ./*.mk tests/*.mk tests/*/*.mk | tr ' ' '\n' | grep -vxE 'all|help|FORCE' |
		while read -r target; do
			grep -qE "(make |[(: ])$target\b|${target%-*} .*[(:, ]$target\b" <<<"$output" || fail "make $target"
		done
	for variable in PREFIX DESTDIR BUILD CC CFLAGS CPPFLAGS LDFLAGS SANITIZE WERROR V FUZZ_SECONDS; do
		assert_output --regexp "[ (]$variable\b"
	done
}
