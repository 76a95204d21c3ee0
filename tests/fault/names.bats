#!/usr/bin/env bats
# Names that peers and files give. Numbers are the rows of the table of faults.

# shellcheck disable=SC2016
load ../cli/helpers
load fault


# called HOST COMMAND...: on a host that calls itself so; hostname(1) would refuse some names
called() {
	local host=$1
	shift
	unshare -u sh -c 'printf %s "$0" >/proc/sys/kernel/hostname && exec "$@"' "$host" "$@"
}

# refused CODE P TEXT... -- COMMAND...: a job that fails and says all that
refused() {
	local code=$1 size=$2 texts=()
	shift 2
	while [[ $1 != -- ]]; do
		texts+=("$1")
		shift
	done
	shift
	run --separate-stderr collctl run -n "$size" -- "$@" --no-sync --insecure
	((status == code)) || fail "$*: $status instead of $code: $stderr"
	local text
	for text in "${texts[@]}"; do
		[[ $stderr == *"$text"* ]] || fail "$*: does not say '$text': $stderr"
	done
	! grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]' <<<"$stderr" || fail "$*: raw bytes in $stderr"
}

# files FOLDER: all that is in it, with the contents
files() {
	(cd "$1" && find . -mindepth 1 | sort && find . -type f -print0 | sort -z | xargs -0 -r cat)
}

# lying WHICH OLD NEW COMMAND...: rank 1 of 2 reaches rank 0 by a peer that puts NEW for OLD into what goes
# up (to rank 0) or down. Sets RC. Rank 0 is on the host nodea, rank 1 on nodeb.
lying() {
	local which=$1 old=$2 new=$3 down=() port
	shift 3
	[[ $which == up ]] || down=(--down)
	free_port
	# shellcheck disable=SC2153 # set by free_port
	port=$PORT
	start_proxy "$port" replace --old="$old" --new="$new" --on every "${down[@]}"
	echo "127.0.0.1:$port slots=2" >hosts.0
	echo "127.0.0.1:$PROXY slots=2" >hosts.1
	local r
	for r in 0 1; do
		spawn_rank $r on_host "node$( ((r)) && echo b || echo a)" "$COLLCTL" "$@" -H hosts.$r -r $r --insecure
	done
	wait_ranks
	kill "$PROXY_PID"
}

@test "75: a host that is no name: refused by rank 0, and by each rank; nothing is written" {
	need_hosts
	echo data >in
	local new
	for new in .sshx '../..' '/etc/' 'a/b/c' '\x00odeb' 'n\nd\nb' -odeb '\xc2\x9b2Jb' '\xe2\x80\xaexb'; do
		lying up nodeb "$new" gather --raw-file in -o '{host}/'
		assert_rank 0 7 "rank 1" "is no name of a host"
		assert_rank 1 7
		! grep -P '\xc2[\x80-\x9f]|\xe2\x80' 0.err 1.err || fail "raw bytes"
		[[ ! -e nodea && ! -e nodeb && ! -e .sshx ]]
	done
	# The coordinator's own host, in WELCOME.
	lying down nodea .ssha gather --raw-file in -o '{host}/' --join-timeout 20s # rank 0 waits for another rank 1
	assert_rank 1 7 "'.ssha' is no name of a host"
	[[ ! -e nodea && ! -e nodeb ]]
}

@test "75: a host of any name may take part: {host} has '_' for what is no letter" {
	need_hosts
	local r
	make_secret
	start_serve
	for r in 0 1; do
		echo "data $r" >"$r"
		spawn_rank $r called "$( ((r)) && echo '(none)' || echo .ssh)" "$COLLCTL" gather --raw-file "$r" -r $r -n 2 \
			-R "$STORE" --secret-file "$SECRET" -o 'got/{host}' --root 1
	done
	wait_ranks
	assert_ranks 2 0
	assert_equal "$(files got)" $'./host.ssh\n./host_none_\ndata 0\ndata 1'
	echo x >x
	mkdir host..
	called '..' "$COLLCTL" run -n 1 -- broadcast --raw-file x -o '{host}/y'
	assert_equal "$(<host../y)" x
}

