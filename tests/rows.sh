#!/usr/bin/env bash
# A toy in each table is one file and one row: build/toys/collctl (tests/toys/toys.mk) is made of nothing
# else that the program does not have.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}/toys

bad=0
tables=0
while IFS= read -r -d '' rows; do
	tables=$((tables + 1))
	added=$(diff "${rows#"$build"/}" "$rows" | grep -cE '^[<>] [A-Z]+\(' || true)
	toys=$(git ls-files "tests/toys/$(dirname "${rows#"$build"/}")" | grep -c .)
	[[ $added == 1 && $toys == 1 ]] && continue
	echo "$rows: its toy adds $added rows and $toys files, not one of each"
	bad=1
done < <(find "$build" -name '*.h' -print0)
((tables > 0)) || { echo "$build: no tables: make unit"; exit 1; }
exit "$bad"
