#!/usr/bin/env bash
# compile_commands.json, from what make would do: how each source file is compiled, for clang-tidy and editors.
#
#   tests/compdb.sh [VARIABLE=VALUE...] GOALS...     arguments of make; writes to stdout
set -euo pipefail
cd "$(dirname "$0")/.."

# A command is one line, `... -c -o OBJECT [-x LANGUAGE] SOURCE`.
"${MAKE:-make}" -nB V=1 "$@" | awk -v directory="$PWD" '
	function json(text) {
		gsub(/\\/, "\\\\", text)
		gsub(/"/, "\\\"", text)
		return "\"" text "\""
	}
	/ -c -o [^ ]+\.o (-x [^ ]+ )?[^ ]+$/ {
		printf "%s{\"directory\": %s, \"file\": %s, \"command\": %s}", n++ ? ",\n" : "[\n", json(directory), json($NF), json($0)
	}
	END {
		if (!n) exit 1
		print "\n]"
	}'
