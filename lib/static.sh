#!/usr/bin/env bash
# Compile the libraries of the static program that Debian's packages do not have as archives, or only with
# more than collctl needs: libcurl, libmicrohttpd and libzip, from the sources of the running Debian.
#
#   lib/static.sh FOLDER [HOST]      leaves FOLDER/include and FOLDER/lib
#
# HOST: for another processor, such as aarch64-linux-gnu, whose tools CC, AR and RANLIB name (cross.mk).
# DEBIAN_MIRROR names another mirror than deb.debian.org.
set -euo pipefail

mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
host=${2-}
unset MAKEFLAGS MFLAGS MAKEOVERRIDES # of a make that runs this, whose CC is another one's
mkdir -p "$1"
cd "$1"
rm -rf apt sources build include lib
mkdir -p apt/lists/partial apt/cache/archives/partial sources build include lib
log=$PWD/log
suite=$(. /etc/os-release && [[ $ID != debian ]] || echo "$VERSION_CODENAME")
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
	"${apt[@]}" update && (cd sources && "${apt[@]}" source --download-only curl libmicrohttpd libzip)
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

# No protocol but HTTP, and no way to fetch more than a store needs.
build_curl() {
	local without=(zlib brotli zstd libpsl librtmp libidn2 nghttp2 libssh2 libssh gssapi ca-bundle ca-path)
	local disable=(shared ftp file ldap ldaps rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt manual
		alt-svc hsts ntlm unix-sockets cookies)
	./configure ${host:+--host="$host"} --enable-static --with-openssl --with-ca-fallback "${without[@]/#/--without-}" \
		"${disable[@]/#/--disable-}" CFLAGS="$flags" &&
		make -C lib -j"$jobs" && cp lib/.libs/libcurl.a ../../lib && cp -r include/curl ../../include
}

build_libmicrohttpd() {
	local disable=(shared https doc examples curl postprocessor dauth bauth messages)
	./configure ${host:+--host="$host"} --enable-static "${disable[@]/#/--disable-}" CFLAGS="$flags" &&
		make -C src/microhttpd -j"$jobs" && cp src/microhttpd/.libs/libmicrohttpd.a ../../lib &&
		cp src/include/microhttpd.h ../../include
}

build_libzip() {
	local off=(BUILD_SHARED_LIBS ENABLE_COMMONCRYPTO ENABLE_GNUTLS ENABLE_MBEDTLS ENABLE_OPENSSL ENABLE_BZIP2
		ENABLE_LZMA BUILD_TOOLS BUILD_REGRESS BUILD_EXAMPLES BUILD_DOC)
	off=("${off[@]/#/-D}")
	local cross=()
	[[ -z $host ]] || cross=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="${host%%-*}")
	[[ ${CC-} != *--sysroot=* ]] || cross+=(-DCMAKE_FIND_ROOT_PATH="${CC##*--sysroot=}" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER)
	cmake "${cross[@]}" "${off[@]/%/=OFF}" -DCMAKE_C_FLAGS="$flags" . && make -j"$jobs" zip && cp lib/libzip.a ../../lib &&
		cp lib/zip.h zipconf.h ../../include
}

for name in curl libmicrohttpd libzip; do
	echo "  STATIC  $name"
	{ unpack "$name" && (cd "build/$name" && "build_$name"); } >>"$log" 2>&1 </dev/null ||
		failed "$name cannot be compiled"
done
rm -rf apt build
