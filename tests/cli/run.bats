#!/usr/bin/env bats
# run: N ranks on this host, their environment, output, exit codes and termination.

load helpers

# Ranks report by a line in the FIFO `ready` that they have started. The test opens it for writing
# too, so that it does not end between two ranks.
open_ready() {
	rm -f ready
	mkfifo ready
	exec 8<>ready
}

# until_gone PID...: wait until these processes have ended
until_gone() {
	# shellcheck disable=SC2016 # for the other shell
	timeout 100 bash -c 'for p; do
		while [[ $(awk "/^State/ { print \$2 }" "/proc/$p/status" 2>/dev/null) == [^Z] ]]; do sleep 0.05; done
	done' - "$@"
}

# bats test_tags=smoke
@test "a program finds its rank, the size, a store and a secret" {
	# shellcheck disable=SC2016 # for the ranks' shells
	collctl run -n 3 -- sh -c 'printf "%s %s %s %s %s\n" "$COLLCTL_RANK" "$COLLCTL_SIZE" "$COLLCTL_RENDEZVOUS" \
		"$COLLCTL_STORE_TOKEN" "$COLLCTL_SECRET"' >out
	assert_equal "$(cut -d' ' -f1 out | sort | tr '\n' ' ')" '0 1 2 '
	assert_equal "$(cut -d' ' -f2 out | sort -u)" 3
	assert_equal "$(cut -d' ' -f3- out | sort -u | wc -l)" 1
	grep -qE '^0 3 http://127\.0\.0\.1:[1-9][0-9]* [^ ]+ [0-9a-f]{64}$' out
}

@test "secrets and tokens are new each time" {
	# shellcheck disable=SC2016 # for the ranks' shells
	for _ in 1 2; do
		collctl run -n 1 -- sh -c 'printf "%s\n%s\n" "$COLLCTL_STORE_TOKEN" "$COLLCTL_SECRET"'
	done >out
	assert_equal "$(sort -u out | wc -l)" 4
}

@test "the caller's own job does not reach the ranks" {
	export COLLCTL_HOSTFILE=hosts COLLCTL_RENDEZVOUS=http://192.0.2.1:1 COLLCTL_SECRET_FILE=nowhere
	export COLLCTL_STORE_TOKEN_FILE=nowhere COLLCTL_LISTEN=192.0.2.1 COLLCTL_RANK=7 COLLCTL_SECRET=0bad
	collctl run -n 1 -- env >out
	run -1 grep -E '^COLLCTL_(HOSTFILE|SECRET_FILE|STORE_TOKEN_FILE|LISTEN)=|192\.0\.2\.1|0bad' out
	grep -qx COLLCTL_RANK=0 out
	collctl run -n 2 barrier
}

@test "a COMMAND with another number of ranks, or with a rank's number, is refused before anything starts" {
	run -2 collctl run -n 2 -- barrier -n 3
	assert_output 'collctl: --size 3: run starts 2 ranks, and nobody starts others: remove it'
	run -2 collctl run -n 2 -- barrier -r 0
	assert_output 'collctl: --rank 0: run gives each of its 2 ranks a number: remove it'
	run -2 collctl run -n 2 -- bench barrier --rank=1
	collctl run -n 2 -- barrier -n 2 -r auto
	collctl run -n 1 -- barrier -n 1 -r 0
	collctl run -n 2 -- barrier -n 3 --min-ranks 2 --grace 10ms
	COLLCTL_MIN_RANKS=2 collctl run -n 2 -- barrier -n 3 --grace 10ms
}

# bats test_tags=smoke
@test "a collective needs no store, in each of its spellings" {
	collctl run -n 2 barrier
	collctl run -n 2 -- barrier -v
	collctl run -n 2 collctl barrier
	collctl run -n 2 "$COLLCTL" -q barrier
	collctl run -n1 barrier
}

@test "the secret is in no argument and no environment that others can read" {
	# shellcheck disable=SC2016 # for the rank's shell
	collctl run -n 1 -- sh -c 'echo "$COLLCTL_SECRET" >secret; tr "\0" "\n" </proc/$PPID/cmdline >args
		tr "\0" "\n" </proc/$PPID/environ >environ'
	[[ -s secret && -s args && -s environ ]]
	run -1 grep -qF -f secret args environ
}

