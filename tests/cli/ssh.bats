#!/usr/bin/env bats
# run -H: ranks on other hosts, over a real sshd. Each host is a network namespace; they share files.

# shellcheck disable=SC2016
load helpers
load ../fault/nets

teardown() {
	end_hosts
	net_close
	common_teardown
}

# What runs on the hosts besides sshd's listeners, a process a line.
left_on_hosts() {
	local r pid
	for ((r = 0; r < NET_SIZE; r++)); do
		for pid in $(ip netns pids "$NET-$r"); do
			[[ $pid == "${SSHD[r]-}" ]] || tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null || true
		done
	done
}

# Wait until nothing runs there any more. The test's time limit is the deadline.
hosts_are_idle() { until [[ -z $(left_on_hosts) ]]; do :; done; }

end_hosts() {
	local r
	for ((r = 0; r < NET_SIZE; r++)); do
		[[ -z $NET ]] || ip netns pids "$NET-$r" | xargs -r kill -KILL 2>/dev/null || true
	done
}

# open_hosts P: an sshd on each of P hosts; SSH is the command that reaches them
open_hosts() {
	local r
	command -v sshd >/dev/null || [[ -x /usr/sbin/sshd ]] || skip 'no sshd'
	net_open $(($1 + 1)) # the last is this one: run's
	HERE=$1 SSHD=()
	mkdir -p /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f user
	cp user.pub authorized
	chmod 600 authorized
	for ((r = 0; r < $1; r++)); do
		ssh-keygen -q -t ed25519 -N '' -f "host.$r"
		echo "$(net_address "$r") $(<"host.$r.pub")" >>known
		printf '%s\n' "ListenAddress $(net_address "$r")" "HostKey $PWD/host.$r" "PidFile none" \
			"AuthorizedKeysFile $PWD/authorized" 'StrictModes no' 'UsePAM no' 'PermitRootLogin yes' \
			'PasswordAuthentication no' >"config.$r"
		ip netns exec "$NET-$r" /usr/sbin/sshd -D -f "config.$r" 2>"sshd.$r" &
		SSHD[r]=$!
	done
	# Of a connection's time, ssh's first choice of key exchange takes the most by far.
	SSH="ssh -T -o BatchMode=yes -o ConnectTimeout=20 -o KexAlgorithms=ecdh-sha2-nistp256 -i $PWD/user -o UserKnownHostsFile=$PWD/known -o StrictHostKeyChecking=yes"
	HOSTS=$(for ((r = 0; r < $1; r++)); do net_address "$r"; done | paste -sd,)
	for ((r = 0; r < $1; r++)); do
		# shellcheck disable=SC2086
		until on "$HERE" $SSH "$(net_address "$r")" true 2>ssh.err; do
			kill -0 "${SSHD[r]}" || skip "sshd does not run here: $(<"sshd.$r")"
		done
	done
	hosts_are_idle
}

# far [OPTIONS] -- COMMAND...: run it on all hosts
far() { on "$HERE" "$COLLCTL" run -H "${USE:-$HOSTS}" --ssh "${BY:-$SSH}" --remote-path "${AT:-$COLLCTL}" "$@"; }

# bats test_tags=smoke
@test "four hosts: an allreduce of files, its messages with rank and host, nothing left" {
	open_hosts 4
	make_shards 4 f32 100,3
	run -0 --separate-stderr far -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_equal "$output" ''
	[[ $stderr == '[0 10.77.0.1] collctl: rank 0: allreduce sum of 4 ranks'* ]] || fail "$stderr"
	check_out sum 4
	hosts_are_idle
}

@test "slots, fewer ranks than slots, a hostfile; --json has every rank; --label" {
	open_hosts 2
	printf '10.77.0.1 slots=2\n10.77.0.2 slots=3\n' >hosts.txt
	USE=./hosts.txt run -0 --separate-stderr far --json -- check --time 2ms
	assert_equal "$(jq -c '[.ok, .size, (.ranks | length), .ranks[0].size]' <<<"$output")" '[true,5,5,5]'
	USE=./hosts.txt run -0 --separate-stderr far -n 3 --label -- sh -c 'echo "$COLLCTL_RANK of $COLLCTL_SIZE"'
	assert_equal "$(sort <<<"$output")" $'[0 10.77.0.1] 0 of 3\n[1 10.77.0.1] 1 of 3\n[2 10.77.0.2] 2 of 3'
	# sshd refuses some of more than 10 connections that come at once.
	echo '10.77.0.2 slots=20' >many.txt
	USE=./many.txt far -- barrier -q
	USE=./hosts.txt run -2 --separate-stderr far -n 6 -- barrier
	[[ $stderr == *'6 ranks, but the hosts have 5 slots'* ]] || fail "$stderr"
}

