#!/usr/bin/env bats
# run -H over stand-ins for ssh: hosts that lie, stand still or lose the connection, and the folder of the ranks.

# shellcheck disable=SC2016,SC2153
load helpers

# stand_in FILE: make the script on stdin a stand-in for ssh: FILE HOST COMMAND
stand_in() {
	{ echo '#!/bin/sh' && cat; } >"$1"
	chmod +x "$1"
}

# here: a host is a shell on this one
here() { stand_in here <<<'exec sh -c "$2"'; }

# over SSH HOSTS [OPTIONS] -- COMMAND...
over() { collctl run --ssh "$PWD/$1" -H "$2" --remote-path "$COLLCTL" "${@:3}"; }

hello() { printf '%s' "printf '\\ncollctl-remote-4 $(collctl --version | cut -d' ' -f2) $*\\n' >&2;"; }

# ---- hosts that answer anything ----

# refused TEXT: a liar is named, with TEXT, and so is nobody else; nobody has got a job
refused() {
	run -5 --separate-stderr over lie 'honest,liar' -- barrier
	[[ $stderr == *"collctl: liar: "*"$1"* && $stderr != *'collctl: honest: '* ]] || fail "$stderr"
	[[ ! -s got ]] || fail "the honest host has got $(wc -c <got) bytes"
	rm -f got
}

# liar: the script on stdin is the host liar; the other one is honest, and keeps what it gets in the file got
liar() {
	{
		cat <<-'END'
			if [ "$1" = honest ]; then
				mkfifo "pipe.$$"
				exec 3<&0
				tee got <&3 >"pipe.$$" &
				exec sh -c "$2" <"pipe.$$"
			fi
		END
		cat
	} | stand_in lie
}

# bats test_tags=smoke
@test "86: garbage, nothing, endless bytes and other versions: the host is named, and none gets a job" {
	local version
	version=$(collctl --version | cut -d' ' -f2)
	liar <<<'head -c 100000 /dev/urandom >&2; printf "\\nthe last line\\n" >&2; exit 3'
	refused 'the last line'
	liar <<<'exit 0'
	refused 'ended with exit code 0 and said nothing'
	liar <<<'exec 2>&-; exec sleep 10000'
	refused 'said nothing'
	liar <<<'exec cat /dev/zero >&2'
	refused 'has printed more than 1 MiB, and no answer'
	liar <<<'exec yes "x collctl-remote-4 x" >&2'
	refused 'has printed more than 1 MiB, and no answer'
	liar <<<'exec yes "collctl-remote-4 x" >&2'
	refused 'an unknown answer'
	liar <<<"printf '\\ncollctl-remote-4 9.9.9 - 0 -\\n' >&2; exec sleep 10000"
	refused "has collctl 9.9.9, this is $version: install the same version"
	liar <<<"printf '\\ncollctl-remote-1 $version - 0 -\\n' >&2; exec sleep 10000"
	refused "has another build of collctl $version"
	local answer
	for answer in '127.0.0.1 99999 -' '127.0.0.1 -1 -' '127.0.0.1 1' '127.0.0.1 0 secret' 'u:p@192.0.2.1/ 1 -' 'example.com 1 -' \
		"$(printf '%0500d' 0) 1 -" '127.0.0.1%x/y 1 -' '%eth0 1 -'; do
		liar <<<"$(hello "$answer") exec sleep 10000"
		refused 'an unknown answer'
	done
}

@test "a host that a list names in several places is named once, and what it says is printed once" {
	liar <<<'echo no room >&2; exit 3'
	run -5 --separate-stderr over lie liar,honest,liar,other,liar -- barrier
	assert_equal "$(sort <<<"$stderr")" $'collctl: liar: no room\ncollctl: other: no room'
}

# takes_job TEXT CODE: the host liar, as it is, gets the job and then lies
takes_job() {
	run "-$2" --separate-stderr over lie liar,honest -- barrier --join-timeout 3s
	[[ $stderr == *'liar: '*"$1"* ]] || fail "$stderr"
	rm -f got
}