@test "only rank 0 reads stdin" {
	# shellcheck disable=SC2016 # for the ranks' shells
	echo input | collctl run -n 3 --label -- sh -c 'cat; [ "$COLLCTL_RANK" = 0 ] || [ /dev/null -ef /dev/stdin ]' >out
	assert_equal "$(<out)" '[0] input'
}

# bats test_tags=smoke
@test "stderr is labelled, stdout only with --label" {
	# shellcheck disable=SC2016 # for the ranks' shells
	collctl run -n 2 -- sh -c 'echo "out $COLLCTL_RANK"; echo "err $COLLCTL_RANK" >&2' >out 2>err
	assert_equal "$(sort out)" $'out 0\nout 1'
	assert_equal "$(sort err)" $'[0] err 0\n[1] err 1'
	# shellcheck disable=SC2016
	collctl run -n 2 --label -- sh -c 'echo "out $COLLCTL_RANK"' >out
	assert_equal "$(sort out)" $'[0] out 0\n[1] out 1'
}

@test "lines come out whole, however they were written" {
	cat >speak.py <<-'EOT'
		import os
		text = (os.environ["COLLCTL_RANK"] * 30000 + "\n").encode() * 20 + b"no newline"
		for at in range(0, len(text), 7001): os.write(2, text[at:at + 7001])
	EOT
	collctl run -n 3 -- "$PYTHON" speak.py 2>err
	assert_equal "$(wc -l <err)" 63
	local r
	for r in 0 1 2; do
		assert_equal "$(grep -cxE "\[$r\] ${r}+" err)" 20
		assert_equal "$(grep -cxF "[$r] no newline" err)" 1
	done
	awk 'length($0) != 30004 && !/no newline$/ { exit 1 }' err
}

@test "a line beyond bounds is broken, and nothing is lost" {
	collctl run -n 1 -- "$PYTHON" -c 'import os; os.write(2, b"x" * 200000 + b"\nend\n")' 2>err
	assert_equal "$(tail -n 1 err)" '[0] end'
	assert_equal "$(grep -o x err | wc -l)" 200000
	awk '!/^\[0\] (x+|end)$/ || length($0) > 65540 { exit 1 }' err
}

@test "what a rank's own child holds open does not hold run" {
	local start=$SECONDS
	collctl run -n 2 -- sh -c 'echo said >&2; sleep 60 & exit 0' 2>err
	((SECONDS - start < 60)) # as long as the child sleeps
	assert_equal "$(sort err)" $'[0] said\n[1] said'
}

@test "a reader of stderr that leaves ends nothing but the output" {
	run -0 "$PYTHON" -c 'import os, subprocess, sys
r, w = os.pipe()
os.close(r)
sys.exit(subprocess.run(sys.argv[1:], stderr=w).returncode)' \
		"$COLLCTL" run -n 2 -- sh -c 'trap "" PIPE; echo a >&2; echo b >&2; echo out; exit 0'
	assert_output $'out\nout'
}

# bats test_tags=smoke
@test "the exit code is that of the rank that failed" {
	# shellcheck disable=SC2016 # for the ranks' shells
	run -7 --separate-stderr collctl run -n 3 -- sh -c '[ "$COLLCTL_RANK" != 1 ] || exit 7'
	[[ $stderr == *'rank 1'*'exit code 7'* ]]
	# shellcheck disable=SC2016
	run -137 --separate-stderr collctl run -n 3 -- sh -c '[ "$COLLCTL_RANK" != 2 ] || kill -KILL $$'
	[[ $stderr == *'rank 2'*'killed by signal 9'* ]]
	run -0 collctl run -n 3 -- true
}

@test "the first failure ends all: by themselves, else by SIGTERM" {
	mkfifo ready
	cat >rank.sh <<-'EOT'
		case $COLLCTL_RANK in
		0) # fails when both others are there
			read -r _ <ready
			date +%s%N >failed
			exit 3
			;;
		1) # ends by itself
			trap 'echo term >1.term; exit 0' TERM
			until [ -e 2.there ]; do sleep 0.05; done
			echo >ready
			exec sh -c ': >1.own'
			;;
		esac
		trap 'date +%s%N >2.term; exit 0' TERM
		: >2.there
		sleep 60 &
		wait
	EOT
	local start=$SECONDS
	run -3 collctl run -n 3 -- sh rank.sh
	((SECONDS - start < 60)) # as long as rank 2 would wait
	assert_file_exist 1.own
	assert_file_not_exist 1.term
	(($(<2.term) - $(<failed) >= 5000000000)) # the others have that long to end by themselves
}