@test "a program gets a store, this collctl, the folder and the caller's settings" {
	open_hosts 3
	mkdir -p "$PWD/some folder"
	cd "some folder"
	export COLLCTL_STREAMS=3
	run -0 --separate-stderr far -- sh -c 'pwd; echo "$COLLCTL_STREAMS"; cd .. && collctl barrier -q && collctl barrier -q'
	assert_equal "$(sort -u <<<"$output")" "$(printf '%s\n' 3 "$PWD" | sort)"
	hosts_are_idle
}

@test "the secret is in no command line and no environment of a collective" {
	open_hosts 2
	far -- check --time 60s >out 2>err &
	local runner=$! pid seen=0
	STARTED+=("$runner")
	until (($(on 1 cat /sys/class/net/eth0/statistics/tx_bytes) > 3000000)); do kill -0 "$runner"; done
	for pid in $(ip netns pids "$NET-0") $(ip netns pids "$NET-1") $(ip netns pids "$NET-$HERE"); do
		run ! grep -qzaE '(^|[^0-9a-f])[0-9a-f]{64}($|[^0-9a-f])' "/proc/$pid/cmdline" "/proc/$pid/environ"
		seen=$((seen + 1))
	done
	((seen >= 6))
	kill -INT "$(pgrep -P "$runner" -f ' run -H ' || echo "$runner")"
	wait "$runner" || true
	hosts_are_idle
}

@test "64: hosts that cannot start are all named, once each, before anything runs: 5" {
	open_hosts 5
	kill "${SSHD[1]}"
	wait "${SSHD[1]}" || true
	SSHD[1]=0
	sed -i '/^10.77.0.3 /d' known # an unknown key
	mkdir bin
	printf '#!/bin/sh\nexec "%s" "$@"\n' "$COLLCTL" >bin/collctl
	# Host 3 has none, host 4 another version.
	cat >bin/tool <<-END
		#!/bin/sh
		case \$SSH_CONNECTION in
		*' 10.77.0.4 '*) exec /missing/collctl "\$@" ;;
		*' 10.77.0.5 '*) printf '\ncollctl-remote-4 9.9.9 10.77.0.5 0 -\n' >&2; cat >/dev/null ;;
		*) exec '$COLLCTL' "\$@" ;;
		esac
	END
	chmod +x bin/tool
	USE=$(net_address 0),$(net_address 1),$(net_address 1),$(net_address 2),$(net_address 3),$(net_address 4) \
		AT=$PWD/bin/tool run -5 --separate-stderr far -- sh -c 'touch "ran.$COLLCTL_RANK"'
	assert_equal "$(grep -c '^collctl: ' <<<"$stderr")" 4
	[[ $stderr == *'collctl: 10.77.0.2: ssh: connect to host 10.77.0.2 port 22: Connection refused'* ]] || fail "$stderr"
	[[ $stderr == *'collctl: 10.77.0.3: Host key verification failed'* ]] || fail "$stderr"
	[[ $stderr == *'collctl: 10.77.0.4: '*'/missing/collctl: '*'ot found; collctl was not found there: '*'--copy'* ]] || fail "$stderr"
	[[ $stderr == *'collctl: 10.77.0.5: has collctl 9.9.9, this is '*'--copy'* ]] || fail "$stderr"
	run ! compgen -G 'ran.*'
	USE=10.77.0.1,-oProxyCommand=x run -2 far -- barrier
	hosts_are_idle
}

