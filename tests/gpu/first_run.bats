#!/usr/bin/env bats
# tests/gpu/first-run.sh over the stand-in: each step, the results and the page; a step that fails, hangs or lacks something.

load ../cli/helpers

setup() {
	common_setup
	use_standin 2 COLLCTL_STANDIN_PEERS=1
	use_nccl
}

# first_run [OPTIONS...]: with the stand-in, into the folder `out`
first_run() {
	run env PYTHON="$PYTHON" "$ROOT/tests/gpu/first-run.sh" --plugin "$COLLCTL_PLUGIN_PATH" --small --out out "$@"
}

# states: "NAME STATE" of each step
states() { jq -r '.steps[] | .name + " " + .state' out/results.json; }

@test "each step runs, and is in the results and on the page" {
	local torch=skipped tables=6 name
	! "$PYTHON" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || torch=passed tables=7
	# It stands for NVIDIA's: it runs the program.
	mkdir bin
	cat >bin/compute-sanitizer <<-'SH'
		#!/usr/bin/env bash
		exec "${@:7}"
	SH
	chmod +x bin/compute-sanitizer
	PATH=$PWD/bin:$PATH first_run
	assert_equal "$(states)" "versions passed
check passed
bench passed
overlap passed
nccl passed
torch $torch
sanitizer passed
jobs passed" || fail "$output $(tail -n 5 out/*.log)"
	assert_success
	jq -e '[.steps[] | select(.limit > 0 and .seconds > 0 and .exit_code == 0)] | length >= 7' out/results.json
	jq -e '.steps | map({(.name): .figures}) | add |
		.check.folds > 0 and .check.failed == [] and (.bench.rows | length) > 60 and (.bench.rows | all(.gbs > 0 and .of > 0)) and
		(.overlap.rows | length) == 4 and (.overlap.rows | all(.run <= .job and .ratio > 0)) and
		.nccl.reductions > 0 and .nccl.version == "2.18.0" and .jobs.passed > 0 and .jobs.failed == [] and
		(.versions["plug-in"] | startswith("stand-in, "))' out/results.json || fail "$(<out/results.json)"
	"$PYTHON" "$ROOT/tests/gpu/first_run.py" --page out/results.json | cmp - out/page.md
	while read -r name; do
		grep -qxF "## $name" out/page.md || fail "no $name: $(<out/page.md)"
	done < <(jq -r '.steps[].title' out/results.json)
	cmark-gfm -e table --unsafe out/page.md >page.html
	assert_equal "$(grep -c '<table>' page.html)" $tables
	# Nothing else is left.
	assert_only_files out/{versions,check,bench,overlap,nccl,torch,sanitizer,jobs}.log out/results.json out/page.md bin/compute-sanitizer page.html
}

@test "a step that fails does not stop the next, and the page has its last lines" {
	COLLCTL_STANDIN_FAIL=3 first_run --only bench --only nccl --only versions
	assert_failure 1
	assert_equal "$(states)" $'versions passed\nbench failed\nnccl failed'
	jq -e '.steps[1].last_lines[-1] | contains("launch failed (stand-in)")' out/results.json
	grep -q '^a task failed: .*launch failed (stand-in)' out/page.md
}

@test "a step that outlasts its limit is ended" {
	COLLCTL_STANDIN_HANG=3 first_run --limit 4 --only check --only versions
	assert_failure 1
	assert_equal "$(states)" $'versions passed\ncheck over-time'
	grep -qE 'over-time, exit code (124|137), after .* of 4 s' out/page.md
}

@test "without a device: 77, and all but the versions are skipped" {
	COLLCTL_STANDIN_DEVICES=0 first_run
	assert_failure 77
	jq -e '.steps | length == 8 and .[0].state == "passed" and (.[1:] | all(.state == "skipped" and (.why | contains("0 devices"))))' out/results.json || fail "$(<out/results.json)"
	COLLCTL_STANDIN_DRIVER=no first_run --only check --only bench
	assert_failure 77
	jq -e '.steps | length == 2 and all(.why | contains("no NVIDIA driver"))' out/results.json || fail "$(<out/results.json)"
}

@test "options that are wrong: 2, and the folder is as it was; other files in it stay" {
	local words
	mkdir out
	touch out/mine.log out/check.log
	for words in '--only none' '--limit 0' '--limit 4s' '--other'; do
		# shellcheck disable=SC2086
		first_run $words
		assert_failure 2
	done
	assert_only_files out/mine.log out/check.log
	COLLCTL_STANDIN_DEVICES=0 first_run --only versions
	assert_failure 77
	assert_only_files out/mine.log out/versions.log out/results.json out/page.md
}

@test "a step that is ended while it prints its figures: the others are in the results" {
	mkdir out
	printf 'versions\tpassed\t0\t20\t1 2\tVersions\nnccl\tover-time\t124\t40\t2 42\tNCCL\n' >out/steps
	echo 'system: Linux' >out/versions.log
	printf 'cpu: {}\nnccl: {"device": {"mem' >out/nccl.log
	"$PYTHON" "$ROOT/tests/gpu/first_run.py" out
	jq -e '.steps[0].figures.system == ["Linux"] and .steps[1].figures == null' out/results.json
	grep -q '^over-time, exit code 124' out/page.md
}