@test "who ignores SIGTERM is killed, with its children" {
	mkfifo ready
	cat >rank.sh <<-'EOT'
		if [ "$COLLCTL_RANK" = 0 ]; then
			read -r _ <ready
			exit 3
		fi
		trap '' TERM
		sh -c 'echo $$ >child; echo >ready; sleep 100'
		sleep 100
	EOT
	run -3 collctl run -n 2 -- sh rank.sh
	until_gone "$(<child)"
}

@test "SIGINT, SIGTERM and SIGHUP are passed on, and run ends by them" {
	local s
	for s in INT:130 TERM:143 HUP:129; do
		rm -f ./*.got
		open_ready
		cat >rank.sh <<-EOT
			trap 'echo >"\$COLLCTL_RANK.got"; exit 0' ${s%:*}
			echo >ready
			while :; do sleep 1; done
		EOT
		# Not a background job of this shell, because that would ignore SIGINT.
		"$PYTHON" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$COLLCTL" run -n 2 -- sh rank.sh 3>&- 8>&- &
		local pid=$!
		STARTED+=("$pid")
		read -r -u 8
		read -r -u 8
		kill "-${s%:*}" "$pid"
		local rc=0
		wait "$pid" || rc=$?
		assert_equal "$rc" "${s#*:}"
		assert_file_exist 0.got
		assert_file_exist 1.got
	done
}

@test "a second signal kills" {
	open_ready
	cat >rank.sh <<-'EOT'
		trap 'echo >ready' TERM
		echo >ready
		while :; do sleep 1; done
	EOT
	collctl_run() { exec "$COLLCTL" run -n 1 -- sh rank.sh 3>&- 8>&-; }
	collctl_run &
	local pid=$! rc=0
	STARTED+=("$pid")
	read -r -u 8
	SECONDS=0
	kill -TERM "$pid"
	read -r -u 8
	kill -TERM "$pid"
	wait "$pid" || rc=$?
	assert_equal "$rc" 143
	((SECONDS < 7)) # one signal kills who bears it after that time
}

@test "56: a reader of stderr that stalls does not keep run and its ranks from ending by a signal" {
	local sig
	cat >stall.py <<-'EOT'
		import os, signal, subprocess, sys
		r, w = os.pipe()  # without a reader
		sig = getattr(signal, sys.argv[1])
		run = subprocess.Popen(sys.argv[2:], stderr=w)
		def state(pid):
		    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
		def pids():
		    return [open(f"pid.{i}").read().strip() for i in range(2) if os.path.exists(f"pid.{i}")]
		def stalled():  # each rank waits for run, and run for its reader
		    found = [p for p in pids() if p]
		    names = [open(f"/proc/{p}/comm").read().strip() for p in found]
		    return names == ["yes"] * 2 and all(state(p) == "S" for p in found + [run.pid])
		while not (stalled() and stalled()):
		    os.sched_yield()
		os.kill(run.pid, sig)
		code = run.wait(60)
		assert code == 128 + sig, code
		assert not any(os.path.exists(f"/proc/{p}") for p in pids())
	EOT
	for sig in SIGTERM SIGINT; do
		# shellcheck disable=SC2016 # for the ranks' shells
		run -0 "$PYTHON" stall.py "$sig" "$COLLCTL" run -n 2 -- \
			sh -c 'echo $$ >"pid.$COLLCTL_RANK"; exec yes >&2'
		rm pid.*
	done
}

@test "56: nor ranks of a collective, nor one that fails" {
	cat >stall.py <<-'EOT'
		import os, signal, subprocess, sys
		r, w = os.pipe()
		os.set_blocking(w, False)
		try:
		    while os.write(w, b"x" * 4096):
		        pass
		except BlockingIOError:
		    os.set_blocking(w, True)
		os.mkfifo("never")  # rank 0 waits for its input
		run = subprocess.Popen(sys.argv[1:], stderr=w)
		while not (os.path.exists("1.out") and open("1.out").read()):
		    assert run.poll() is None
		    os.sched_yield()
		run.send_signal(signal.SIGTERM)
		assert run.wait(60) == 128 + signal.SIGTERM, run.returncode
	EOT
	# shellcheck disable=SC2016 # for the ranks' shells
	run -0 "$PYTHON" stall.py "$COLLCTL" run -n 2 -- sh -c \
		'[ $COLLCTL_RANK = 0 ] && exec "$0" broadcast -v --raw-file never -o out
		echo x >&2; echo x >1.out; exit 3' "$COLLCTL"
}

@test "what the ranks say of one failure comes once" {
	make_shards 3 f32 4
	run -3 --separate-stderr collctl run -n 4 -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_equal "$(grep -c 'rank 3: in.3.npy' <<<"$stderr")" 1
	run -2 --separate-stderr collctl run -n 4 -- allreduce --no-such-option x -o y
	assert_equal "$(grep -c 'no-such-option' <<<"$stderr")" 1
	# A line that a rank repeats is printed again; so is a line that is not a message of collctl.
	# shellcheck disable=SC2016
	run -0 --separate-stderr collctl run -n 3 -- sh -c '
		for i in 1 2; do echo "collctl: rank 1: x" >&2; done
		echo y >&2; echo "collctl: rank 1: x"'
	assert_equal "$(grep -c 'collctl: rank 1: x' <<<"$stderr")" 2
	assert_equal "$(grep -c 'y' <<<"$stderr")" 3
	assert_equal "$output" $'collctl: rank 1: x\ncollctl: rank 1: x\ncollctl: rank 1: x'
	# Equal messages without a rank's number may be different failures of a program's ranks.
	mkdir f0 f1
	# shellcheck disable=SC2016
	run -3 --separate-stderr collctl run -n 2 -- sh -c 'cd "f$COLLCTL_RANK" && exec "$0" info none.npy' "$COLLCTL"
	assert_equal "$(grep -c 'none.npy: cannot open' <<<"$stderr")" 2
	# The same after many other lines.
	mkfifo next
	# shellcheck disable=SC2016
	run -0 --separate-stderr collctl run -n 2 -- sh -c '
		[ $COLLCTL_RANK = 0 ] || read -r _ <next
		for i in $(seq 50); do [ $COLLCTL_RANK = 1 ] || echo "collctl: note $i" >&2; done
		echo "collctl: rank 0: x" >&2
		[ $COLLCTL_RANK = 1 ] || echo >next'
	assert_equal "$(grep -c 'collctl: rank 0: x' <<<"$stderr")" 1
}

@test "ranks don't outlive a run that is killed" {
	open_ready
	collctl_run() { exec "$COLLCTL" run -n 2 -- sh -c 'echo $$ >ready; exec sleep 100' 3>&- 8>&-; }
	collctl_run &
	local pid=$! one two
	STARTED+=("$pid")
	read -r -u 8 one
	read -r -u 8 two
	kill -KILL "$pid"
	wait "$pid" || true
	until_gone "$one" "$two"
}

# bats test_tags=smoke
@test "100 ranks of a program, 128 of a collective" {
	collctl run -n 100 -- sh -c 'echo x; echo y >&2' >out 2>err
	assert_equal "$(wc -l <out)" 100
	assert_equal "$(sort -u err | wc -l)" 100
	collctl run -n 128 barrier
}

@test "too few descriptors: 11, and nothing is left running" {
	few_files() {
		ulimit -n 40
		exec "$COLLCTL" run -n 100 -- sleep 50
	}
	run -11 --separate-stderr few_files
	[[ $stderr == *'with the output of 100 ranks at least '*"'ulimit -n' allows 40"* ]]
}

@test "-o - of several ranks, or with --label, is refused; of one rank it is stdout" {
	make_arrays() { "$PYTHON" -c 'import numpy
for r in range(2): numpy.save(f"in.{r}.npy", numpy.arange(6.) + r)'; }
	make_arrays
	run -2 collctl run -n 2 -- allreduce 'in.{rank}.npy' -o -
	assert_output "collctl: -o -: 2 ranks would write to one stdout: put {rank} into a file's name"
	COLLCTL_OUTPUT=- run -2 collctl run -n 2 -- allgather 'in.{rank}.npy'
	assert_output --partial '2 ranks would write to one stdout'
	run -2 collctl run -n 2 --label -- gather 'in.{rank}.npy' -o -
	assert_output --partial '-o - and --label exclude each other'
	collctl run -n 2 -- gather 'in.{rank}.npy' -o - >all.npy
	collctl run -n 1 --label -- allreduce --dry-run in.0.npy -o -
	collctl run -n 2 -- gather 'in.{rank}.npy' -o whole.npy
	cmp all.npy whole.npy
}

@test "programs get the caller's limits and signals back" {
	(
		ulimit -S -n 300
		collctl run -n 1 -- sh -c 'ulimit -S -n; grep -E "^Sig(Ign|Blk)" /proc/self/status' >inside
		sh -c 'ulimit -S -n; grep -E "^Sig(Ign|Blk)" /proc/self/status' >outside
	)
	# The last word of the mask of ignored signals: SIGPIPE is 13, SIGXFSZ 25.
	assert_equal "$(head -n 1 inside)" 300
	assert_equal "$(grep SigBlk inside)" "$(grep SigBlk outside)"
	local ignored
	ignored=0x$(awk '/^SigIgn/ { print $2 }' inside)
	(((ignored & (1 << 12 | 1 << 24)) == 0))
}

@test "a command line that no rank takes is refused once, before any rank starts; help is printed once" {
	once() { # TEXT COMMAND...
		local text=$1
		shift
		run -2 --separate-stderr collctl run -n 4 -- "$@"
		assert_equal "$stderr" "collctl: $text"
		assert_output ''
	}
	once '--frob: unknown option; did you mean --job?' allreduce --frob in -o out
	once '--root 9: a job of 4 ranks has ranks 0 to 3' reduce --root 9 in -o out
	once '--timeout: '"'soon' is not a duration of 1ms or more, such as 30s, 500ms or 2m" collctl -q barrier --timeout soon
	once "barrier: 'x' is one operand too many; usage: collctl barrier" barrier x
	run -0 --separate-stderr collctl run -n 4 -- barrier --help
	assert_output "$(collctl help barrier)"
	run -0 --separate-stderr collctl run -n 4 collctl --help barrier
	assert_output "$(collctl help barrier)"
	run -2 --separate-stderr collctl run -n 4 -- barrier --json --frob
	assert_equal "$(jq -c '[.command, .ok, .error.code]' <<<"$output")" '["run",false,2]'
	# The ranks do not see these variables of the caller.
	COLLCTL_SECRET_FD=x collctl run -n 2 barrier
}

@test "what can't be started is said once" {
	run -2 --separate-stderr collctl run -n 5 nosuchprogram
	assert_equal "$stderr" 'collctl: nosuchprogram: no such collective or program'
	run -2 --separate-stderr collctl run -n 5 alreduce x
	[[ $stderr == *'did you mean allreduce?' ]]
	run -2 --separate-stderr collctl run -n 5 keygen
	[[ $stderr == *'keygen is not a collective'* ]]
	run -2 collctl run true
	run -2 collctl run -n 2
	run -2 collctl run -n 0 true
}

@test "--json before run: one object, with each rank's in it" {
	collctl --json run -n 3 barrier >out
	assert_equal "$(json out '[.command, .ok, .size, .error, (.ranks | map(.rank))] | @json')" \
		'["run",true,3,null,[0,1,2]]'
}

@test "--json before run: of a failure too, one object" {
	run -3 --separate-stderr collctl --json run -n 3 -- allreduce missing.npy -o out.npy
	assert_equal "$(jq -s 'length' <<<"$output")" 1
	assert_equal "$(jq -r '[.ok, .error.code, (.ranks | map(.ok))] | @json' <<<"$output")" \
		'[false,3,[false,false,false]]'
	run -2 --separate-stderr collctl --json run -n 2 -- true
	assert_equal "$(jq -r '.error.code' <<<"$output")" 2
}

@test "a program may call collctl again and again" {
	# shellcheck disable=SC2016 # for the ranks' shells
	collctl run -n 3 -- sh -ec 'for i in 1 2 3; do "$0" barrier; done' "$COLLCTL"
}
