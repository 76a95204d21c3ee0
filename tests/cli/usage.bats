#!/usr/bin/env bats
# The command line: help, what is refused and how, JSON failures, completions and the man page.

load helpers

COMMANDS='allreduce reduce reduce-scatter broadcast scatter gather allgather alltoall scan exscan exchange
	barrier bench run serve plan algorithms info verify keygen'

# usage_error TEXT ARGS...: exit code 2, one line on stderr that holds TEXT, nothing on stdout
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

# bats test_tags=smoke
@test "usage errors exit 2 and name what is wrong" {
	usage_error 'no command given'
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
	EOT
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
}

@test "a reader of stdout that has left is 4, not a signal" {
	run -4 "$PYTHON" -c 'import os, subprocess, sys
r, w = os.pipe()
os.close(r)
sys.exit(subprocess.run([sys.argv[1], "--help"], stdout=w).returncode)' "$COLLCTL"
	assert_output --partial 'Broken pipe'
}

@test "every option of every command is in the man page" {
	local c name
	collctl help --mdoc >options.mdoc
	for c in $COMMANDS; do
		collctl "$c" --help | sed -nE 's/^ +(-., )?--([a-z-]+).*/\2/p' >names
		[[ -s names ]]
		while read -r name; do
			grep -qE "Fl .-${name//-/.-}( |\$)" options.mdoc || fail "$c --$name"
		done <names
	done
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
	# No option is forgotten.
	collctl barrier --help | sed -nE 's/^ +(-., )?(--[a-z-]+).*/\2/p' | sort >want
	complete_words barrier -- | sort >got
	diff want got
}

@test "zsh and fish take their completions" {
	local shell
	for shell in zsh fish; do
		collctl help --completions $shell >script.$shell
		grep -q -e --join-timeout -e 'l join-timeout' script.$shell
		! command -v $shell >/dev/null || $shell -n script.$shell
	done
}