@test "86: a host that lies once it has its job is named, and run ends" {
	liar <<<"$(hello '127.0.0.1 1 -') exec cat /dev/zero >&2"
	takes_job 'has printed more than 1 MiB, and no answer' 5
	liar <<<"$(hello '127.0.0.1 1 -') head -c 8 >job; echo no room >&2; exit 1"
	takes_job 'no room' 5
	# Ready before it has read the job.
	liar <<<"$(hello '127.0.0.1 1 -') head -c 8 >/dev/null; printf '\\000r\\000' >&2; exec sleep 10000"
	local long
	long=$(printf '%0120000d' 0)
	run -5 --separate-stderr over lie liar -- sh -c true "$long"
	[[ $stderr == *'liar: an unknown answer'* ]] || fail "$stderr"
	# It runs nothing, and makes noise until run ends it.
	liar <<<"$(hello '127.0.0.1 1 -') head -c 200 >/dev/null; printf '\\000r\\000' >&2; exec cat /dev/zero >&2"
	run ! over lie liar,honest -q -- barrier --join-timeout 3s
	# It ends at once, as if done.
	liar <<<"$(hello '127.0.0.1 1 -') head -c 200 >/dev/null; printf '\\000r\\000\\000e\\000\\000v\\000\\000?!' >&2; exit 0"
	run ! over lie liar,honest -- barrier --join-timeout 3s
}

@test "a terminal shows which hosts have not answered" {
	stand_in slow <<<'[ "$1" != late ] || exec sleep 10000; exec sh -c "$2"'
	on_terminal 'missing: late' 80 "$COLLCTL" run --ssh "$PWD/slow" -H 127.0.0.1,late --remote-path "$COLLCTL" -- barrier
	assert_failure 130
	assert_line -n 0 --partial 'run  1 of 2 ranks started, missing: late'
	refute_line --regexp '^run ' # nothing of it stands on the screen
}

@test "64: a host that ends after its hello, while another one has not answered" {
	stand_in lie <<-END
		if [ "\$1" = early ]; then
			echo \$\$ >early.new
			mv early.new early
			$(hello '- 0 -')
			exit 0
		fi
		until [ -e early ] && grep -q ') Z' "/proc/\$(cat early)/stat"; do :; done
		exit 1
	END
	run -5 --separate-stderr over lie early,late -- barrier
	[[ $stderr == 'collctl: late: '* ]] || fail "$stderr"
}

@test "86: what endless hosts send takes no memory" {
	no_sanitizers 'need more memory'
	liar <<<'exec cat /dev/zero >&2'
	(
		ulimit -v 600000
		run -5 over lie "$(printf 'liar%d,' {1..20})liar" -- barrier
	)
	# A result is kept in memory.
	liar <<<'exec cat /dev/zero'
	run -5 --separate-stderr over lie liar,honest --json -- barrier
	assert_equal "$(jq -c '[.error.code, .error.subject]' <<<"$output")" '[5,"liar"]'
}

