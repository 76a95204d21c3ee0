#!/usr/bin/env bats
# What is shipped: the source tarball, the notes of libraries that are opened at run time, and, in the long runs,
# Debian's packages and the static program.

load helpers

# in_source: skip the test where the sources are no git checkout, or the program is not of this tree
in_source() {
	git -C "$ROOT" rev-parse --is-inside-work-tree >/dev/null 2>&1 || skip 'no git checkout'
	[[ $COLLCTL == "$ROOT"/* ]] || skip "$COLLCTL was not built here"
}

# long_build: skip the test in the short runs, and under sanitizers
long_build() {
	((LONG)) || skip 'COLLCTL_LONG=1 builds packages'
	no_sanitizers 'are not shipped'
	in_source
}

# make_in FOLDER GOAL: with nothing of what the tests set
make_in() {
	env -u MAKEFLAGS make -s -C "$ROOT" BUILD="$PWD/$1" NVCC= "$2" >"$1.log" 2>&1 || fail "$(tail -n 30 "$1.log")"
}

@test "dist: the same tree gives the same bytes, with all files of the checkout" {
	in_source
	make_in one dist
	make_in two dist
	cmp one/*.tar.gz two/*.tar.gz
	tar -xzf one/*.tar.gz
	cd collctl-*
	assert_equal "$(basename "$PWD")" "$(collctl --version | tr ' ' -)"
	assert_equal "$(find . -type f ! -path ./.commit -printf '%P\n' | LC_ALL=C sort)" \
		"$(git -C "$ROOT" ls-files | LC_ALL=C sort)"
	[[ $(<.commit) =~ ^[0-9a-f]{12}(-dirty)?$ ]]
	assert_equal "$(sed -n '1s/^collctl (\(.*\)) .*/\1/p' debian/changelog)" "$(basename "$PWD" | cut -d- -f2)"
	# What is unpacked there names the commit, but is no checkout.
	run -2 env -u MAKEFLAGS make -s NVCC= GIT_DIR=/none dist
	assert_output --partial 'this is no git checkout'
}

@test "the notes in .note.dlopen name the libraries that the code opens, and Debian's packages of them" {
	command -v objcopy >/dev/null || skip 'no objcopy'
	no_sanitizers 'may pad the notes'
	in_source
	local file
	for file in "$COLLCTL" "${COLLCTL%/*}/libcollctl.so.0"; do
		objcopy --dump-section .note.dlopen=notes "$file" copy
		"$PYTHON" - <<-'EOT' >got
			import json, struct
			data, at = open("notes", "rb").read(), 0
			while at < len(data):
			    name, size, kind = struct.unpack_from("<3I", data, at)
			    assert (name, kind, data[at + 12:at + 16]) == (4, 0x407C0C0A, b"FDO\0"), data[at:at + 16]
			    for note in json.loads(data[at + 16:at + 16 + size].rstrip(b"\0")):
			        assert note["priority"] == "recommended" and note["feature"] and note["description"]
			        print(*note["soname"])
			    at += 16 + (size + 3) // 4 * 4
		EOT
		grep -rlZ --include='*.c' '^LIBRARY(' "$ROOT/lib" | xargs -0 cat | tr -s '[:space:]' ' ' |
			grep -oE '("lib\w+\.so\.[0-9]+"(, )?)+' | tr -d '",' >want
		[[ $(wc -l <want) -ge 3 ]]
		[[ $(uname -m) == x86_64 && -f /usr/include/intel-ipsec-mb.h ]] || sed -i /libIPSec_MB/d want
		assert_equal "$(sort got)" "$(sort want)"
		[[ -f /etc/debian_version ]] || continue
		# The packages that messages name, without those that are not needed to build here.
		"$ROOT/debian/recommends.sh" "$file" | tr -d ' ' | cut -d= -f2 | tr , '\n' >packages
		[[ $(wc -l <packages) == $(wc -l <want) ]]
		while read -r file; do
			grep -rqF "\"$file\"" "$ROOT/lib" || fail "no message names $file"
		done <packages
	done
}

@test "deb: two builds in two folders give the same bytes, and lintian is content" {
	long_build
	local file
	for file in lintian dpkg-buildpackage dh; do
		command -v "$file" >/dev/null || skip "no $file"
	done
	make_in one deb
	make_in two deb
	for file in one/deb/*.deb one/deb/*.tar.xz; do
		cmp "$file" "two/deb/${file##*/}"
	done
	run -0 lintian --fail-on error,warning --allow-root one/deb/*.changes
	refute_output --regexp '^[EW]:'
	mkdir root
	for file in one/deb/*.deb; do
		dpkg-deb -x "$file" root
	done
	assert_equal "$(dpkg-deb -f one/deb/collctl_*.deb Recommends | tr -d ' ')" \
		"ca-certificates,$("$ROOT/debian/recommends.sh" root/usr/bin/collctl | cut -d= -f2 | tr -d ' ')"
	assert_equal "$(dpkg-deb -f one/deb/collctl_*.deb Suggests)" collctl-cuda
	root/usr/bin/collctl run -n 2 -- barrier
}

# a_root NAME: an empty root with the static program; nothing but /dev/null
a_root() {
	mkdir -p "$1"/{dev,etc,tmp}
	mknod -m 666 "$1/dev/null" c 1 3 || skip 'no device can be made here'
	cp "$BUILT" "$1/collctl"
	cp job.key in.*.npy "$1/tmp"
}

@test "static: 4 ranks with TLS, a store and names, in roots with nothing else" {
	long_build
	((EUID == 0)) || skip 'only root can chroot'
	make_in build static
	BUILT=$PWD/build/static/collctl
	(($(stat -c %s "$BUILT") <= 14000000)) # 1.3 MB of it is libzstd
	readelf -lW "$BUILT" >headers
	refute grep INTERP headers
	make_secret
	make_shards 4 f32 1000
	local like r
	for like in empty alpine centos; do
		a_root "$like"
		case $like in
		alpine) printf '127.0.0.1\tlocalhost head\n' >alpine/etc/hosts ;; # musl knows no nsswitch.conf
		centos)
			printf '127.0.0.1\tlocalhost head\n' >centos/etc/hosts
			printf 'hosts: sss [!UNAVAIL=return] myhostname\npasswd: sss\n' >centos/etc/nsswitch.conf
			;;
		esac
		COLLCTL=$BUILT start_serve
		[[ $like == empty ]] || STORE=${STORE/127.0.0.1/head}
		for r in 0 1 2 3; do
			spawn_rank "$r" chroot "$like" /collctl allreduce -n 4 -r "$r" -R "$STORE" \
				--secret-file /tmp/job.key --lanes tcp "/tmp/in.$r.npy" -o "/tmp/out.$r.npy"
		done
		wait_ranks
		assert_ranks 4 0
		mv "$like"/tmp/out.*.npy .
		check_out sum 4
		rm out.*.npy
	done
	run -0 --separate-stderr chroot empty /collctl version --json
	assert_equal "$(jq -c .build.lacks <<<"$output")" \
		'["GPU plug-ins","serve over HTTPS","names from other sources than /etc/hosts and DNS"]'
	[[ $(jq -r .libraries.libcurl,.libraries.libzip,.libraries.libzstd,.libraries.libmicrohttpd <<<"$output") != *null* ]]
	run -0 chroot empty /collctl version
	assert_line --regexp '^lacks +GPU plug-ins$'
	run -5 --separate-stderr chroot empty /collctl barrier -n 2 -r 0 -R http://nosuch.invalid:7 --secret-file /tmp/job.key --join-timeout 2s
	[[ $stderr == *'nosuch.invalid'* ]]
}
