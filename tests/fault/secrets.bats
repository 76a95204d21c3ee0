#!/usr/bin/env bats
# Secrets and tokens: who may read their files, and what is left of them in memory.

load ../cli/helpers
load fault


# assert_forgotten PID TEXT...: no copy is left in the memory of the process
assert_forgotten() {
	local rc=0
	no_sanitizers 'keep tables of terabytes'
	"$PYTHON" "$FAULT_DIR/memory_scan.py" scan "$@" >found || rc=$?
	((rc != 77)) || skip "the memory of another process can't be read here: $(<found)"
	((rc == 0)) || fail "process $1 has copies: $(<found)"
}

# assert_closed PID: no core, no reader but root
assert_closed() {
	grep -q '^Max core file size  *0 ' "/proc/$1/limits" || fail "$(grep core "/proc/$1/limits")"
	[[ $(stat -c %u "/proc/$1/environ") == 0 ]]
}

# hold_ranks COMMAND...: two ranks of an allreduce in the middle of their run: `resume` ends them
hold_ranks() {
	local r options=()
	hold_data 300000
	make_shards 2 f32 400000
	for r in 0 1; do
		options=()
		((r != 1)) || options=("${THROUGH[@]}")
		spawn_rank "$r" "$@" "$COLLCTL" allreduce -a ring_chunked --streams 1 --memory 8M -n 2 -r "$r" \
			-R "$STORE" "in.$r.npy" -o "out.$r.npy" "${options[@]}"
	done
	read -r -t 60 <held
}

