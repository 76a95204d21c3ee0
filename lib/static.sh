#!/usr/bin/env bash
# Compile the libraries of the static program and of the wheel that Debian's packages do not have as archives, or not with
# what collctl needs: libcurl, libmicrohttpd, libzip, jansson and xxhash, from the sources of the running Debian.
#
#   lib/static.sh FOLDER [HOST]      leaves FOLDER/include, FOLDER/lib, and FOLDER/licenses: of each archive a link to the
#                                    text of its licence
#
# HOST: for another processor, such as aarch64-linux-gnu, whose tools CC, AR and RANLIB name (cross.mk).
# DEBIAN_MIRROR names another mirror than deb.debian.org. DEBIAN_SUITE names a newer Debian than the running one: then the
# sources are its, and OpenSSL and libzstd are compiled, too.
set -euo pipefail

mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
host=${2-}
cpu=${host%%-*}
: "${cpu:=$(uname -m)}"
unset MAKEFLAGS MFLAGS MAKEOVERRIDES # of a make that runs this, whose CC is another one's
mkdir -p "$1"
cd "$1"
rm -rf apt sources build include lib licenses
mkdir -p apt/lists/partial apt/cache/archives/partial sources build include lib licenses
top=$PWD log=$PWD/log
names=(curl libmicrohttpd libzip jansson xxhash)
[[ -z ${DEBIAN_SUITE-} ]] || names=(openssl libzstd "${names[@]}")
suite=${DEBIAN_SUITE:-$(. /etc/os-release && [[ $ID != debian ]] || echo "$VERSION_CODENAME")}
if [[ -z $suite ]] || ! command -v apt-get >/dev/null; then
	echo "make static: this is no Debian, whose sources and archives are needed" >&2
	exit 1
fi

# ---- sources ----

# fetch SUITE...: the sources of all, in the newest versions of these suites
fetch() {
	local s apt=(apt-get -q -o Dir::Etc::sourcelist="$PWD/apt/sources.list" -o Dir::Etc::sourceparts=/none
		-o Dir::State::lists="$PWD/apt/lists" -o Dir::Cache="$PWD/apt/cache" -o APT::Sandbox::User=root)
	for s; do
		echo "deb-src [signed-by=$keyring] $mirror/$s main"
	done >apt/sources.list
	"${apt[@]}" update && (cd sources && "${apt[@]}" source --download-only "${names[@]}")
} >>"$log" 2>&1 </dev/null

failed() {
	echo "make static: $1; the end of $log:" >&2
	tail -n 20 "$log" >&2
	exit 1
}

: >"$log"
# A mirror may lag behind the index of its security updates.
fetch "debian $suite" "debian-security $suite-security" || fetch "debian $suite" ||
	failed "the sources cannot be had from $mirror"

# ---- libraries ----

flags="-O2 -fPIC -fstack-protector-strong -ffunction-sections -fdata-sections -ffile-prefix-map=$PWD=."
jobs=$(nproc)

unpack() { # NAME
	local dsc=(sources/"$1"_*.dsc)
	dpkg-source --no-check -x "${dsc[-1]}" "build/$1" # apt has checked it
}

build_openssl() {
	./config no-shared no-tests --openssldir=/etc/ssl CFLAGS="$flags" && make -j"$jobs" build_libs &&
		cp libssl.a libcrypto.a ../../lib && cp -r include/openssl ../../include
}

configure_by_cmake() { # OPTIONS...
	local cross=()
	[[ -z $host ]] || cross=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$cpu")
	[[ ${CC-} != *--sysroot=* ]] || cross+=(-DCMAKE_FIND_ROOT_PATH="${CC##*--sysroot=}" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER)
	cmake "${cross[@]}" "$@" -DCMAKE_C_FLAGS="$flags" .
}

# Debian's archive cannot be linked into a shared library.
build_jansson() {
	configure_by_cmake -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON &&
		make -j"$jobs" jansson && cp lib/libjansson.a ../../lib && cp include/jansson*.h ../../include
}

# Debian's archive lacks the functions for the vectors that are found at run time.
build_xxhash() {
	local cc files=(xxhash.c)
	read -ra cc <<<"${CC:-cc}"
	[[ $cpu != x86_64 ]] || files+=(xxh_x86dispatch.c)
	# shellcheck disable=SC2086 # words
	"${cc[@]}" $flags -O3 -c "${files[@]}" && "${AR:-ar}" rcs ../../lib/libxxhash.a ./*.o && cp xxh*.h ../../include
}

build_libzstd() {
	make -C lib -j"$jobs" CFLAGS="$flags" libzstd.a && cp lib/libzstd.a ../../lib && cp lib/zstd*.h ../../include
}

# No protocol but HTTP, and no way to fetch more than a store needs.
build_curl() {
	local without=(zlib brotli zstd libpsl librtmp libidn2 nghttp2 libssh2 libssh gssapi ca-bundle ca-path)
	local disable=(shared ftp file ldap ldaps rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt manual
		alt-svc hsts ntlm unix-sockets cookies)
	./configure ${host:+--host="$host"} --enable-static --with-openssl${DEBIAN_SUITE:+="$top"} --with-ca-fallback "${without[@]/#/--without-}" \
		"${disable[@]/#/--disable-}" CFLAGS="$flags" &&
		make -C lib -j"$jobs" && cp lib/.libs/libcurl.a ../../lib && cp -r include/curl ../../include
}

build_libmicrohttpd() {
	local disable=(shared https doc examples curl postprocessor dauth bauth messages)
	./configure ${host:+--host="$host"} --enable-static "${disable[@]/#/--disable-}" CFLAGS="$flags" &&
		make -C src/microhttpd -j"$jobs" && cp src/microhttpd/.libs/libmicrohttpd.a ../../lib &&
		cp src/include/microhttpd.h ../../include
}

# Without arc4random, which needs glibc 2.36.
build_libzip() {
	local off=(HAVE_ARC4RANDOM BUILD_SHARED_LIBS ENABLE_COMMONCRYPTO ENABLE_GNUTLS ENABLE_MBEDTLS ENABLE_OPENSSL ENABLE_BZIP2
		ENABLE_LZMA BUILD_TOOLS BUILD_REGRESS BUILD_EXAMPLES BUILD_DOC)
	off=("${off[@]/#/-D}")
	configure_by_cmake "${off[@]/%/=OFF}" && make -j"$jobs" zip && cp lib/libzip.a ../../lib &&
		cp lib/zip.h zipconf.h ../../include
}

for name in "${names[@]}"; do
	echo "  STATIC  $name"
	{ unpack "$name" && (cd "build/$name" && "build_$name"); } >>"$log" 2>&1 </dev/null ||
		failed "$name cannot be compiled"
	cp "build/$name/debian/copyright" "licenses/$name"
	for archive in lib/*.a; do # what is new belongs to it
		[[ -e licenses/${archive#lib/} ]] || ln -s "$name" "licenses/${archive#lib/}"
	done
done
rm -rf apt build