@test "64: check tests the hosts that can be reached, and names the others with the reason of ssh: 5" {
	local r
	open_hosts 4
	for r in 0 3; do # the first is where the ranks meet, if it is there
		kill "${SSHD[r]}"
		wait "${SSHD[r]}" || true
		SSHD[r]=0
	done
	run -8 --separate-stderr far -- check --time 2ms
	assert_line '# 2 ranks, TLS, each link measured for 0.002 s'
	assert_line 'left out: 10.77.0.1: ssh: connect to host 10.77.0.1 port 22: Connection refused'
	assert_line 'left out: 10.77.0.4: ssh: connect to host 10.77.0.4 port 22: Connection refused'
	assert_line --regexp '^ +1 +[0-9.]+ +-$'
	all_say 'collctl: rank 0: 2 hosts, or some of their ranks, are left out, the first: 10\.77\.0\.1: ssh: connect to host 10\.77\.0\.1 port 22: Connection refused$'
	run -8 --separate-stderr far --json -- check --time 2ms
	jq -e '.error.code == 8 and .size == 2 and (.ranks[0] | (.absent | length) == 2 and (.links | length) == 2)' <<<"$output"
	# A link that fails is said first.
	run -8 --separate-stderr far -- check --time 2ms --max-latency 1us
	assert_line --partial 'left out: 10.77.0.4: '
	# A host alone has no links; other commands need all.
	USE=$(net_address 1),$(net_address 3) run -5 --separate-stderr far -- check
	assert_equal "$stderr" 'collctl: 10.77.0.4: ssh: connect to host 10.77.0.4 port 22: Connection refused'
	run -5 --separate-stderr far -- barrier
	assert_equal "$(grep -c 'Connection refused' <<<"$stderr")" 2
	hosts_are_idle
}

@test "64: check says why it leaves out: no collctl there, one of two ranks refused; a --ssh that is missing" {
	open_hosts 4
	printf '%s slots=2\n' 10.77.0.1 10.77.0.2 10.77.0.3 >hosts.txt
	echo 10.77.0.4 >>hosts.txt
	# On host 2 the second connection is refused, host 4 has no collctl.
	cat >tool <<-END
		#!/bin/sh
		case \$SSH_CONNECTION in
		*' 10.77.0.2 '*) mkdir '$PWD/first' 2>/dev/null || { echo 'too many connections' >&2; exit 255; } ;;
		*' 10.77.0.4 '*) exec /missing/collctl "\$@" ;;
		esac
		exec '$COLLCTL' "\$@"
	END
	chmod +x tool
	USE=./hosts.txt AT=$PWD/tool run -8 --separate-stderr far -- check --time 2ms
	assert_line '# 5 ranks, TLS, each link measured for 0.002 s'
	assert_line 'left out: 10.77.0.2 (1 of its 2 ranks): too many connections'
	assert_line --regexp '^left out: 10\.77\.0\.4: .*/missing/collctl: .*ot found; collctl was not found there: .*--copy$'
	[[ $output != *unreachable* ]]
	BY=/missing/ssh run -5 --separate-stderr far -- barrier
	[[ $stderr == *'/missing/ssh: not found'* && $stderr != *'--copy'* ]] || fail "$stderr"
	hosts_are_idle
}

# starts COMMANDS: on each host, begun by run in the background: PID $RUNNER
starts() {
	local r on
	[[ -p on ]] || mkfifo on
	exec {on}<>on # neither end waits to open it
	ip netns exec "$NET-$HERE" "$COLLCTL" run -H "$HOSTS" --ssh "$SSH" --remote-path "$COLLCTL" -- \
		sh -c 'echo "$COLLCTL_RANK" >on; '"$1" >out 2>err {on}>&- &
	RUNNER=$!
	STARTED+=("$RUNNER")
	for ((r = 0; r < HERE; r++)); do
		read -r -t 120 -u "$on" || fail "$r of $HERE ranks have started: $(<err)"
	done
	exec {on}>&-
}

ends_with() {
	local rc=0
	wait "$RUNNER" || rc=$?
	assert_equal "$rc" "$1"
	hosts_are_idle
}

@test "64: SIGINT, SIGTERM, SIGHUP and SIGKILL of run end every rank" {
	open_hosts 3
	local sig
	for sig in INT:130 TERM:143 HUP:129 KILL:137; do
		starts 'exec sleep 10000'
		kill "-${sig%:*}" "$RUNNER"
		ends_with "${sig#*:}"
	done
}

@test "64: an ssh that is killed: 8, its rank and host named, and no rank is left" {
	open_hosts 3
	starts 'exec sleep 10000'
	pkill -KILL -P "$RUNNER" -f 10.77.0.2
	ends_with 8
	grep -q 'rank 1: 10.77.0.2: ssh' err
}

@test "64: the first failure ends all ranks, with its exit code" {
	open_hosts 3
	starts '[ "$COLLCTL_RANK" != 1 ] || exit 33; exec sleep 10000'
	ends_with 33
	grep -q 'rank 1: 10.77.0.2: sh ended with exit code 33' err
}

@test "a collective that fails leaves the old outputs, and its exit code is run's" {
	open_hosts 3
	make_shards 3 f32 100
	make_shard in.2.npy f32 99 2
	echo old >out.0.npy
	run -7 --separate-stderr far -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	[[ $stderr == *'shape'* ]] || fail "$stderr"
	assert_equal "$(<out.0.npy)" old
	hosts_are_idle
}

