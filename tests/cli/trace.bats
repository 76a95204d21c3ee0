#!/usr/bin/env bats
# --trace and --trace-svg: what the ranks of a job did, on one time axis.

load helpers

# inputs P COUNT
inputs() {
	local r
	for ((r = 0; r < $1; r++)); do
		"$PYTHON" -c "import numpy as np; np.save('in.$r.npy', np.random.default_rng($r).standard_normal($2, dtype=np.float32))"
	done
}

# check_trace FILE P RESULTS: the facts of the trace against the ranks' JSON results
check_trace() { "$PYTHON" "$ROOT/tests/cli/trace.py" "$@"; }

@test "the trace has every message, window and byte of the job, and the outputs are the same" {
	local options
	inputs 4 400003
	collctl run -n 4 -- allreduce -a circulant --no-sync 'in.{rank}.npy' -o 'want.{rank}.npy' 2>/dev/null
	for options in '' '--lanes tcp' '--lanes tcp --insecure' '--streams 2 --threads 2' '--memory 1M'; do
		# shellcheck disable=SC2086
		collctl run -n 4 -- allreduce -a circulant --json --no-sync --force $options --trace t.json --trace-svg t.svg \
			'in.{rank}.npy' -o 'out.{rank}.npy' >results || fail "$options"
		check_trace t.json 4 results || fail "$options"
		xmllint --noout t.svg
		grep -q 'allreduce circulant, 4 ranks' t.svg
		every cmp 0 3 want out
		rm t.json t.svg
	done
}

# every cmp FROM TO A B: A.r.npy and B.r.npy are equal
every() {
	local r
	for ((r = $2; r <= $3; r++)); do
		cmp "$4.$r.npy" "$5.$r.npy"
	done
}

@test "other collectives, several files, one rank" {
	inputs 3 20011
	local kind
	for kind in alltoall allgather scan reduce-scatter; do
		collctl run -n 3 -- $kind --json --no-sync --force --trace t.json 'in.{rank}.npy' -o 'out.{rank}.npy' >results
		check_trace t.json 3 results || fail $kind
	done
	collctl run -n 3 -- broadcast --json --no-sync --force --trace t.json --trace-svg t.svg in.0.npy -o 'out.{rank}.npy' >results
	check_trace t.json 3 results
	mkdir outs.0 outs.1 outs.2
	collctl run -n 3 -- allreduce --each --json --no-sync --trace t.json in.0.npy in.1.npy -o 'outs.{rank}' >results
	check_trace t.json 3 results
	collctl allreduce -n 1 --json --trace t.json --trace-svg t.svg in.0.npy in.1.npy -o one.npy >results
	check_trace t.json 1 results
	xmllint --noout t.svg
}

@test "a local step that is done in pieces: each has its own bytes" {
	truncate -s 16M zeros.0.raw zeros.1.raw
	collctl allreduce -n 1 --no-sync --dtype f32 --trace t.json zeros.0.raw zeros.1.raw -o sum.raw
	assert_equal "$(jq '[.traceEvents[] | select(.name == "add").args.bytes] | add' t.json)" $((16 << 20))
}

@test "more than 64 ranks are drawn as a map" {
	inputs 1 997
	collctl run -n 65 -- broadcast --no-sync --trace-svg t.svg in.0.npy -o 'out.{rank}.npy' 2>/dev/null
	xmllint --noout t.svg
	grep -q 'row: from rank, column: to rank' t.svg
}

@test "only rank 0 writes; a rank that asks in vain says so" {
	inputs 2 1000
	start_serve
	make_secret
	rank 0 2 allreduce --trace zero.json in.0.npy -o out.0.npy
	rank 1 2 allreduce in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 0
	[[ -s zero.json ]]
	JOB=other rank 0 2 allreduce in.0.npy --force -o out.0.npy
	JOB=other rank 1 2 allreduce --trace one.json in.1.npy --force -o out.1.npy
	wait_ranks
	assert_ranks 2 0
	assert_rank 1 0 'nothing is traced: rank 0 must be given --trace'
	[[ ! -e one.json ]]
}

@test "a file that cannot be written fails the job before data move, and a failed job leaves none" {
	inputs 2 1000
	run ! collctl run -n 2 -- allreduce --trace none/t.json 'in.{rank}.npy' -o 'out.{rank}.npy'
	[[ $output == *'none/t.json'* ]] || fail "$output"
	run ! collctl run -n 2 -- allreduce --trace-svg none/t.svg 'in.{rank}.npy' -o 'out.{rank}.npy'
	[[ $output == *'none/t.svg'* ]] || fail "$output"
	rm in.1.npy
	run ! collctl run -n 2 -- allreduce --trace t.json --trace-svg t.svg 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_only_files in.0.npy
	run -2 collctl allreduce -n 1 --dry-run --trace t.json in.0.npy -o out.npy
	[[ $output == *'no data move, so there is no --trace'* ]] || fail "$output"
}