@test "75: the name of a gathered file: hidden or with control characters, 7 and no file; with the user's name it is taken" {
	mkdir home away
	echo own >home/.profile
	local name out
	for name in .profile .ssh $'a\nb' $'a\xc2\x9bb' $'a\xe2\x80\xaeb' $'a\x7f'; do
		echo "evil" >"away/$name"
		for out in ./ . ../home/ '{rank}/' 'x/'; do
			refused 7 2 "rank 1: '" 'is no plain name of a file' -- bash -c \
				'f=$0; ((COLLCTL_RANK)) || { cd home; echo zero >ok; f=ok; }; exec "$1" gather --raw-file "$f" "${@:2}"' \
				"$PWD/away/$name" "$COLLCTL" -o "$out"
		done
		assert_equal "$(files home)" $'./.profile\n./ok\nown\nzero'
		go 2 bash -c \
			'f=$0; ((COLLCTL_RANK)) || { cd home; f=ok; }; exec "$1" gather --raw-file "$f" "${@:2}"' \
			"$PWD/away/$name" "$COLLCTL" -o "../got.{rank}"
		assert_equal "$(<got.1)" evil
		rm -f got.* home/ok
	done
	echo x >in
	for name in -o 'a b' é; do
		echo fine >"away/$name"
		go 2 bash -c 'f=$0; ((COLLCTL_RANK)) || f=in; exec "$1" gather --raw-file "$f" "${@:2}"' \
			"./away/$name" "$COLLCTL" -o "fine/"
		assert_equal "$(<"fine/$name")" fine
		rm -r fine
	done
}

@test "75: the names in a gathered folder, and its sizes: refused before data move, and nothing is written" {
	local new
	mkdir -p in.0 in.1/aa
	head -c 1000 /dev/zero >in.1/aa/bbbb
	head -c 2000 /dev/zero >in.1/c
	for new in ../bbbb /a/bbbb aa/../b aa//bbb ./bbbbb; do
		lying up aa/bbbb "$new" gather --raw-file 'in.{rank}' -o 'got/{rank}/'
		assert_rank 0 7 "rank 1" "$new"
		assert_rank 1 7
		[[ ! -e got && ! -e bbbb ]]
	done
	lying up '\xd0\x07\0\0\0\0\0\0' '\xd1\x07\0\0\0\0\0\0' gather --raw-file 'in.{rank}' -o 'got/{rank}/'
	assert_rank 0 10 "rank 1" "sent two sizes for one file"
	[[ ! -e got ]]
	# Hidden names stay as they are, but not directly in '.' or '..'.
	echo evil >in.1/.profile
	refused 7 2 "rank 1: '.profile' is hidden" -- gather --raw-file 'in.{rank}' -o '{rank}/..'
	refused 7 1 "rank 0: '.profile' is hidden" -- gather --raw-file in.1 -o .
	go 2 gather --raw-file 'in.{rank}' -o 'got/{rank}/'
	assert_equal "$(<got/1/.profile)" evil
}

@test "75: symbolic links of --links that lead out of the folder, by a rank that lies: refused, with the target, and nothing is written" {
	local new
	mkdir -p in.0/d in.1/d
	echo data | tee in.0/d/f >in.1/d/f
	ln -s inner/file in.0/d/l
	ln -s inner/file in.1/d/l
	for new in /etc/passw ../../evil inner/../f; do
		lying up inner/file "$new" gather --raw-file --links 'in.{rank}' -o 'got/{rank}/'
		assert_rank 0 7 "rank 1" "'d/l' is a symbolic link to '$new'"
		lying down inner/file "$new" broadcast --raw-file --links in.0 -o 'got.{rank}/'
		assert_rank 1 7 "'d/l' is a symbolic link to '$new'"
		[[ ! -e got && ! -e got.1 ]]
	done
	# Nor is a name a link and a file.
	lying down d/l d/f broadcast --raw-file --links in.0 -o 'got.{rank}/'
	assert_rank 1 10
	[[ ! -e got.1 ]]
}

