# shellcheck shell=bash
# What the scripts have in common that look whether planted bugs are found: tests/sim/bugs.sh, tests/gpu/bugs.sh.

# bug_arguments FOLDER COUNTED ARGUMENT...: [--seed N] [--COUNTED N] [NAME...]. Sets $seed, $count and the array names, which has
# all bugs of FOLDER/bugs if none is named. $seed and $count keep their values if they are not given.
# shellcheck disable=SC2034 # $seed, $count: of the caller
bug_arguments() {
	local folder=$1 counted=$2 patch
	shift 2
	while [[ ${1-} == --* ]]; do
		case $1 in
		--seed) seed=$2 ;;
		"--$counted") count=$2 ;;
		*)
			echo "$folder/bugs.sh: no option '$1'" >&2
			exit 2
			;;
		esac
		shift 2
	done
	names=("$@")
	((${#names[@]} == 0)) || return 0
	for patch in "$folder"/bugs/*.patch; do
		patch=${patch##*/}
		names+=("${patch%.patch}")
	done
}
