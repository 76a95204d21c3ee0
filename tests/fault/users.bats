#!/usr/bin/env bats
# Other users of the machine: what they put into folders that all may write to, and files that are theirs.

load ../cli/helpers

setup() {
	common_setup
	((EUID == 0)) || skip 'only root can become two other users'
	# The folder of the test may be closed to others. In SHARED everybody may create names, as in /tmp.
	SHARED=$(mktemp -d /tmp/collctl-shared.XXXXXX)
	chmod 1777 "$SHARED"
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
	make_shards 2 f32 300
	cp in.0.npy in.0.bin
	cp in.1.npy in.1.bin
	PYTHONPATH=$HELPERS_DIR PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -c '
from files import *
for r in range(2):
    t = {"a": some("f4", (3, 5), [r])}
    np.savez(f"in.{r}.npz", **t)
    save_safetensors(f"in.{r}.safetensors", t)'
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
		trapped trap $target keygen trap
	done
	trapped trap none run -n 2 -- "${bench[@]}" --tuning-out trap
	trapped trap none run -n 2 -- check --time 1ms --tuning-out trap
	trapped trap folder ca init trap
}

@test "77: links of mine, and of the folder's owner, are followed with --force; mine to a folder always" {
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
