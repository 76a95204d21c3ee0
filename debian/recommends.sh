#!/bin/sh
# Print the substvar dlopen:Recommends of an ELF file: the installed packages of the libraries that the notes in
# its section .note.dlopen name (https://uapi-group.org/specifications/specs/elf_dlopen_metadata/).
#
#   debian/recommends.sh FILE
set -eu

packages=
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"${OBJCOPY:-objcopy}" --dump-section .note.dlopen="$tmp/notes" "$1" "$tmp/copy" || exit
# One line for each note: its names, any of which will do.
for names in $(tr '\0' '\n' <"$tmp/notes" | sed -n 's/.*"priority":"recommended".*"soname":\[\([^]]*\)\].*/\1/p'); do
	package=
	for name in $(echo "$names" | tr -d '"' | tr , ' '); do
		[ -z "$package" ] || break
		package=$(dpkg-query -S "*/$name" 2>/dev/null | sed -n '1s/:.*//p')
	done
	[ -n "$package" ] || {
		echo "recommends.sh: no installed package has $names, which $1 opens" >&2
		exit 1
	}
	packages="$packages${packages:+, }$package"
done
echo "dlopen:Recommends=$packages"
