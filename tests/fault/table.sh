#!/usr/bin/env bash
# Does docs/FAULTS.md have every row, and does each test that it names exist? `FILE: NAME` is the beginning
# of a bats test's name, or a function or class; `FILE` alone is a file.
set -euo pipefail

cd "$(dirname "$0")/../.."
table=docs/FAULTS.md
rows=93
wrong=0

complain() {
	echo "$table: $*"
	wrong=1
}

# has FILE NAME: is there such a test?
has() {
	case $1 in
	*.bats) grep -qF "@test \"$2" "$1" ;;
	*.c) grep -qE "^[A-Z_]*TEST(_WITH)?\($2[,)]|^static void $2\(void \*\*" "$1" ;;
	*.py) grep -qE "^class $2\(" "$1" ;;
	*) false ;;
	esac
}

for ((row = 1; row <= rows; row++)); do
	line=$(grep -E "^\| $row \|" "$table") || { complain "row $row is missing"; continue; }
	[[ $(wc -l <<<"$line") == 1 ]] || complain "row $row is there twice"
	tests=${line% |}
	tests=${tests##* | }
	# shellcheck disable=SC2016 # backquotes as they stand
	mapfile -t names < <(grep -oE '`tests/[^`]+`' <<<"$tests" | tr -d '`')
	((${#names[@]})) || [[ $tests == 'none yet'* ]] || complain "row $row names no test, nor does it say 'none yet'"
	for name in "${names[@]}"; do
		file=${name%%: *}
		if [[ ! -f $file ]]; then
			complain "row $row: no file $file"
		elif [[ $name == *': '* ]] && ! has "$file" "${name#*: }"; then
			complain "row $row: $file has no test '${name#*: }'"
		fi
	done
done
exit $wrong
