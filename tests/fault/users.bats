#!/usr/bin/env bats
# Other users of the machine: what they put into folders that all may write to, and files that are theirs.

load ../cli/helpers
load fault

setup() {
	common_setup
	((EUID == 0)) || skip 'only root can become two other users'
	# The folder of the test may be closed to others. In SHARED everybody may create names, as in /tmp.
	SHARED=$(mktemp -d /tmp/collctl-shared.XXXXXX)
	chmod 1777 "$SHARED"
	export TMPDIR=$SHARED
	install -m 755 "$COLLCTL" "$SHARED/collctl"
	cd "$SHARED" || return
	me "$SHARED/collctl" --version >/dev/null || skip 'another user cannot run a program in /tmp here'
	me mkdir -m 700 home
}

teardown() {
	common_teardown
	[[ -z ${SHARED-} ]] || rm -rf "$SHARED"
}

# me COMMAND...: as the user whose files are at stake; other COMMAND...: as somebody else
me() { setpriv --reuid 12345 --regid 12345 --clear-groups "$@"; }
other() { setpriv --reuid 12346 --regid 12346 --clear-groups "$@"; }

# trapped NAME TARGET COMMAND...: NAME is a link of another user to TARGET in my folder, which COMMAND must not touch
trapped() {
	local name=$1 target=$2
	shift 2
	rm -rf trap* home/* out.*
	me sh -c 'echo precious >home/file; mkdir home/folder'
	other ln -s "$SHARED/home/$target" "$name"
	run me "$SHARED/collctl" "$@"
	((status == 4)) || fail "$*: $status: $output"
	[[ $output == *"$name"*': is a symbolic link'*'which is not followed'* ]] || fail "$*: $output"
	assert_equal "$(<home/file)" precious
	assert_equal "$(ls -A home/folder)" ''
	assert_equal "$(ls home)" $'file\nfolder'
	[[ -L $name ]] || fail "$*: the link is gone"
}

inputs() {
	files_of_each_kind 300
	mkdir tree each
	cp in.0.safetensors tree/a.safetensors
	echo x >tree/b
	chmod -R a+rX .
}

@test "77: no output follows the link of another user, with --force and without" {
	local kind force
	inputs
	for force in --no-sync --force; do
		for kind in npy npz safetensors; do
			trapped trap.$kind file run -n 2 -- allreduce $force "in.{rank}.$kind" -o trap.$kind
		done
		trapped trap.bin file run -n 2 -- allreduce $force --dtype f32 'in.{rank}.bin' -o trap.bin
		trapped trap.bin none run -n 2 -- broadcast $force --raw-file in.0.npz -o trap.bin
		trapped trap.npy file run -n 2 -- gather $force 'in.{rank}.npy' -o trap.npy
		trapped trap.npy file run -n 2 -- allreduce --dry-run $force 'in.{rank}.npy' -o trap.npy
		trapped trap folder run -n 2 -- broadcast $force --each in.0.npy -o trap/
		trapped trap folder run -n 2 -- broadcast $force --raw-file tree -o trap
		trapped trap folder run -n 2 -- gather $force --raw-file 'in.{rank}.npy' -o trap/
	done
}

@test "77: no picture, trace, tuning file, port file or key follows the link of another user" {
	local bench=(bench allreduce --iters 1 --minbytes 4 --maxbytes 4) target
	inputs
	for target in file none; do
		trapped trap $target run -n 2 -- allreduce --trace trap 'in.{rank}.npy' -o 'out.{rank}.npy'
		trapped trap $target run -n 2 -- allreduce --trace-svg trap 'in.{rank}.npy' -o 'out.{rank}.npy'
		trapped trap $target plan allreduce -n 4 --svg trap
		trapped trap $target run -n 2 -- "${bench[@]}" --svg trap
		trapped trap $target run -n 2 -- check --time 1ms --svg trap
		trapped trap $target serve --listen 127.0.0.1:0 --port-file trap
		trapped trap $target keygen --force trap
	done
	trapped trap none run -n 2 -- "${bench[@]}" --tuning-out trap
	trapped trap none run -n 2 -- check --time 1ms --tuning-out trap
	trapped trap folder ca init trap
}

@test "77: links of mine, of root and of the folder's owner are followed with --force; to a folder mine and root's always" {
	local name
	inputs
	me ln -s home/file.npy mine.npy
	me ln -s home linked
	other mkdir theirs
	other chmod 777 theirs
	other ln -s "$SHARED/home/other.npy" theirs/link.npy
	for name in mine theirs/link; do
		me "$SHARED/collctl" allreduce -n 1 --force in.0.npy -o $name.npy
	done
	me "$SHARED/collctl" allreduce -n 1 in.0.npy -o linked/third.npy
	for name in file other third; do
		cmp in.0.npy home/$name.npy
	done
	[[ -L mine.npy && -L theirs/link.npy ]]
	me ln -s home/picture picture
	me "$SHARED/collctl" plan allreduce -n 4 --svg picture >/dev/null
	[[ -L picture && -s home/picture ]]
	me mkdir own own/real
	ln -s real own/scratch
	me "$SHARED/collctl" run -n 2 -- gather --raw-file 'in.{rank}.npy' -o own/scratch/
	cmp in.1.npy own/real/in.1.npy
}

@test "77: a file of another user in a folder with the sticky bit is refused before data move" {
	local dry
	inputs
	other cp in.1.npy target.npy
	chmod 666 target.npy
	for dry in --no-sync --dry-run; do
		run me "$SHARED/collctl" run -n 2 -- allreduce $dry 'in.{rank}.npy' -o target.npy
		((status == 4)) || fail "$status: $output"
		[[ $output == *'target.npy: belongs to user 12346, and its folder lets only that user replace it'* ]] || fail "$output"
	done
	cmp in.1.npy target.npy
	"$SHARED/collctl" run -n 2 -- allreduce 'in.{rank}.npy' -o target.npy # root may
}

# says CODE TEXT COMMAND...: as me
says() {
	local code=$1 text=$2
	shift 2
	run me "$@"
	((status == code)) || fail "$*: $status, not $code: $output"
	[[ $output == *"$text"* ]] || fail "$*: it does not say '$text': $output"
}

@test "77: a secret, a token or a private key that another user owns is refused: 6" {
	local job=("$SHARED/collctl" barrier -n 1 -r 0 -R http://127.0.0.1:1 --join-timeout 1s)
	inputs
	other "$SHARED/collctl" keygen secret
	other sh -c 'echo token >token'
	other "$SHARED/collctl" -q ca init pki
	other "$SHARED/collctl" -q ca issue pki --rank 0
	other chmod -R a+rX secret token pki
	me "$SHARED/collctl" keygen mine
	says 6 'secret: its owner is user 12346, who can read and change it: expected user 12345 or root' "${job[@]}" --secret-file secret
	says 6 'token: its owner is user 12346' "${job[@]}" --secret-file mine --store-token-file token
	says 6 'token: its owner is user 12346' "$SHARED/collctl" serve --listen 127.0.0.1:0 --token-file token
	says 6 'pki/rank-0.key: its owner is user 12346' "${job[@]}" --tls-cert pki/rank-0.pem --tls-key pki/rank-0.key --tls-ca pki/ca.pem
	# Root is nobody's friend either: it reads everything, and would use the secret of another.
	run "${job[@]}" --secret-file secret
	((status == 6)) && [[ $output == *'expected user 0 or root'* ]] || fail "$status: $output"
	me ln -s secret link
	says 6 'link: its owner is user 12346' "${job[@]}" --secret-file link
}

@test "77: run -H takes no hostfile that another user can change, for its hosts get the secret: 6" {
	local ssh=(--ssh "$SHARED/ssh") file
	printf '#!/bin/sh\necho called >>"%s/called"\nexit 255\n' "$SHARED" >ssh
	chmod 755 ssh
	inputs
	for file in theirs mine open; do
		echo 127.0.0.1 >$file
		chmod 644 $file
		chown 12345:12345 $file
	done
	chown 12346 theirs
	chmod 666 open
	says 6 'theirs: the hosts in it get the secret, and its owner is user 12346: expected user 12345 or root' \
		"$SHARED/collctl" run "${ssh[@]}" -H ./theirs -- barrier
	says 6 'open: the hosts in it get the secret, and mode 0666 lets other users change it: chmod go-w' \
		"$SHARED/collctl" run "${ssh[@]}" -H ./open -- barrier
	[[ ! -e called ]]
	says 5 127.0.0.1 "$SHARED/collctl" run "${ssh[@]}" -H ./mine -- barrier
	[[ -e called ]]
	# Elsewhere a host of the file learns nothing without the secret.
	says 0 '' "$SHARED/collctl" allreduce -n 1 -H ./theirs --insecure in.0.npy -o out.npy
}

@test "77: a tuning file of another user is data: it is read, and checked" {
	"$SHARED/collctl" bench allreduce -n 1 --iters 1 --minbytes 4 --maxbytes 4 --tuning-out tuning >/dev/null 2>&1
	chown 12346 tuning
	chmod 666 tuning
	says 0 allreduce "$SHARED/collctl" plan allreduce -n 4 --count 100 --tuning tuning
	echo '{"version": "x"}' >tuning
	says 3 tuning "$SHARED/collctl" plan allreduce -n 4 --count 100 --tuning tuning
}

@test "77: a plug-in that another user can change is not opened: 11" {
	local job=("$SHARED/collctl" allreduce -n 1 --device cuda:0 in.0.npy -o out.npy)
	inputs
	printf '#include <stdio.h>\n__attribute__((constructor)) static void f(void) { fclose(fopen("%s/run", "w")); }\n' "$SHARED" >evil.c
	"${CC:-cc}" -shared -fPIC -o evil.so evil.c
	chown 12346 evil.so
	says 11 "evil.so is not trusted: its owner is user 12346: expected user 12345 or root" env COLLCTL_PLUGIN_PATH=evil.so "${job[@]}"
	chown 12345 evil.so
	chmod 777 evil.so
	says 11 'evil.so is not trusted: mode 0777 lets other users change it: chmod go-w' env COLLCTL_PLUGIN_PATH=evil.so "${job[@]}"
	chmod 755 evil.so
	me mkdir -m 777 open
	chmod 777 open
	cp -p evil.so open
	says 11 'open/evil.so is not trusted: its folder: mode 0777 lets other users change it' \
		env COLLCTL_PLUGIN_PATH=open/evil.so "${job[@]}"
	run me env COLLCTL_PLUGIN_PATH=open/evil.so "$SHARED/collctl" version
	[[ ! -e run ]] || fail 'its code was run'
	# Mine, in a folder with the sticky bit.
	says 11 'it has no collctl_gpu_plugin' env COLLCTL_PLUGIN_PATH=evil.so "${job[@]}"
	[[ -e run ]]
}

@test "77: other users reach neither a rank's memory, files and environment nor its memory lanes" {
	local before name names pid
	no_sanitizers 'are slow to start'
	inputs
	make_secret
	chown 12345 "$SECRET"
	start_serve
	before=$(ls -A /dev/shm 2>/dev/null || true)
	rank() {
		spawn_rank "$1" setpriv --reuid 12345 --regid 12345 --clear-groups "$SHARED/collctl" allreduce --no-sync --lanes memory \
			-r "$1" -n 3 -R "$STORE" --secret-file "$SECRET" "in.$(($1 % 2)).npy" -o "out.$1.npy"
	}
	rank 0
	# It waits for the others and listens for their lanes. Names: @collctl-...; each is the test's if it is new.
	pid=${PIDS[0]}
	until names=$(ss -Hxlp | sed -nE "s/.* @([^ ]+) .*pid=$pid,.*/\\1/p") && [[ -n $names ]]; do kill -0 "$pid"; done
	for name in environ maps mem fd/0 task/$pid/mem; do
		run other cat "/proc/$pid/$name"
		((status != 0)) || fail "/proc/$pid/$name can be read"
	done
	run other ls "/proc/$pid/fd"
	((status != 0)) || fail "$output"
	assert_equal "$(ls -A /dev/shm 2>/dev/null || true)" "$before"
	# Strangers at the listener of the lanes: they get no descriptor, and no byte but an alert, and nobody is disturbed.
	mkfifo connected
	cat >stranger.py <<-'E'
		import array, socket, sys
		links = [socket.socket(socket.AF_UNIX) for _ in range(20)]
		for s in links:
		    s.connect("\0" + sys.argv[1])
		    s.sendmsg([b"x" * 64], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
		open("connected", "w").write("yes\n")
		for s in links:
		    try:
		        got = s.recvmsg(4096, 4096)
		    except ConnectionResetError:
		        continue
		    assert got[0][:1] in (b"", b"\x15") and not got[1], got # at most an alert of TLS
	E
	chmod 666 connected
	for name in $names; do
		spawn_rank 9 setpriv --reuid 12346 --regid 12346 --clear-groups "$PYTHON" -B stranger.py "$name"
		read -r <connected
	done
	rank 1
	rank 2
	wait_ranks
	assert_rank 9 0
	assert_ranks 3 0
	cmp out.0.npy out.2.npy
}
