#!/usr/bin/env bats
# --dry-run: the ranks agree and say what they would do; nothing moves, and no file changes.

load helpers

ck() { "$PYTHON" -B "$HELPERS_DIR/checkpoint.py" "$@"; }

setup() {
	common_setup
	export COLLCTL_NO_SYNC=1
	mkdir outs
}

# Everything below the test's folder, but for what the test itself writes.
state() { find . -mindepth 1 ! -name 'dry*' ! -name 'real*' ! -name 'separate-stderr-*' -printf '%p %y %i %s %m %T@ %C@\n' | sort; }

# numbers FILE: what the JSON objects of a dry run and of the job itself have in common
# A dry run connects nothing, so it has no lanes.
numbers() { jq -Ss 'sort_by(.rank) | map(del(.seconds, .bandwidth, .algbw, .busbw, .digest, .dry_run, .lanes, .where))' "$1"; }

# dry P ARGS...: a dry run of P ranks, which leaves all files as they are: dry has the JSON objects
dry() {
	local size=$1 before
	shift
	before=$(state)
	collctl run -n "$size" -- "$@" --dry-run --json >dry 2>dry.err || fail "$*: $(<dry.err)"
	diff <(echo "$before") <(state)
	[[ $(jq -s length dry) == "$size" ]]
	jq -e '.ok and .dry_run and .digest == null and .seconds.run == 0' dry >dry.ok || fail "$(<dry)"
}

# foreseen P ARGS...: a dry run and then the job, which does what was foreseen
foreseen() {
	local size=$1
	dry "$@"
	shift
	collctl run -n "$size" -- "$@" --json >real
	diff <(numbers dry) <(numbers real)
	# The files are there, with the sizes that were foreseen.
	jq -r '.dry_run.outputs[] | select(.action == "create" or .action == "replace" or .action == "keep") | "\(.bytes) \(.file)"' dry >dry.files
	while read -r bytes file; do
		[[ $bytes == null && -s $file ]] || [[ $bytes == "$(stat -c %s "$file")" ]] || fail "$file: not $bytes bytes"
	done <dry.files
}

# actions: what would be done with the outputs of all ranks, in the order of the ranks
actions() { jq -rs 'sort_by(.rank) | map(.dry_run.outputs[] | .action + " " + .file)[]' dry; }