@test "a trace is refused the name of an input, an output, the other trace, and stdout" {
	inputs 3 100
	cp in.0.npy keep.npy
	ln -s . here
	refused() { # refused WHAT ARGUMENTS
		run -2 collctl "${@:2}"
		[[ $output == *"$1"* ]] || fail "$output"
	}
	refused '--trace: here/in.0.npy is an input' allreduce -n 1 --trace here/in.0.npy in.0.npy -o out.npy
	refused '--trace-svg: ./out.npy is an output' allreduce -n 1 --trace-svg ./out.npy in.0.npy -o out.npy
	refused '--trace: out.2.npy is an output' run -n 3 -- allreduce --trace out.2.npy 'in.{rank}.npy' -o 'out.{rank}.npy'
	refused '--trace: in.1.npy is an input' run -n 3 -- allreduce --trace in.1.npy 'in.{rank}.npy' -o 'out.{rank}.npy'
	refused '--trace-svg: here/t is the file of --trace' allreduce -n 1 --trace t --trace-svg here/t in.0.npy -o out.npy
	refused '--trace: - is not a file' allreduce -n 1 --trace - in.0.npy -o out.npy
	refused '--trace: its value is empty: give FILE' allreduce -n 1 --trace '' in.0.npy -o out.npy
	refused '--trace-svg: its value is empty: give FILE' allreduce -n 1 --trace-svg= in.0.npy -o out.npy
	refused '--trace-svg: - is not a file' allreduce -n 1 --trace-svg - in.0.npy -o out.npy
	cmp in.0.npy keep.npy
	assert_only_files in.0.npy in.1.npy in.2.npy keep.npy
	mkdir other
	collctl allreduce -n 1 --no-sync --trace other/out.npy in.0.npy -o out.npy
	cmp out.npy in.0.npy
}

@test "a trace by a link, or by a hard link, is refused the files of the job; nothing is lost" {
	local option name
	inputs 3 100
	mkdir keep set out1 sub
	cp in.*.npy keep
	cp in.0.npy in.9.npy
	ln -s in.0.npy to-input
	ln -s in.1.npy to-input-of-1
	ln in.2.npy hard
	ln -s sub/../to-input twice
	ln -s out.1.npy to-output
	ln -s . here
	ln -s t in.link.npy
	cp in.0.npy t
	refused() { # refused WHAT ARGUMENTS
		run -2 collctl "${@:2}"
		[[ $output == *"$1"* ]] || fail "$*: $output"
		for name in 0 1 2; do
			cmp in.$name.npy keep/in.$name.npy || fail "$*"
		done
	}
	for option in --trace --trace-svg; do
		for name in to-input to-input-of-1 hard twice here/to-input; do
			refused "$option: $name is an input" run -n 3 -- allreduce $option $name 'in.{rank}.npy' -o 'out.{rank}.npy'
		done
		refused "$option: in.1.npy is an input" allreduce -n 1 $option in.1.npy 'in.[0-2].npy' -o out.npy
		refused "$option: t is an input" allreduce -n 1 $option t in.link.npy -o out.npy
		refused "$option: to-output is an output" run -n 3 -- allreduce $option to-output 'in.{rank}.npy' -o 'out.{rank}.npy'
		refused "$option: here/out1/in.1.npy is an output" run -n 2 -- allreduce $option here/out1/in.1.npy --each \
			'in.{rank}.npy' -o 'out{rank}/'
	done
	refused '--trace-svg: t is the file of --trace' allreduce -n 1 --trace t --trace-svg t in.0.npy -o out.npy
	ln -s nothing one
	refused '--trace-svg: nothing is the file of --trace' allreduce -n 1 --trace one --trace-svg nothing in.0.npy -o out.npy
	ln -s nothing out.1.npy # of another rank, and what it points to is not there yet
	refused '--trace: nothing is an output' run -n 2 -- allreduce --force --trace nothing 'in.{rank}.npy' -o 'out.{rank}.npy'
	rm out.1.npy
	cmp t keep/in.0.npy
	[[ ! -e nothing ]]
	collctl run -n 2 -- allreduce 'in.{rank}.npy' -o 'in.{rank}.npy' # an output in place of an input
}