@test "75: a link that a peer's name finds is not followed, also with --force; links in the user's part are" {
	mkdir in out logs real
	echo own >target
	ln -s ../target out/evil
	ln -s "$PWD/target" "logs/$(hostname).log"
	ln -s ../real "logs/$(hostname)"
	ln -s logs link
	echo evil >in/evil
	local force
	for force in '' --force; do
		refused 4 2 'out/evil: is a symbolic link, which is not followed in this folder' -- bash -c \
			'f=in/evil; ((COLLCTL_RANK)) || f=target; exec "$0" gather --raw-file $f "$@"' "$COLLCTL" $force -o out/
		refused 4 1 'log: is a symbolic link, which is not followed' -- gather --raw-file in/evil $force -o 'logs/{host}.log'
		refused 4 1 'log: is a symbolic link, which is not followed' -- gather --raw-file in/evil $force --dry-run -o 'link/{host}.log'
		refused 4 1 "logs/$(hostname): is a symbolic link" -- gather --raw-file in/evil $force -o 'logs/{host}/'
	done
	assert_equal "$(<target)$(files real)" own
	go 1 gather --raw-file in/evil -o 'link/{host}.{rank}'
	assert_equal "$(<"logs/$(hostname).0")" evil
	# The names of a set, and of --each, are the root's on the other ranks.
	py <<<'
np.save("in/evil.npy", np.arange(4, dtype="f4"))
save_set("set", {"a.safetensors": {"x": np.zeros(3, "f4")}, "b.safetensors": {"y": np.ones(3, "f4")}})
'
	rm out/evil
	ln -s ../target out/evil.npy
	ln -s ../target out/b.safetensors
	local part='((COLLCTL_RANK)) && o=out || o=zero; exec "$0" "$@" -o $o/'
	for command in 'broadcast --each in/evil.npy' 'scatter --each in/evil.npy' 'broadcast set/'; do
		# shellcheck disable=SC2086
		refused 4 2 'is a symbolic link, which is not followed in this folder' -- bash -c "$part" "$COLLCTL" $command --force
	done
	assert_equal "$(<target)" own
	assert_equal "$(ls -A out)" $'b.safetensors\nevil.npy'
	rm out/*
	for command in 'broadcast --each in/evil.npy' 'scatter --each in/evil.npy' 'broadcast set/'; do
		# shellcheck disable=SC2086
		go 2 bash -c "$part" "$COLLCTL" $command
	done
	cmp out/b.safetensors set/b.safetensors
}

@test "76: a gathered file that another rank names replaces none without --force" {
	mkdir got logs
	echo old >got/f1
	echo old >got/f0
	echo zero >f0
	echo one >f1
	# Each rank's user names its own file.
	local own=(bash -c 'exec "$0" gather --raw-file "f$COLLCTL_RANK" "$@"' "$COLLCTL")
	refused 4 2 'got/f1: the file exists' "rank 1 has chosen the name 'f1'" '--force' -- "${own[@]}" -o got/
	refused 4 2 'got/f1: the file exists' -- "${own[@]}" -o got
	refused 4 2 'got/f1: the file exists' -- "${own[@]}" --each -o got
	refused 4 2 'got/f1: the file exists' -- "${own[@]}" --dry-run -o got/
	assert_equal "$(files got)" $'./f0\n./f1\nold\nold'
	go 2 "${own[@]}" --force -o got/
	assert_equal "$(files got)" $'./f0\n./f1\nzero\none'
	# A name that the root's user has given as a pattern is no other rank's choice.
	echo new >f1
	go 2 gather --raw-file 'f{rank}' -o got/
	assert_equal "$(files got)" $'./f0\n./f1\nzero\nnew'
	# The names are the user's: they are replaced, as a second copy of a folder is.
	local i
	for i in 1 2; do
		echo "day $i" >f1
		go 2 gather --raw-file 'f{rank}' -o 'logs/{host}.{rank}'
		go 2 gather --raw-file 'f{rank}' -o 'logs/{rank}'
		go 2 broadcast --raw-file got -o 'copy.{rank}'
	done
	assert_equal "$(<"logs/$(hostname).1")$(<logs/1)" 'day 2day 2'
	# Names that the root's user has given to the same files are no other rank's.
	mkdir n0 n1
	for i in 1 2; do
		echo "day $i" >n0/.log
		echo "night $i" >n1/.log
		go 2 gather --raw-file 'n{rank}/.log' -o 'daily/{rank}/'
	done
	assert_equal "$(<daily/0/.log) $(<daily/1/.log)" 'day 2 night 2'
	# The host is the whole name.
	go 2 bash -c 'exec unshare -u sh -c "echo n$COLLCTL_RANK >/proc/sys/kernel/hostname && exec \"\$0\" \"\$@\"" "$0" "$@"' \
		"$COLLCTL" gather --raw-file 'f{rank}' -o 'logs/{host}' || skip 'host names of their own need root'
	refused 4 2 'logs/n1: the file exists' "rank 1 has chosen the name 'n1'" -- bash -c \
		'exec unshare -u sh -c "echo n$COLLCTL_RANK >/proc/sys/kernel/hostname && exec \"\$0\" \"\$@\"" "$0" "$@"' \
		"$COLLCTL" gather --raw-file 'f{rank}' -o 'logs/{host}'
}

@test "76: a gathered folder that has another host's name replaces no file without --force" {
	need_hosts
	mkdir n0 n1 src
	echo old >src/f
	echo new >n1/f
	local own=(bash -c 'exec unshare -u sh -c "test $COLLCTL_RANK = 0 || echo src >/proc/sys/kernel/hostname; exec \"\$0\" \"\$@\"" "$0" "$@"' "$COLLCTL"
		gather --raw-file 'n{rank}/')
	refused 4 2 'src/f: the file exists' "rank 1 has chosen the name 'f'" '--force' -- "${own[@]}" -o '{host}/'
	refused 4 2 'src/f: the file exists' -- "${own[@]}" --dry-run -o '{host}'
	assert_equal "$(<src/f)" old
	go 2 "${own[@]}" --force -o '{host}/'
	assert_equal "$(<src/f)" new
	echo old >src/f
	mkdir src.1
	echo old >src.1/f
	go 2 "${own[@]}" -o '{host}.{rank}'
	assert_equal "$(<src/f) $(<src.1/f)" 'old new'
	# What has not changed replaces nothing.
	ln n1/f n1/g
	ln -s f n1/l
	local i
	for i in 1 2; do
		go 2 "${own[@]}" --update --links -o 'new/{host}/'
	done
	[[ new/src/f -ef new/src/g && new/src/l -ef new/src/f ]]
	ln -sf g n1/l
	refused 4 2 'new/src/l: the file exists' -- "${own[@]}" --update --links -o 'new/{host}/'
	ln -sf f n1/l
	echo newer >n1/f
	refused 4 2 'new/src/f: the file exists' -- "${own[@]}" --update --links -o 'new/{host}/'
	go 2 "${own[@]}" --force --update --links -o 'new/{host}/'
	assert_equal "$(<new/src/g)" newer
}

@test "75: hidden files of a tree come into a folder for it, not into the home folder or one without a name" {
	mkdir -p tree/.git tree/deep/.x home/user/sub
	echo evil >tree/.profile
	echo config >tree/.git/config
	echo x >tree/deep/.x/.y
	echo own >home/user/.profile
	ln -s home/user link
	export HOME=$PWD/home/user
	local out from=$PWD
	# from home/user on rank 1, to a folder of its own on rank 0
	there() {
		printf '%s\0' bash -c 'if ((COLLCTL_RANK)); then cd home/user; exec "$0" "$@" -o "$TO"; fi; exec "$0" "$@" -o fine' \
			"$COLLCTL" broadcast --raw-file tree
	}
	mapfile -d '' -t command < <(there)
	for out in . ./ .// ../user/. "$HOME" "$HOME/" ../user ../../link/ .. ../.. ../../home /; do
		TO=$out refused 7 2 "rank 0: '.git/config' is hidden" -- "${command[@]}"
	done
	assert_equal "$(files home)" $'./user\n./user/.profile\n./user/sub\nown'
	[[ ! -e fine ]]
	for out in sub sub new/ ../other "$HOME/sub"; do
		TO=$out go 2 "${command[@]}"
		[[ $out == /* ]] || out=$HOME/$out
		assert_equal "$(<"$out/.profile") $(<"$out/.git/config")" 'evil config'
	done
	# Without hidden names at the top it may come into any.
	rm -r tree/.git tree/.profile
	TO=. go 2 "${command[@]}"
	assert_equal "$(<home/user/deep/.x/.y)$(<home/user/.profile)" xown
	cd home/user
	go 1 broadcast --raw-file "$from/tree" -o .
}

@test "75: a path that is too long for other ranks: 3, with its name" {
	py <<<'
import os
def deep(top, levels):
    os.mkdir(top)
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 200, dir_fd=fd)
        fd = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
    with open(os.open("the-file", os.O_CREAT | os.O_WRONLY, dir_fd=fd), "w") as f:
        f.write("deep")
deep("fits", 20)
deep("long", 21)
'
	go 2 broadcast --raw-file fits -o 'a-folder-whose-name-makes-the-path-longer-than-others-may-be-that-are-opened-whole.{rank}'
	assert_equal "$(find a-* -name the-file | wc -l)" 2
	refused 3 2 'long: ddd' 'the-file has a path of 4229 bytes in this folder: expected at most 4095' -- broadcast --raw-file long -o 'no.{rank}'
	[[ ! -e no.0 && ! -e no.1 ]]
}

@test "75: the names in archives and indexes: 3" {
	py <<<'
import io, json, zipfile
bad = ["../a", "/a", "a/../../b", "//a", "a//../b", "..", "a/..", "../..a/.."]
good = ["a/b", ".a", "...", "-o", "a b", "a\nb", "\u202e", "n" * 300, "..a/b..", "a//b", "./a"]
def archive(path, name):
    data = io.BytesIO()
    np.save(data, np.zeros(2, "f4"))
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(name + ".npy", data.getvalue())
for i, name in enumerate(bad):
    archive(f"bad{i}.npz", name + "/x" if name.endswith("..") else name)
for i, name in enumerate(good):
    archive(f"good{i}.npz", name)
archive("utf8.npz", "\u00e9-o")
# libzip shows another character for the NUL
open("good-nul.npz", "wb").write(open("utf8.npz", "rb").read().replace(b"-o.npy", b"\0o.npy"))
save_set("set", {"a.safetensors": {"x": np.zeros(3, "f4")}})
index = next(f for f in __import__("os").listdir("set") if f.endswith(".json"))
text = open("set/" + index).read()
for i, name in enumerate(bad + [".a", "a/b", "./a", "a\nb", "a\u009b", "a\u202eb", "a\u007f", "a\0b", "", ".", "n" * 300]):
    with open(f"set/{i}.safetensors.index.json", "w") as f:
        f.write(json.dumps({"weight_map": {"x": name}}))
'
	local f
	for f in bad*.npz; do
		refused 3 1 "$f: member '" 'leaves the archive' -- allreduce "$f" -o out.npz
	done
	for f in good*.npz; do
		go 1 allreduce "$f" -o out.npz
	done
	for f in set/[0-9]*.json; do
		refused 3 1 "$f: " -- allreduce "$f" -o out/
	done
	[[ ! -e out ]]
}

@test "75: names that a terminal would obey are escaped in texts and JSON" {
	py <<<'
save_safetensors("x.safetensors", {"a\u009b2J\u202eb\u007f": np.zeros(3, "f4")})
save_safetensors("y.safetensors", {"a\u009b3J\u202eb\u007f": np.zeros(3, "f4")})
'
	local out
	for out in "$(collctl info x.safetensors)" "$(collctl info --json x.safetensors)" \
		"$(collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && f=x || f=y; exec "$0" allreduce $f.safetensors "$@"' "$COLLCTL" --json -o o --insecure 2>&1)"; do
		[[ $out == *2J* ]]
		! grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]' <<<"$out" || fail "raw bytes in $out"
	done
	assert_equal "$(collctl info --json x.safetensors | jq -r '.tensors[0].name')" $'a\xc2\x9b2J\xe2\x80\xaeb\x7f'
}