@test "64: a host that is cut off: run ends with 8, and its rank ends alone" {
	open_hosts 3
	export COLLCTL_TIMEOUT=1s
	starts 'exec sleep 10000'
	drop_to 1 "$HERE"
	drop_to "$HERE" 1
	local rc=0
	wait "$RUNNER" || rc=$?
	assert_equal "$rc" 8
	# Its sshd waits for the connection for a quarter of an hour.
	until [[ $(left_on_hosts) != *'sleep 10000'* ]]; do :; done
	grep -q 'rank 1: 10.77.0.2: has said nothing for 10 s' err
}

@test "--copy: the hosts need no collctl; nothing of it stays" {
	open_hosts 3
	no_sanitizers 'make the program too large to copy it three times'
	mkdir tmp
	make_shards 3 f32 100
	on "$HERE" "$COLLCTL" run -H "$HOSTS" --copy --ssh "$SSH" -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy' --no-sync
	check_out sum 3
	on "$HERE" "$COLLCTL" run -H "$HOSTS" --copy --ssh "$SSH" -- sh -c 'dirname "$(command -v collctl)"; collctl barrier -q' >folders
	assert_equal "$(sort -u folders | wc -l)" 3
	hosts_are_idle
	while read -r folder; do
		[[ $folder != "$ROOT"* && ! -e $folder ]] || fail "$folder"
	done <folders
	# A machine of another kind.
	printf '#!/bin/sh\necho Linux mips\n' >./uname
	chmod +x ./uname
	run -5 --separate-stderr on "$HERE" "$COLLCTL" run -H "$HOSTS" --copy \
		--ssh "sh -c 'shift; PATH=$PWD:\$PATH exec sh -c \"\$1\"' ssh" -- barrier
	[[ $stderr == *'--copy: this host is Linux mips, not '*': install collctl there'* ]] || fail "$stderr"
}

# bats test_tags=smoke
@test "--dry-run prints what would be started, and starts nothing" {
	USE=10.0.0.1,b BY='my ssh' AT=/opt/collctl HERE=x
	run -0 --separate-stderr collctl run -H "$USE" --ssh "$BY" --remote-path "$AT" --dry-run -- barrier -a all_to_all
	assert_output "rank 0: my ssh 10.0.0.1 '/opt/collctl remote-rank listen 0' for collctl barrier -a all_to_all
rank 1: my ssh b '/opt/collctl remote-rank' for collctl barrier -a all_to_all"
	assert_equal "$stderr" ''
	run -0 --separate-stderr collctl run -n 2 --dry-run -- barrier
	assert_output $'rank 0: collctl barrier\nrank 1: collctl barrier'
}

# here: a stand-in for ssh, a shell on this host
make_here() {
	printf '#!/bin/sh\nshift\nexec sh -c "$1"\n' >here
	chmod +x here
}

# bats test_tags=smoke
@test "words of any bytes and of any length arrive as they are" {
	make_here
	printf '%s\0' 'a b' '' "it's" '"$HOME" *' $'two\nlines' $'\xff\xfe' "$(printf '%0130000d' 7)" >want
	mapfile -d '' -t words <want
	collctl run -H localhost --ssh ./here --remote-path "$COLLCTL" -- sh -c 'printf "%s\0" "$@"' sh "${words[@]}" >got
	cmp want got
	run -2 --separate-stderr collctl run -H localhost --ssh ./here --remote-path "$COLLCTL" -- true $(seq 70000)
	[[ $stderr == *'too long to send'* ]] || fail "$stderr"
}

# bats test_tags=smoke
@test "64: what a host prints before it answers, and answers that are none" {
	make_here
	local answer
	printf '#!/bin/sh\nhead -c 50000 /dev/zero >&2; yes banner | head -c 50000 >&2\nexec ./here "$@"\n' >banner
	chmod +x banner
	run -0 --separate-stderr collctl run -H 127.0.0.1,127.0.0.1 --ssh ./banner --remote-path "$COLLCTL" -- barrier
	for answer in "0.1.0 127.0.0.1 1 $(printf '%0500d' 0)" '0.1.0 127.0.0.1 99999 -' '0.1.0 - x -' "$(printf '%0500d' 0) 1 1 -"; do
		printf '#!/bin/sh\nprintf "\\ncollctl-remote-4 %s\\n" >&2\nexec cat >/dev/null\n' "$answer" >liar
		chmod +x liar
		run -5 --separate-stderr collctl run -H localhost,127.0.0.1 --ssh ./liar -- barrier
		[[ $stderr == *'collctl: localhost: an unknown answer'*'127.0.0.1: an unknown answer'* ||
			$stderr == *'127.0.0.1: an unknown answer'*'localhost: an unknown answer'* ]] || fail "$answer: $stderr"
	done
	run -5 --separate-stderr collctl run --json -H localhost --ssh false -- barrier
	assert_equal "$(jq -c '[.ok, .error.code, .error.phase]' <<<"$output")" '[false,5,"start"]'
	[[ $(jq -r .error.message <<<"$output") == 'localhost: '* ]] || fail "$output"
}