@test "a trace is refused the name of a shard and of an index of a set" {
	local name
	mkdir set out
	"$PYTHON" - <<-'E'
		import json, struct
		names = ["model-00001.safetensors", "model-00002.safetensors"]
		for i, name in enumerate(names):
		    head = json.dumps({f"t{i}": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
		    open(f"set/{name}", "wb").write(struct.pack("<Q", len(head)) + head + b"1234")
		json.dump({"metadata": {}, "weight_map": {f"t{i}": n for i, n in enumerate(names)}}, open("set/model.safetensors.index.json", "w"))
	E
	cp -r set keep
	for name in model-00002.safetensors model.safetensors.index.json; do
		run -2 collctl allreduce -n 1 --trace set/$name set -o out/
		[[ $output == *"--trace: set/$name is an input"* ]] || fail "$output"
		run -2 collctl allreduce -n 1 --trace out/$name set -o out/
		[[ $output == *"--trace: out/$name is an output"* ]] || fail "$output"
	done
	diff -r set keep
	assert_equal "$(ls -A out)" ''
}

@test "a trace is refused the files of --origin, --momentum and --delta, and of their folders, also by a link" {
	local name
	inputs 4 10
	cp in.2.npy origin.npy
	cp in.3.npy mom.0.npy
	cp in.3.npy mom.1.npy
	mkdir old new keep
	cp in.0.npy old/a
	cp in.1.npy new/a
	ln -s origin.npy to-origin
	ln -s old/a to-old
	cp -r origin.npy mom.1.npy old keep
	refused() { # refused WHAT ARGUMENTS
		run -2 collctl run -n 2 -- "${@:2}"
		[[ $output == *"$1: give another name"* ]] || fail "$output"
		for name in origin.npy mom.1.npy old/a; do
			cmp $name keep/$name
		done
	}
	average=(allreduce --op avg --origin origin.npy 'in.{rank}.npy' -o 'out.{rank}.npy')
	for name in origin.npy to-origin; do
		refused "--trace: $name is a file of --origin" "${average[@]}" --trace $name
	done
	refused '--trace: mom.1.npy is the file of --momentum' "${average[@]}" --outer nesterov:1,0.5 \
		--momentum 'mom.{rank}.npy' --trace mom.1.npy # of another rank
	for name in old/a to-old; do
		refused "--trace-svg: $name is a file of --delta" broadcast --raw-file --delta old new -o 'copy{rank}' --trace-svg $name
	done
	refused '--trace: old/a is a file of --delta' broadcast --raw-file --delta old/a new/a -o 'copy{rank}' --trace old/a
	[[ -L to-origin && -L to-old ]]
	collctl run -n 2 -- broadcast --raw-file --delta old new -o 'copy{rank}' --trace old/t # another name
	cmp copy1/a new/a
}

@test "a trace is refused the name of a file in the folder of another rank's output" {
	local name
	inputs 1 10
	mkdir -p tree/sub out1/sub set
	echo a >tree/a
	echo b >tree/sub/b
	echo old >out1/sub/b
	"$PYTHON" - <<-'E'
		import json, struct
		head = json.dumps({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
		open("set/a.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + b"1234")
		json.dump({"metadata": {}, "weight_map": {"t": "a.safetensors"}}, open("set/model.safetensors.index.json", "w"))
	E
	refused() { # refused TRACE ARGUMENTS
		run -2 collctl run -n 2 -- "${@:2}" --trace "$1"
		[[ $output == *"--trace: $1 is an output"* ]] || fail "$output"
	}
	for name in 'out{rank}' 'out{rank}/'; do
		refused out1/a broadcast --raw-file tree -o "$name"
		refused out1/sub/b broadcast --raw-file tree -o "$name"
		refused out1/a.safetensors allreduce set -o 'out{rank}/'
		refused out1/model.safetensors.index.json allreduce set -o 'out{rank}/'
	done
	mkdir gathered
	cp in.0.npy in.1.npy
	refused gathered/in.1.npy gather --raw-file 'in.{rank}.npy' -o gathered/ --root 1
	refused out1/model.safetensors.index.json reduce set -o 'out{rank}/' --root 1
	refused out1/a.safetensors reduce set -o 'out{rank}/' --root 1
	assert_equal "$(cat out1/sub/b)" old
	collctl run -n 2 -- broadcast --raw-file tree -o 'out{rank}/' --trace out1/sub/t # another name
	cmp out1/sub/b tree/sub/b
}

@test "no file that a job or another command writes may replace one that it reads" {
	local name
	inputs 2 10
	make_secret
	cp "$SECRET" keep
	refused() { # refused WHAT COMMAND
		run -2 "${@:2}"
		[[ $output == *"$1"* ]] || fail "$*: $output"
		cmp "$SECRET" keep || fail "$*"
	}
	ln -s job.key link
	mv "$SECRET" job.raw
	ln -s job.raw job.key
	for name in job.raw ./job.raw; do
		refused "$name: is the file of --secret-file" collctl broadcast -n 1 --secret-file job.key --raw-file in.0.npy -o $name
		refused "$name: is the file of --secret-file" collctl broadcast -n 1 --secret-file job.key --dry-run --raw-file in.0.npy -o $name
	done
	refused '--trace: link is the file of --secret-file' collctl allreduce -n 1 --secret-file job.key --trace link in.0.npy -o o.npy
	refused '--svg: link is the file of --secret-file' collctl bench allreduce -n 1 --secret-file job.key --svg link
	refused '--tuning-out: link is the file of --secret-file' collctl check -n 1 --secret-file job.key --tuning-out link
	refused '--svg: link is the file of --tuning' collctl plan allreduce -n 4 --tuning job.key --svg link
	refused '--port-file: link is the file of --token-file' collctl serve --token-file job.key --port-file link
	cp job.raw ticket
	chmod 600 ticket
	refused '--trace: ticket is the file of --ticket-file' collctl allreduce --ticket-file ticket --trace ticket in.0.npy -o o.npy
	cmp ticket keep
	refused '--tuning-out: - is not a file' collctl bench allreduce -n 1 --tuning-out -
	refused '--port-file: - is not a file' collctl serve --port-file -
	refused '--momentum: - is not a file' collctl allreduce -n 1 --op avg --origin in.1.npy --outer nesterov:1,0.5 --momentum - in.0.npy -o o.npy
	refused '--svg: t is the file of --tuning-out' collctl check -n 1 --svg t --tuning-out t
	collctl bench allreduce -n 1 --iters 1 --minbytes 4 --maxbytes 4 --tuning-out tuning
	collctl bench allreduce -n 1 --iters 1 --minbytes 4 --maxbytes 4 --tuning tuning --tuning-out tuning # the old one
}

@test "a trace that does not fit on the disk fails the job, and the old one stays" {
	inputs 2 200000
	unshare -m true 2>/dev/null || skip 'mounting needs root'
	mkdir small
	# shellcheck disable=SC2016 # for the inner shell
	run -0 unshare -m sh -c 'mount -t tmpfs -o size=16k none small && echo old >small/t.json &&
		! "$0" run -n 2 -- allreduce --memory 512K --streams 1 --trace small/t.json "in.{rank}.npy" -o "out.{rank}.npy" &&
		ls small && cat small/t.json' "$COLLCTL"
	[[ $output == *'t.json'*'No space left'*$'\nt.json\nold' ]] || fail "$output"
	assert_only_files in.0.npy in.1.npy
}

@test "a picture that does not fit on the disk fails the job, and no output changes" {
	inputs 2 200000
	unshare -m true 2>/dev/null || skip 'mounting needs root'
	mkdir small
	# shellcheck disable=SC2016 # for the inner shell
	run -0 unshare -m sh -c 'mount -t tmpfs -o size=4k none small
		"$0" run -n 2 -- allreduce --memory 512K --streams 1 --trace t.json --trace-svg small/t.svg "in.{rank}.npy" -o "out.{rank}.npy"
		[ $? = 4 ] && ls -A small' "$COLLCTL"
	[[ $output == *'rank 0: small/t.svg: '*'No space left'* ]] || fail "$output"
	assert_only_files in.0.npy in.1.npy
}

@test "hosts whose clocks differ by minutes are on one time axis" {
	unshare --time --monotonic 1000 true 2>/dev/null || skip 'no time namespaces here'
	inputs 2 200000
	start_serve
	make_secret
	local -a job=(-n 2 -R "$STORE" -j job --secret-file "$SECRET" --json --no-sync)
	spawn_rank 0 "$COLLCTL" allreduce -r 0 "${job[@]}" --trace t.json in.0.npy -o out.0.npy
	spawn_rank 1 unshare --time --monotonic 1000 "$COLLCTL" allreduce -r 1 "${job[@]}" in.1.npy -o out.1.npy
	wait_ranks
	assert_ranks 2 0
	cat 0.out 1.out >results
	check_trace t.json 2 results
	"$PYTHON" - <<'PY'
import json
t = json.load(open("t.json"))
x = [e for e in t["traceEvents"] if e["ph"] == "X"]
span = max(e["ts"] + e["dur"] for e in x) - min(e["ts"] for e in x)
assert span < 300e6, span
zero, one = t["otherData"]["clock_error_us"]
assert zero == 0 < one < 1e6, (zero, one)
runs = {e["pid"]: e for e in x if e["name"] == "run"}
ends = [runs[r]["ts"] + runs[r]["dur"] for r in (0, 1)]
assert max(runs[r]["ts"] for r in (0, 1)) < min(ends) + one, runs
PY
}
