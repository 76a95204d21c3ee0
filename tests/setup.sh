#!/usr/bin/env bash
# Install the Debian packages that a group of tasks needs, only those that are missing.
#
#   tests/setup.sh build|demo|gpu|test|more|launchers|bench|package
#   tests/setup.sh torch      install the newest torch, safetensors and mergekit from PyPI (6 GB) into the virtual environment in the folder
#                             TORCH_VENV, or with TORCH_VERSION=2.0.1 that torch alone; COLLCTL_TORCH_PYTHON then names its bin/python
#   tests/setup.sh check      install nothing; is what the build needs there?
#   tests/setup.sh GROUP --names      install nothing; print the group's packages, one a line
#
# Each group contains the ones before it, but bench only build and demo, and package only build. Where nothing can be
# installed (not root, no apt), it names the packages and goes on if what they provide is found.
set -euo pipefail

if [[ ${1-} == torch ]]; then
	: "${TORCH_VENV:?names the folder of the virtual environment}"
	[[ -x $TORCH_VENV/bin/python ]] || python3 -m venv "$TORCH_VENV"
	modules=(torch numpy safetensors mergekit)
	[[ -z ${TORCH_VERSION-} ]] || modules=("torch==$TORCH_VERSION" 'numpy<2' safetensors)
	exec "$TORCH_VENV/bin/python" -m pip install -q "${modules[@]}"
fi

build=(gcc libc6-dev make pkg-config
	libssl-dev libjansson-dev libxxhash-dev libcurl4-openssl-dev libmicrohttpd-dev libzip-dev libzstd-dev)
# The wide vectors of AES-GCM (lib/net/tls/tls_gcm.h); OpenSSL's own serve without it.
[[ $(dpkg --print-architecture 2>/dev/null) != amd64 ]] || build+=(libipsec-mb-dev)
demo=(python3-numpy)
gpu=(bats bats-assert bats-support bats-file iproute2 jq) # for tests/gpu/jobs.bats
test=(btrfs-progs ca-certificates cmark-gfm curl e2fsprogs etcd-server fish g++ git
	libcmocka-dev libgnutls28-dev libxml2-utils mandoc mpich munge openmpi-bin openssh-client openssh-server openssl patch procps
	python3-jsonschema python3-pytest python3-venv python3-yaml slurm-client slurmctld slurmd socat strace xfsprogs zsh)
more=(clang clang-format clang-tidy libclang-rt-dev shellcheck pyflakes3) # for make check-more
[[ $(dpkg --print-architecture 2>/dev/null) == arm64 ]] || more+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
launchers=(python3-torch) # 600 MB, so that only long runs install it; they install the group package, too
bench=(clustershell iperf3 iproute2 iputils-ping libmpich-dev libopenmpi-dev openmpi-bin openssh-client openssh-server python3-mpi4py rsync
	xdelta3 xfsprogs zstd)
package=(cmake debhelper dpkg-dev fakeroot lintian xz-utils zlib1g-dev)

# What stands for a package where dpkg is not asked: a tool, or a header.
stands_for() {
	case $1 in
	libc6-dev) echo stdio.h ;;
	libssl-dev) echo openssl/ssl.h ;;
	libjansson-dev) echo jansson.h ;;
	libxxhash-dev) echo xxhash.h ;;
	libcurl4-openssl-dev) echo curl/curl.h ;;
	libmicrohttpd-dev) echo microhttpd.h ;;
	libzip-dev) echo zip.h ;;
	libzstd-dev) echo zstd.h ;;
	libipsec-mb-dev | gcc-aarch64-linux-gnu | libc6-dev-arm64-cross | qemu-user) echo stddef.h ;; # never in the way
	libcmocka-dev) echo cmocka.h ;;
	libgnutls28-dev) echo gnutls/gnutls.h ;;
	iproute2) echo ss ;;
	procps) echo pkill ;;
	libxml2-utils) echo xmllint ;;
	etcd-server) echo etcd ;;
	btrfs-progs) echo mkfs.btrfs ;;
	e2fsprogs) echo filefrag ;;
	xfsprogs) echo mkfs.xfs ;;
	openmpi-bin) echo mpirun ;;
	mpich) echo mpiexec.hydra ;;
	slurm-client) echo srun ;;
	python3-torch) echo torchrun ;;
	clustershell) echo clush ;;
	iputils-ping) echo ping ;;
	openssh-client) echo ssh ;;
	openssh-server) echo sshd ;;
	libopenmpi-dev) echo mpicc ;;
	debhelper) echo dh ;;
	dpkg-dev) echo dpkg-source ;;
	xz-utils) echo xz ;;
	zlib1g-dev) echo zlib.h ;;
	*) echo "$1" ;;
	esac
}

