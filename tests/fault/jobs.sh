#!/usr/bin/env bash
# Build what tests/fault/jobs.py needs and run it with the arguments given.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3
[[ -x $python ]] || python=python3
work=$(mktemp -d "${TMPDIR:-/tmp}/collctl-faults.XXXXXX")
trap 'rm -rf "$work"' EXIT

"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -o "$work/sysfault" "$here/sysfault.c"
PYTHONDONTWRITEBYTECODE=1 TMPDIR=$work "$python" "$here/jobs.py" "$work/sysfault" "$@"