@test "64: an ssh that stands still: 5 after a minute, and a signal ends run" {
	((LONG)) || skip 'takes a minute: only in the long runs'
	printf '#!/bin/sh\nkill -STOP $$\n' >stopped
	chmod +x stopped
	run -5 --separate-stderr collctl run -H localhost --ssh ./stopped -- barrier
	[[ $stderr == *'localhost: no answer for 60 s'* ]] || fail "$stderr"
}

@test "64: a reader of stderr that pauses for over a minute loses no rank" {
	((LONG)) || skip 'takes over a minute: only in the long runs'
	make_here
	COLLCTL_TIMEOUT=5s collctl run -H 127.0.0.1,127.0.0.1 --ssh ./here --remote-path "$COLLCTL" -- \
		sh -c 'yes noise | head -c 3000000 >&2' 2> >(sleep 75; wc -c >count)
	until [[ -s count ]]; do :; done
	(($(<count) > 6000000))
}

# bats test_tags=smoke
@test "any command that takes a host and a command may stand for ssh" {
	make_here
	run -0 --separate-stderr collctl run -H 127.0.0.1,127.0.0.1 --ssh "$PWD/here" --remote-path "$COLLCTL" -- barrier
	run -5 --separate-stderr collctl run -H localhost,localhost --ssh /missing/ssh -- barrier
	[[ $stderr == *'collctl: localhost: '*'/missing/ssh: not found'* ]] || fail "$stderr"
	run -2 collctl run -n 2 --copy -- barrier
	COLLCTL_SSH='ssh -p 22' COLLCTL_COPY=1 collctl run -n 2 -- barrier -q
	run -2 collctl run -- barrier
}

# ---- a file or a host ----

# bats test_tags=smoke
@test "-H NAME that is also a file: 2 with both spellings, and no host is asked; -H NAME, is the host" {
	make_here
	printf '#!/bin/sh\necho "$1" >>asked\nshift\nexec sh -c "$1"\n' >there
	chmod +x there
	printf 'other1\nother2\n' >localhost
	ln -s localhost link
	mkdir -p n1
	local name start=(collctl run --ssh ./there --remote-path "$COLLCTL")
	for name in localhost link; do
		run -2 --separate-stderr "${start[@]}" -H $name -- barrier
		[[ $stderr == "collctl: --hostfile: '$name' is a file, but may be meant as a host: give -H ./$name for the file, or -H '$name,' for the host" ]] || fail "$stderr"
		assert_not_exists asked
	done
	run -0 "${start[@]}" -H localhost, -- barrier
	assert_equal "$(cat asked)" localhost
	run -0 "${start[@]}" -H 127.0.0.1,127.0.0.1, -- barrier
	run -0 --separate-stderr "${start[@]}" --dry-run --hostfile ./localhost -- barrier
	[[ $output == *'there other1 '*$'\n'*'there other2 '* ]] || fail "$output"
	run -0 --separate-stderr "${start[@]}" --dry-run -H n1 -- barrier # a folder is no hostfile
	[[ $output == *'there n1 '* ]] || fail "$output"
	# Other commands read the file; a list is one in every command.
	run -3 --separate-stderr collctl barrier --insecure -H hosts -r 0
	[[ $stderr == "collctl: hosts: No such file or directory: to name one host, give -H 'hosts,'" ]] || fail "$stderr"
	free_port
	spawn_rank 0 "$COLLCTL" barrier --insecure -H "127.0.0.1:$PORT,localhost" -r 0
	spawn_rank 1 "$COLLCTL" barrier --insecure -H "127.0.0.1:$PORT,localhost," -r 1
	wait_ranks
	assert_ranks 2 0
	printf '127.0.0.1:%s\n' "$PORT" >localhost
	run -0 collctl barrier --insecure -H localhost
}