read -ra cc <<<"${CC:-cc} ${CPPFLAGS-}"

found() { # is what package $1 provides there, by whatever way it came?
	local what
	what=$(stands_for "$1")
	case $1 in
	gcc) "${cc[@]}" --version >/dev/null 2>&1 ;;
	python3-numpy) /usr/bin/env python3 -c 'import numpy' 2>/dev/null ;;
	python3-pytest) /usr/bin/env python3 -c 'import pytest' 2>/dev/null ;;
	python3-venv) /usr/bin/env python3 -c 'import ensurepip' 2>/dev/null ;;
	python3-jsonschema) /usr/bin/env python3 -c 'import jsonschema' 2>/dev/null ;;
	python3-yaml) /usr/bin/env python3 -c 'import yaml' 2>/dev/null ;;
	python3-mpi4py) /usr/bin/env python3 -c 'import mpi4py' 2>/dev/null ;;
	bats-*) [[ -d /usr/lib/bats/$1 ]] ;;
	libmpich-dev) compgen -G '/usr/include/*/mpich/mpi.h' >/dev/null ;;
	libclang-rt-*) compgen -G "$(clang -print-resource-dir)/lib/*/libclang_rt.fuzzer*.a" >/dev/null ;;
	*) case $what in
		*.h) printf '#include <stddef.h>\n#include <stdarg.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$what" |
			"${cc[@]}" -E -x c - >/dev/null 2>&1 ;;
		*) command -v "$what" >/dev/null ;;
		esac ;;
	esac
}

installed() {
	[[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

case ${1-} in
build | check) want=("${build[@]}") ;;
demo) want=("${build[@]}" "${demo[@]}") ;;
gpu) want=("${build[@]}" "${demo[@]}" "${gpu[@]}") ;;
test) want=("${build[@]}" "${demo[@]}" "${gpu[@]}" "${test[@]}") ;;
more) want=("${build[@]}" "${demo[@]}" "${gpu[@]}" "${test[@]}" "${more[@]}") ;;
launchers) want=("${build[@]}" "${demo[@]}" "${gpu[@]}" "${test[@]}" "${more[@]}" "${launchers[@]}" "${package[@]}") ;;
bench) want=("${build[@]}" "${demo[@]}" "${bench[@]}") ;;
package) want=("${build[@]}" "${package[@]}") ;;
*)
	echo "usage: tests/setup.sh build|demo|gpu|test|more|launchers|bench|package|torch|check" >&2
	exit 2
	;;
esac

if [[ ${2-} == --names ]]; then
	printf '%s\n' "${want[@]}"
	exit 0
fi

absent() { # those of "${want[@]}" that are not there, a line
	local p
	for p in "${want[@]}"; do
		found "$p" || echo "$p"
	done
}

if [[ $1 == check ]]; then
	needed=$(absent | xargs)
	hint="'make deps' installs them"
	[[ -z ${CROSS-} ]] || hint="those of $CROSS are needed (CONTRIBUTING.md, Other processors)"
	[[ -z $needed ]] || {
		echo "make: packages that the build needs are missing: $needed (Debian's names); $hint" >&2
		exit 1
	}
	exit 0
fi

missing=()
for p in "${want[@]}"; do
	installed "$p" || missing+=("$p")
done
((${#missing[@]})) || exit 0

if ((EUID == 0)) && command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
	echo "setup: installing ${missing[*]}" >&2
	export DEBIAN_FRONTEND=noninteractive
	# A wait for another apt, no questions, no terminal.
	apt=(apt-get -q -o DPkg::Lock::Timeout=120)
	"${apt[@]}" update >&2 </dev/null || echo "setup: apt-get update failed; using the package lists of this machine" >&2
	"${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 </dev/null
	# The tests start these by themselves; no service is to run because of them.
	for p in "${missing[@]}"; do
		case $p in
		etcd-server) systemctl disable --now etcd >/dev/null 2>&1 || true ;;
		munge | slurmctld | slurmd) systemctl disable --now "$p" >/dev/null 2>&1 || true ;;
		openssh-server) systemctl disable --now ssh >/dev/null 2>&1 || true ;;
		esac
	done
	exit 0
fi

want=("${missing[@]}")
needed=$(absent | xargs)
if [[ $needed ]]; then
	echo "setup: not root on Debian, so nothing was installed" >&2
	echo "setup: packages that are needed but missing (Debian's names): $needed" >&2
	exit 1
fi