@test "86: a host that names another's address as the meeting place gets nobody's secret there" {
	"$PYTHON" - 3>&- <<-'END' &
		import socket, threading
		s = socket.create_server(("127.0.0.2", 0))
		open("port.new", "w").write(str(s.getsockname()[1]))
		import os
		os.rename("port.new", "port")
		def take(c):
		    with c:
		        while b := c.recv(65536):
		            with open("overheard", "ab") as f: f.write(b)
		while True:
		    threading.Thread(target=take, args=(s.accept()[0],), daemon=True).start()
	END
	STARTED+=($!)
	until [[ -s port ]]; do kill -0 $!; done
	liar <<<"$(hello "127.0.0.1 $(<port) -") head -c 200 >/dev/null; printf '\\000r\\000' >&2; exec cat >/dev/null"
	sed -i 's/= honest/= 127.0.0.1/' lie
	run ! --separate-stderr over lie 127.0.0.2,127.0.0.1 -- barrier --join-timeout 2s
	[[ $stderr == *"rank 0 at 127.0.0.2:$(<port)"* ]] || fail "$stderr"
	[[ -s overheard ]] || fail "$stderr"
	local secret
	secret=$(grep -aoE '[0-9a-f]{64}' got | head -n 1)
	((${#secret} == 64))
	run ! grep -qaF "$secret" overheard
}

# bats test_tags=smoke
@test "without SSH_CONNECTION rank 0 and the store listen at all addresses, IPv6 too" {
	grep -q '^0\{31\}1 ' /proc/net/if_inet6 || skip 'no ::1 here'
	stand_in here <<<'unset SSH_CONNECTION; exec sh -c "$2"'
	for hosts in '[::1],127.0.0.1' '127.0.0.1,[::1]'; do
		over here "$hosts" -- barrier
		over here "$hosts" -- sh -c 'collctl barrier -q'
	done
}

@test "86: no name of a host becomes an option of ssh or a command" {
	stand_in ssh <<<'touch called; exit 1'
	local host option
	for host in '-oProxyCommand=touch x' '-oProxyCommand=x' -l -F/dev/null a,-v 'a;touch x' '$(touch x)' '`touch x`' 'a|b' "a'b" \
		'a"b' 'a b' 'a\b' 'user@-oProxyCommand=x' '[-1]' 'n[1-2' ''; do
		for option in -q --copy --dry-run; do
			run over ssh "$host" "$option" -- barrier
			((status == 2 || status == 3)) || fail "$host: $status: $output"
		done
		printf '%s\n' "$host" >hosts.txt
		run ! over ssh ./hosts.txt -- barrier
		[[ ! -e called && ! -e x ]] || fail "$host"
	done
	# A name that a terminal would obey is printed as text.
	run -0 --separate-stderr collctl run -H $'h\xc2\x9b31m' --ssh s --remote-path '/my "path"' --dry-run -- barrier
	assert_output 'rank 0: s '"'"'h\xc2\x9b31m'"'"' '"'"'/my "path" remote-rank listen 0'"'"' for collctl barrier'
	# What is printed can be given to a shell.
	run -0 --separate-stderr collctl run -H h --ssh s --copy --dry-run -- barrier
	eval "set -- ${output#rank 0: }"
	assert_equal "$1 $2 $4 $5 $6" 's h for collctl barrier'
	sh -nc "$3"
}

# ---- the folder ----

# folders: only host a has the folder $PWD/only and what is in it; $PWD/home is the home folder
folders() {
	unshare -m true 2>/dev/null || skip 'mount namespaces, which stand for hosts here, need root'
	mkdir -p only/deep home/there
	export ONLY=$PWD/only HOME=$PWD/home TOP=$PWD
	stand_in ssh <<-'END'
		cd "$HOME"
		[ "$1" != a ] || exec sh -c "$2"
		exec unshare -m sh -c 'mount -t tmpfs none "$ONLY" && exec sh -c "$0"' "$2"
	END
}

# at HOSTS [OPTIONS] -- COMMAND...: from the folder that only a has
at() { (cd "$ONLY/deep" && collctl run --ssh "$TOP/ssh" --remote-path "$COLLCTL" -H "$@"); }

@test "a working folder that some hosts lack: 4 with host and folder, and nothing runs; --chdir" {
	folders
	run -4 --separate-stderr at a,b,a,c -- sh -c 'touch "$TOP/ran"'
	assert_equal "$(grep -c '^collctl: ' <<<"$stderr")" 2
	[[ $stderr == *"collctl: b: $ONLY/deep: No such file or directory, but a has it: "*'--chdir'* ]] || fail "$stderr"
	[[ $stderr == *"collctl: c: $ONLY/deep: No such file or directory, but a has it: "*'--chdir'* ]] || fail "$stderr"
	[[ ! -e ran ]]
	run -0 --separate-stderr at a,a -- pwd
	assert_equal "$output" "$ONLY/deep"$'\n'"$ONLY/deep"
	assert_equal "$stderr" ''
	# A host with no such folder, as the others: the home folder.
	run -0 --separate-stderr at b,c -- pwd
	assert_equal "$output" "$HOME"$'\n'"$HOME"
	assert_equal "$stderr" "collctl: no host has the folder $ONLY/deep: the ranks work in their home folders"
	run -0 --separate-stderr at b,c -q -- pwd
	assert_equal "$stderr" ''
	run -0 --separate-stderr at a,b --chdir "$TOP" -- pwd
	assert_equal "$output" "$TOP"$'\n'"$TOP"
	run -0 --separate-stderr at a,b --chdir there -- pwd # below the home folder
	assert_equal "$output" "$HOME/there"$'\n'"$HOME/there"
	COLLCTL_CHDIR=there run -0 --separate-stderr at a,b -- pwd
	assert_equal "$output" "$HOME/there"$'\n'"$HOME/there"
	run -4 --separate-stderr at a,b --chdir "$ONLY/deep" -- pwd
	assert_equal "$stderr" "collctl: b: --chdir $ONLY/deep: No such file or directory"
	run -4 --separate-stderr at b --chdir nowhere -- pwd
	assert_equal "$stderr" 'collctl: b: --chdir nowhere: No such file or directory'
	run -2 --separate-stderr collctl run -n 2 --chdir . -- barrier
	[[ $stderr == *'--chdir need -H'* ]] || fail "$stderr"
	run -4 --separate-stderr at a,b --json -- barrier
	assert_equal "$(jq -c '[.ok, .error.code, .error.subject]' <<<"$output")" '[false,4,"b"]'
}

# ---- connections that are lost ----

# cuts BYTES HOST: a stand-in for ssh whose connection to HOST is lost when the host has said BYTES
cuts() {
	cat >cut.py <<-'END'
		import os, subprocess, sys
		mark, where, host, command = sys.argv[1].encode().decode("unicode_escape").encode(), *sys.argv[2:]
		if host != where:
		    os.execv("/bin/sh", ["sh", "-c", command])
		with open("cut.pid", "w") as f:
		    f.write(str(os.getpid()))
		far = subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE, start_new_session=True)
		said = b""
		while part := os.read(far.stderr.fileno(), 65536):
		    said += part
		    at = said.find(mark)
		    if at >= 0 and mark == b"\0r\0":
		        os.killpg(far.pid, 9) # it never begins
		    os.write(2, part if at < 0 else part[:len(part) - (len(said) - at - len(mark))])
		    if at >= 0:
		        sys.exit(255)
		sys.exit(far.wait())
	END
	stand_in cut <<<"exec '$PYTHON' '$PWD/cut.py' '$1' '$2' \"\$@\""
}

# lose BYTES HOST TEXT: an allreduce of 127.0.0.2 and 127.0.0.1 whose connection to HOST is lost so ends with 8 and says TEXT
lose() {
	cuts "$1" "$2"
	run -8 --separate-stderr over cut 127.0.0.2,127.0.0.1 --json -- allreduce --no-sync --join-timeout 5s 'in.{rank}.npy' -o 'out.{rank}.npy'
	[[ $stderr == *"$2: ssh has lost the connection$3"* ]] || fail "$stderr"
	assert_equal "$(jq -c '.error | [.code, .rank]' <<<"$output")" "[8,$([[ $2 == 127.0.0.2 ]] && echo 0 || echo 1)]"
	[[ $(jq -r .error.message <<<"$output") == *"$3"* ]] || fail "$output"
}

@test "51, 64: a lost connection: 8, with what is known of the verdict" {
	local host
	make_shards 2 f32 100
	for host in 127.0.0.2 127.0.0.1; do
		rm -f out.*
		lose '\0e\0' $host ' after its rank had ended with exit code 0: the outputs are the new ones'
		check_out sum 2
		rm -f out.*
		lose '\0v\0' $host ' after the verdict: the outputs are the new ones, but that of this rank may be the old one'
		check_out sum 2
		rm -f out.*
	done
	lose '\0r\0' 127.0.0.1 '; there was no verdict: all outputs are the old ones'
	run ! compgen -G 'out.*'
	run -8 --separate-stderr over cut 127.0.0.2,127.0.0.1 -- barrier --join-timeout 5s
	[[ $stderr == *'ssh has lost the connection; there was no verdict' ]] || fail "$stderr"
	lose '\0r\0' 127.0.0.2 '; whether there was a verdict is not known: outputs may be old or new'
	run ! compgen -G 'out.*'
}

@test "64: the exit code of a rank arrives though the connection is lost after it" {
	cuts '\0e\7' b
	run -7 --separate-stderr over cut a,b -- sh -c 'exit "$((COLLCTL_RANK * 7))"'
	[[ $stderr == *'rank 1: b: sh ended with exit code 7'* ]] || fail "$stderr"
	here
	run -255 --separate-stderr over here a -- sh -c 'exit 255'
	[[ $stderr == *'rank 0: a: sh ended with exit code 255'* ]] || fail "$stderr"
}

@test "64: the exit code of a rank arrives though run waits for the reader of its stderr when the connection is lost" {
	cuts '\0e\7' b
	"$PYTHON" - "$COLLCTL" "$PWD/cut" <<-'END'
		import fcntl, os, struct, subprocess, sys, termios
		collctl, ssh = sys.argv[1:]
		full = 15 * 4096 # all but one page: the first line of rank 0 fits, the second does not
		r, w = os.pipe()
		os.write(w, bytes(full))
		there = lambda: struct.unpack("i", fcntl.ioctl(r, termios.FIONREAD, bytes(4)))[0]
		ranks = 'if [ "$COLLCTL_RANK" = 0 ]; then printf "1\n2\n" >&2; else until [ -e go ]; do :; done; exit 7; fi'
		run = subprocess.Popen([collctl, "run", "--ssh", ssh, "-H", "a,b", "--remote-path", collctl, "--", "sh", "-c", ranks], stderr=w)
		os.close(w)
		while there() == full: # run has not written the first line
		    pass
		open("go", "w").close()
		with open("cut.pid") as f:
		    lost = f.read()
		while os.path.exists("/proc/" + lost): # run has not taken its end
		    pass
		said = b""
		while part := os.read(r, 65536):
		    said += part
		assert run.wait() == 7, (run.returncode, said[full:])
		assert b"rank 1: b: sh ended with exit code 7" in said, said[full:]
	END
}

# bats test_tags=smoke
@test "the stderr of a rank arrives as it is: NULs, long lines, no newline at its end, and what its children say" {
	here
	cat >say.py <<-'END'
		import os, sys
		w = sys.stderr.buffer
		w.write(b"a\0b\0\0c\0a\0\n" + bytes(range(1, 10)) + b"\n")
		w.write(b"\0" * 40000 + b"\n" + b"x" * 60000 + b"\nend")
	END
	run -0 over here a -- "$PYTHON" "$PWD/say.py" 2>/dev/null
	over here a -- "$PYTHON" "$PWD/say.py" 2>got
	"$PYTHON" - <<-'END'
		want = [b"a\0b\0\0c\0a\0", bytes(range(1, 10)), b"\0" * 40000, b"x" * 60000, b"end"]
		assert open("got", "rb").read() == b"".join(b"[0 a] " + line + b"\n" for line in want), open("got", "rb").read(400)
	END
}

# ---- silence ----

@test "64: a supervisor that is stopped: 8, host and rank named; it ends its rank when it goes on" {
	stand_in here <<<'exec setsid -w sh -c "$2"' # as sshd's, it is no child of ssh
	local rc=0
	COLLCTL_TIMEOUT=1s over here a,b -- sh -c '[ "$COLLCTL_RANK" = 0 ] || { echo $PPID >supervisor; echo $$ >rank; kill -STOP $PPID; }; exec sleep 10000' \
		2>err || rc=$?
	assert_equal "$rc" 8
	grep -q '^collctl: rank 1: b: has said nothing for 10 s$' err || fail "$(<err)"
	kill -0 "$(<rank)"
	kill -CONT "$(<supervisor)"
	until ! kill -0 "$(<rank)" 2>/dev/null; do :; done
	until ! kill -0 "$(<supervisor)" 2>/dev/null; do :; done
}

@test "64: a run that is stopped: its ranks end" {
	here
	COLLCTL_TIMEOUT=1s "$COLLCTL" run --ssh "$PWD/here" -H a,b --remote-path "$COLLCTL" -- \
		sh -c 'echo $$ >"rank.$COLLCTL_RANK"; exec sleep 10000' >out 2>err 3>&- &
	local runner=$!
	STARTED+=("$runner")
	until [[ -s rank.0 && -s rank.1 ]]; do kill -0 "$runner"; done
	kill -STOP "$runner"
	until ! kill -0 "$(<rank.0)" 2>/dev/null && ! kill -0 "$(<rank.1)" 2>/dev/null; do :; done
	kill -CONT "$runner"
	local rc=0
	wait "$runner" || rc=$?
	assert_equal "$rc" 143
	grep -q 'run has said nothing for 10 s: rank . on this host is ended' err || fail "$(<err)"
}

@test "64: run has gone: its rank gets one SIGTERM, whatever it still says" {
	stand_in here <<<'exec setsid -w sh -c "$2"'
	"$COLLCTL" run --ssh "$PWD/here" -H a --remote-path "$COLLCTL" -- \
		sh -c 'trap "echo >>terms; head -c 1000000 /dev/zero >&2; : >over" TERM; echo $PPID >supervisor; until [ -e over ]; do sleep 0.1; done' \
		>out 2>err 3>&- &
	local runner=$!
	STARTED+=("$runner")
	until [[ -s supervisor ]]; do kill -0 "$runner"; done
	kill -KILL "$runner"
	until ! kill -0 "$(<supervisor)" 2>/dev/null; do :; done
	assert_equal "$(wc -l <terms)" 1
}

@test "the bar of rank 0 is drawn on run's terminal; not with -q, nor for a program" {
	local r
	here
	for r in 0 1; do
		"$PYTHON" -c 'import numpy, sys; numpy.save(sys.argv[1], numpy.ones(200000))' "in.$r.npy"
	done
	bar=(TERM=xterm "$COLLCTL" run --ssh "$PWD/here" --chdir "$PWD" -H "127.0.0.1,127.0.0.2" --remote-path "$COLLCTL" --)
	job=(allreduce --join-timeout 20s --lanes tcp --limit-rate 1M 'in.{rank}.npy' -o 'out.{rank}.npy')
	on_terminal 'allreduce  \[#.* left' 100 env "${bar[@]}" "${job[@]}"
	assert_line --index 0 --regexp 'rallreduce  \[#'
	refute_line --partial '[0 127.0.0.1] allreduce' # it is no message of rank 0
	on_terminal '' 100 env "${bar[@]}" "${job[@]}" -q --limit-rate 100M
	refute_output --partial 'allreduce  ['
}

@test "64: a remote-rank that gets no job, and a copy that does not come, end" {
	((LONG)) || skip 'takes minutes: only in the long runs'
	mkfifo silent
	exec 7<>silent
	"$COLLCTL" remote-rank <silent 2>err 3>&- &
	local started=$! rc=0
	collctl run -H h --ssh s --copy --dry-run -- barrier >line
	eval "set -- $(sed 's/^rank 0: //' line)"
	mkdir tmp
	TMPDIR=$PWD/tmp sh -c "$3" <silent || rc=$?
	assert_equal "$rc" 124
	run ! compgen -G 'tmp/*'
	rc=0
	wait "$started" || rc=$?
	assert_equal "$rc" 1
	grep -q 'collctl: run has sent no job for 120 s' err
	exec 7>&-
}