# bats test_tags=smoke
@test "allreduce by several algorithms, in windows" {
	local a
	make_shards 3 i32 60001
	for a in auto ring direct recursive_doubling; do
		rm -f outs/*
		foreseen 3 allreduce -a "$a" 'in.{rank}.npy' -o 'outs/out.{rank}.npy'
		assert_equal "$(actions)" $'create outs/out.0.npy\ncreate outs/out.1.npy\ncreate outs/out.2.npy'
		foreseen 3 allreduce -a "$a" --memory 128K --streams 2 'in.{rank}.npy' -o 'outs/out.{rank}.npy'
		assert_equal "$(actions)" $'replace outs/out.0.npy\nreplace outs/out.1.npy\nreplace outs/out.2.npy'
		jq -e '.windows > 1 and .streams == 2 and .bytes_sent >= 200000 and .peers > 0' dry
	done
}

@test "every other collective, with the bytes of each rank" {
	local kind
	make_shards 4 f32 24,5
	for kind in reduce reduce-scatter broadcast scatter gather allgather alltoall scan exscan; do
		foreseen 4 "$kind" 'in.{rank}.npy' -o "outs/$kind.{rank}.npy"
	done
	foreseen 4 exchange --steps 2 'in.{rank}.npy'
	dry 4 gather --root 2 'in.{rank}.npy' -o 'outs/gathered.npy'
	jq -se 'sort_by(.rank) | map(.dry_run | [.bytes_read, .bytes_written]) == [[480, 0], [480, 0], [480, 1920], [480, 0]]' dry
	jq -se 'sort_by(.rank) | map(.dry_run.outputs | length) == [0, 0, 1, 0]' dry
	foreseen 1 allreduce in.0.npy in.1.npy -o outs/one.npy -o outs/two.npy
	jq -e '.dry_run.bytes_read == 960 and .dry_run.bytes_written == 960 and .peers == 0' dry
	dry 3 reduce-scatter 'in.{rank}.npy' -o 'outs/part.{rank}.npy'
	jq -se 'map(.dry_run.bytes_written) | add == 480' dry
}

@test "types that are sent as wider ones, and arrays in Fortran order" {
	make_shards 2 f16 40,30
	foreseen 2 allreduce --op avg --weight 3 'in.{rank}.npy' -o 'outs/{rank}.npy'
	jq -e '.algorithm as $algorithm | (.dry_run.vectors | map(del(.predicted))) == [{algorithm: $algorithm, dtype: "f16", wire: "f32", output_dtype: "f16", count: 1200, bytes: 2400, windows: 1}]' dry
	"$PYTHON" -c 'import numpy as np
for r in range(2): np.save(f"in.{r}.npy", np.asfortranarray(np.load(f"in.{r}.npy")))'
	foreseen 2 allreduce 'in.{rank}.npy' -o 'outs/{rank}.npy'
	foreseen 2 allgather 'in.{rank}.npy' -o 'outs/all.{rank}.npy'
	make_shards 1 f16 40,30
	foreseen 2 allreduce 'in.{rank}.npy' -o 'outs/{rank}.npy'
}

@test "checkpoints: files, sets and archives" {
	ck make mixed 2
	foreseen 2 allreduce --op avg --integers first 'in.{rank}.safetensors' -o 'outs/out.{rank}.safetensors'
	jq -e '.dtype == "mixed" and (.dry_run.vectors | length > 5) and .tensors > 5' dry
	ck make two 2 --in 'set.{rank}' --shards 3
	foreseen 2 allreduce 'set.{rank}' -o 'outs/set.{rank}'
	jq -e '.dry_run.outputs | map(.action) == ["create", "create", "create", "create"]' dry
	foreseen 2 broadcast set.0 -o 'outs/copy.{rank}/'
	foreseen 2 broadcast set.0 --include '*' -o 'outs/chosen.{rank}/'
	"$PYTHON" -c 'import numpy as np; np.savez_compressed("a.npz", a=np.arange(100000), b=np.ones((300, 200), "f4"))'
	foreseen 2 allreduce a.npz -o 'outs/out.{rank}.npz'
	jq -e '.dry_run.outputs | map(.bytes) == [null]' dry
}

@test "--each, trees, outputs that are inputs, and outputs that several ranks name" {
	make_shards 2 i32 9
	foreseen 2 allreduce --each in.0.npy in.1.npy -o 'outs/sums.{rank}'
	[[ $(actions) == $'create outs/sums.0/in.0.npy\ncreate outs/sums.0/in.1.npy\n'* ]]
	mkdir -p tree/empty tree/sub
	: >tree/a
	echo b >tree/sub/b
	foreseen 2 broadcast --raw-file --times tree -o 'outs/tree.{rank}'
	[[ $(actions) == *$'create outs/tree.1/a\ncreate outs/tree.1/sub/b' ]]
	foreseen 2 broadcast --raw-file in.0.npy -o in.0.npy
	assert_equal "$(actions)" $'keep in.0.npy\nleave in.0.npy'
	foreseen 2 allreduce 'in.{rank}.npy' -o outs/same.npy
	assert_equal "$(actions)" $'create outs/same.npy\nleave outs/same.npy'
}

@test "what it prints" {
	make_shards 2 f32 1024
	echo old >outs/1.npy
	run -0 --separate-stderr collctl run -n 2 -- allreduce --dry-run --explain 'in.{rank}.npy' -o 'outs/{rank}.npy'
	[[ -z $output ]]
	[[ $stderr == *'ms predicted'* ]]
	[[ $stderr == *'rank 0: dry run: allreduce sum of 2 ranks'* ]]
	[[ $stderr == *'rank 1: 4.0 KiB of f32 by '*', in 1 window'* ]]
	[[ $stderr == *'rank 1: would read 4.0 KiB, write 4.0 KiB, and exchange data with 1 rank: send '* ]]
	[[ $stderr == *'rank 0: would create outs/0.npy'* && $stderr == *'rank 1: would replace outs/1.npy'* ]]
	run -0 --separate-stderr collctl run -n 2 -- allreduce -q --dry-run 'in.{rank}.npy' -o 'outs/{rank}.npy'
	[[ -z $output$stderr ]]
	run -0 --separate-stderr collctl allreduce -n 1 --dry-run --stats in.0.npy -o -
	[[ -z $output && $stderr == *'would write to stdout'* && $stderr != *NaN* ]]
}

@test "the job, --dry-run, --explain and plan name the same algorithm and the same prediction" {
	make_shards 4 f32 40,500
	local job plan ms
	# shellcheck disable=SC2016 # for the ranks' shells
	local rank='COLLCTL_HOST_ID=h$((COLLCTL_RANK * HOSTS / COLLCTL_SIZE)) exec "$COLLCTL_BIN" "$@" --json >j.$COLLCTL_RANK'
	export COLLCTL_BIN=$COLLCTL HOSTS
	for HOSTS in 1 2; do
		while read -r job; do
			# shellcheck disable=SC2086 # words
			collctl run -n 4 -- bash -c "$rank" - $job 'in.{rank}.npy' -o 'outs/{rank}.npy' --explain --dry-run 2>err || fail "$(<err)"
			plan=$(sed -n 's/.*this prints the schedules: collctl plan //p' err)
			# shellcheck disable=SC2086
			collctl plan $plan --json >plan.json
			jq -es '.[0] as $job | .[1] as $plan | $job.algorithm == $plan.algorithm and $job.dry_run.vectors[0].predicted == $job.predicted and
				($job.predicted / $plan.predicted.formula - 1 | fabs < 1e-5)' j.0 plan.json || fail "$job, $HOSTS hosts: $plan: $(jq -c '[.algorithm, .predicted]' j.0 plan.json)"
			ms=$(jq '.predicted.formula * 1e6 + 0.5 | floor' plan.json)
			grep -qF "$(jq -r .algorithm plan.json) " <(grep -E " $((ms / 1000))\\.$(printf %03d $((ms % 1000))) ms predicted, chosen" err) || fail "$job, $ms us: $(<err)"
		done <<-'EOT'
			allreduce --dtype f32
			allreduce -a auto --op max --lanes tcp
			broadcast --root 1
			gather --insecure
			reduce --order rank --root 3
			alltoall -a direct
		EOT
	done
	# The job itself, and with --algorithm; another rank does not plan.
	collctl run -n 4 -- allreduce -a ring --allow-divergent --json 'in.{rank}.npy' -o 'outs/{rank}.npy' >j
	collctl plan allreduce -n 4 -a ring --allow-divergent --host-cpus "$(nproc)" --count 20000 --json >plan.json
	jq -es '.[4].predicted.formula as $p | (.[0].predicted / $p - 1 | fabs < 1e-5) and .[1].predicted == null' j plan.json
}

@test "pipes are refused, and nothing is read from them" {
	make_shards 1 f32 100
	run -2 --separate-stderr collctl allreduce -n 1 --dry-run - -o outs/o.npy <in.0.npy
	[[ $stderr == *'stdin: --dry-run would consume it: name a file'* ]]
	{
		collctl allreduce -n 1 --dry-run - -o outs/o.npy 2>/dev/null || [[ $? == 2 ]]
		cmp - in.0.npy
	} < <(cat in.0.npy)
	mkfifo p.npy
	run -2 --separate-stderr collctl allreduce -n 1 --dry-run p.npy -o outs/o.npy
	[[ $stderr == *'p.npy: --dry-run would consume it (it is a pipe)'* ]]
	assert_equal "$(ls outs)" ''
}

@test "all ranks must give it" {
	make_shards 3 f32 100
	make_secret
	start_serve
	rank 0 3 allreduce in.0.npy -o outs/0.npy --dry-run
	rank 1 3 allreduce in.1.npy -o outs/1.npy
	rank 2 3 allreduce in.2.npy -o outs/2.npy --dry-run
	wait_ranks
	assert_ranks 3 7 'rank 1: ' '--dry-run'
	assert_equal "$(ls outs)" ''
}

@test "what the job itself would fail with" {
	make_shards 2 f32 10,3
	mkdir outs/folder.npy more
	ln -s nowhere outs/link.npy
	cp in.0.npy more
	# fails CODE TEXT ARGS...: the dry run, which changes nothing, and the job
	fails() {
		local before
		before=$(state)
		run "-$1" --separate-stderr collctl run -n 2 -- "${@:3}" --dry-run
		[[ $stderr == *"$2"* ]] || fail "$stderr"
		diff <(echo "$before") <(state)
		run "-$1" --separate-stderr collctl run -n 2 -- "${@:3}"
		[[ $stderr == *"$2"* ]] || fail "the job itself: $stderr"
	}
	fails 4 "no/out.npy: cannot open the folder 'no'" gather 'in.{rank}.npy' -o no/out.npy
	fails 4 'outs/folder.npy: is a directory' allreduce 'in.{rank}.npy' -o outs/folder.npy
	fails 4 'outs/link.npy: is a symbolic link' allreduce 'in.{rank}.npy' -o outs/link.npy
	fails 4 'in.0.npy: is a file: expected a folder' allreduce --each in.0.npy in.1.npy -o in.0.npy
	fails 4 'no/deep: cannot create the folder' allreduce --each in.0.npy in.1.npy -o no/deep
	fails 2 'is given as output twice' allreduce in.0.npy in.1.npy -o outs/a.npy -o outs/../outs/a.npy
	fails 2 'in.0.npy: is given as output twice' allreduce --each in.0.npy more/in.0.npy -o outs/new
	fails 3 'absent.npy: cannot open' allreduce absent.npy -o outs/a.npy
	fails 2 '--allow-divergent' allreduce -a ring 'in.{rank}.npy' -o 'outs/{rank}.npy'
	make_shard in.1.npy f32 3,10 1
	fails 7 'in.1.npy: shape' allreduce 'in.{rank}.npy' -o 'outs/{rank}.npy'
}

@test "a folder without permission to write" {
	((EUID)) || skip 'root may write anywhere'
	make_shards 2 f32 10
	mkdir locked
	chmod 555 locked
	run -4 --separate-stderr collctl run -n 2 -- allreduce --dry-run 'in.{rank}.npy' -o locked/a.npy
	[[ $stderr == *'locked/a.npy: cannot create a file in its folder'* ]]
	run -4 --separate-stderr collctl run -n 2 -- allreduce --dry-run --each 'in.{rank}.npy' -o locked/sub
	[[ $stderr == *'locked/sub: cannot create the folder'* ]]
}

@test "no rank listens for data or connects to another" {
	make_shards 2 f32 10
	run -0 --separate-stderr collctl run -n 2 -- allreduce -vv --dry-run 'in.{rank}.npy' -o 'outs/{rank}.npy'
	[[ $stderr != *'sending to'* && $stderr != *'phase connect'* ]] || fail "$stderr"
	run -2 --separate-stderr collctl barrier -n 1 --dry-run
}
