#!/usr/bin/env bats
# Headers equal those of the reference library (PyPI: safetensors), if pip can install it.

load helpers

# Before a test's environment is cleaned: pip may need a proxy.
setup_file() {
	local venv=$BATS_FILE_TMPDIR/venv
	export REFERENCE=''
	if python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q --retries 0 --timeout 10 \
		--disable-pip-version-check safetensors==0.8.0; then
		REFERENCE=$venv/bin/python
	fi >"$BATS_FILE_TMPDIR/pip" 2>&1
}

@test "headers of random tensors are read, and written as the reference library writes them" {
	[[ $REFERENCE ]] || skip "pip has no safetensors: $(tail -n 1 "$BATS_FILE_TMPDIR/pip")"
	local unit seed=$RANDOM files=100
	unit=$(dirname "$COLLCTL")/unit/test_safetensors
	((LONG == 0)) || files=3000
	echo "seed $seed"
	mkdir files
	SEED=$seed "$REFERENCE" "$ROOT/tests/golden/safetensors_files.py" files "$files"
	run env COLLCTL_GOLDEN="$PWD/files" "$unit"
	assert_success
}

@test "the golden files are what the reference library writes" {
	[[ $REFERENCE ]] || skip "pip has no safetensors: $(tail -n 1 "$BATS_FILE_TMPDIR/pip")"
	mkdir files
	"$REFERENCE" "$ROOT/tests/golden/safetensors_files.py" files
	local f
	for f in files/*; do
		cmp "$f" "$ROOT/tests/golden/${f#files/}"
	done
}