@test "the keys of pairs: no copy is left in memory while data move; that of inquiries is with rank 0 alone" {
	local r pair key=$BATS_TEST_TMPDIR/knownkey.so inquiries='a key of inquiries that it has..'
	pair=$(printf 'pair|0|1\1' | openssl dgst -sha256 -hmac 'a key of pairs that the test has' -r)
	"${CC:-cc}" -shared -fPIC -o "$key" "$FAULT_DIR/knownkey.c"
	LD_PRELOAD=$key "$COLLCTL" --version >/dev/null 2>&1 || skip 'this build takes no LD_PRELOAD'
	make_secret
	start_serve
	hold_ranks env LD_PRELOAD="$key" COLLCTL_SECRET_FILE="$SECRET"
	for r in 0 1; do
		assert_forgotten "${PIDS[r]}" 'a key of pairs that the test has' "${pair%% *}"
	done
	assert_forgotten "${PIDS[1]}" "$inquiries"
	run -1 "$PYTHON" "$FAULT_DIR/memory_scan.py" scan "${PIDS[0]}" "$inquiries"
	resume
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "run: neither it nor its store keeps the secret that the ranks get" {
	local pid go told key token
	mkfifo go told
	exec {go}<>go {told}<>told
	# shellcheck disable=SC2016 # for the program's shell
	spawn_rank 0 "$COLLCTL" run -n 2 -- sh -c \
		'echo "$COLLCTL_SECRET $COLLCTL_STORE_TOKEN" >program.$COLLCTL_RANK; ulimit -c; echo ready >told; read -r line <go'
	read -r -t 60 -u "$told"
	read -r -t 60 -u "$told"
	read -r key token <program.0
	# The last rank may be ready before run, which started it, has wiped its copy and waits.
	until grep -q '^State:.S' "/proc/${PIDS[0]}/status"; do kill -0 "${PIDS[0]}"; done
	assert_closed "${PIDS[0]}"
	assert_forgotten "${PIDS[0]}" "$key" "$token"
	for pid in $(pgrep -P "${PIDS[0]}" -x collctl:store); do
		assert_forgotten "$pid" "$key"
	done
	printf 'end\nend\n' >&"$go"
	wait_ranks
	exec {go}>&- {told}>&-
	assert_rank 0 0
	assert_regex "$(<0.out)" "$(ulimit -c)" # the programs have the limit of their caller
}

@test "secret and token in files: no copy is left in memory while data move" {
	local r
	make_secret
	echo an-unlikely-token-4711 >token
	chmod 600 token
	start_serve --token-file token
	assert_closed "$SERVE_PID"
	hold_ranks env COLLCTL_SECRET_FILE="$SECRET" COLLCTL_STORE_TOKEN_FILE=token
	for r in 0 1; do
		assert_closed "${PIDS[r]}"
		assert_forgotten "${PIDS[r]}" "$(<"$SECRET")" an-unlikely-token-4711
	done
	resume
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "secret and token in the environment: no copy is left in memory or /proc" {
	local r
	make_secret
	echo an-unlikely-token-4711 >token
	chmod 600 token
	start_serve --token-file token
	hold_ranks env COLLCTL_SECRET="$(<"$SECRET")" COLLCTL_STORE_TOKEN=an-unlikely-token-4711
	for r in 0 1; do
		assert_forgotten "${PIDS[r]}" "$(<"$SECRET")" an-unlikely-token-4711
		run ! grep -qaF "$(<"$SECRET")" "/proc/${PIDS[r]}/environ"
	done
	resume
	wait_ranks
	assert_ranks 2 0
}

@test "the key of a certificate: no copy is left in memory while data move" {
	local r key number swapped
	collctl -q ca init pki
	collctl -q ca issue pki --rank 0
	collctl -q ca issue pki --rank 1
	start_serve
	hold_ranks env COLLCTL_TLS_CERT='pki/rank-{rank}.pem' COLLCTL_TLS_KEY='pki/rank-{rank}.key' COLLCTL_TLS_CA=pki/ca.pem
	for r in 0 1; do
		key=$(openssl pkey -in pki/rank-$r.key -noout -text | sed -n '/^priv:/,/^pub:/p' | grep '^ ' | tr -cd 0-9a-f)
		number=${key: -64}
		swapped=$(fold -w 2 <<<"$number" | tac | tr -d '\n')
		assert_closed "${PIDS[r]}"
		assert_forgotten "${PIDS[r]}" "$number" "$swapped" "$(sed -n 2p pki/rank-$r.key)"
	done
	resume
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

# refused CODE TEXT COMMAND...
refused() {
	local code=$1 text=$2
	shift 2
	run --separate-stderr -"$code" "$@"
	[[ $stderr == *"$text"* ]] || fail "it does not say '$text': $stderr"
}

@test "a secret or token file that others may read, or own, is refused: 6, and how to mend it" {
	local file
	make_secret
	echo letmein >token
	for file in job.key token; do
		local ask=("$COLLCTL" barrier -n 1 -r 0 -R http://127.0.0.1:1 --join-timeout 1s)
		[[ $file == token ]] || ask+=(--secret-file "$file")
		[[ $file != token ]] || ask+=(--secret-file job.key --store-token-file "$file")
		chmod 640 "$file"
		refused 6 "chmod 600 $file" "${ask[@]}"
		chmod 600 "$file"
		refused 5 'http://127.0.0.1:1' "${ask[@]}" # nobody there: the file is fine
		ln -sf "$file" link
		refused 5 'http://127.0.0.1:1' "${ask[@]/#$file/link}" # as Kubernetes mounts them
		((EUID == 0)) || continue
		chown 12345 "$file"
		refused 6 "chown 0 $file" "${ask[@]}"
		chown 0 "$file"
	done
	chmod 644 token
	refused 6 'chmod 600 token' "$COLLCTL" serve --listen 127.0.0.1:0 --token-file token
}

@test "every kind of input and output works for a user who is not root" {
	local as_nobody f
	another_user
	cd "$OTHER"
	as_nobody=("${AS_OTHER[@]}" "$OTHER/collctl")
	make_shards 2 f32 1000
	"$PYTHON" -c 'import numpy as np; [np.savez(f"in.{r}.npz", a=np.load(f"in.{r}.npy")) for r in (0, 1)]'
	for f in npy npy npz; do # an unnamed file, linked by way of /proc/self/fd; in place of another; a zip
		"${as_nobody[@]}" run -n 2 -- allreduce "in.{rank}.$f" -o "out.{rank}.$f"
	done
	check_out sum 2
	"${as_nobody[@]}" run -n 1 -- allreduce - -o piped.npy <in.0.npy
	"${as_nobody[@]}" run -n 1 -- allreduce in.0.npy -o - >stdout.npy
	# shellcheck disable=SC2016 # for that shell
	"${AS_OTHER[@]}" bash -c '"$0" run -n 1 -- allreduce <(cat in.0.npy) -o substituted.npy' "$OTHER/collctl"
	for f in piped stdout substituted; do
		cmp in.0.npy "$f.npy"
	done
	"${as_nobody[@]}" keygen nobody.key
	assert_equal "$(stat -c '%a %U' nobody.key)" '600 nobody'
}
