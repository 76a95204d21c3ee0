#!/usr/bin/env bash
# Make a folder with the libraries and headers that a build for another processor needs, of Debian's packages.
#
#   tests/sysroot.sh ARCH FOLDER      ARCH: Debian's name, such as arm64
#
# Then `make CC=aarch64-linux-gnu-gcc SYSROOT=FOLDER` builds with them (cross.mk). apt has a state of its own below FOLDER/apt, so
# that the packages of this machine stay as they are. Packages come from the Debian sources of this machine's apt. FOLDER/packages
# lists what is there; a complete FOLDER is left as it is.
set -euo pipefail

arch=$1
mkdir -p "$2"
here=$(dirname "$(realpath "$0")")
cd "$2"

# What the build of the program, its unit tests and `make static` needs; ipsec-mb is for x86 alone.
mapfile -t want < <("$here/setup.sh" build --names | grep '^lib.*-dev$' | grep -v '^libipsec-mb-dev$')
want+=(libcmocka-dev zlib1g-dev)
[[ ! -f packages || $(head -n 1 packages) != "$arch ${want[*]}" ]] || exit 0
command -v apt-get >/dev/null || {
	echo "sysroot: there is no apt-get, with which the packages of $arch are fetched" >&2
	exit 1
}

rm -rf apt usr lib packages
mkdir -p apt/state/lists/partial apt/cache/archives/partial apt/sources
: >apt/state/status
cat >apt/conf <<-END
	APT::Architecture "$arch";
	APT::Architectures { "$arch"; };
	APT::Sandbox::User "$(id -un)";
	APT::Install-Recommends "false";
	Dir::State "$PWD/apt/state";
	Dir::State::status "$PWD/apt/state/status";
	Dir::Cache "$PWD/apt/cache";
	Dir::Etc::sourcelist "$PWD/apt/sources.list";
	Dir::Etc::sourceparts "/none";
END
# shellcheck disable=SC2016 # for apt
apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
	sed -n 's,^Debian ,deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ,p' >apt/sources.list
export APT_CONFIG=$PWD/apt/conf DEBIAN_FRONTEND=noninteractive
{
	apt-get -q update && apt-get -q install -y --download-only "${want[@]}"
} >apt/log 2>&1 </dev/null || {
	echo "sysroot: the packages of $arch cannot be fetched; the end of $PWD/apt/log:" >&2
	tail -n 20 apt/log >&2
	exit 1
}
for package in apt/cache/archives/*.deb; do
	dpkg-deb -x "$package" .
done

# Links to / lead out of the folder: make them relative.
find lib usr -type l -lname '/*' | while read -r link; do
	ln -snfr ".$(readlink "$link")" "$link"
done
{
	echo "$arch ${want[*]}"
	basename -a apt/cache/archives/*.deb
} >apt/packages
mv apt/packages packages
rm -rf apt etc var usr/share/doc
