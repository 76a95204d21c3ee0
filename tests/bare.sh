#!/usr/bin/env bash
# Do the README's commands, make demo, make check and make check-more, pass for a new user: root of an empty Debian 12 with git and make, the checkout in /root?
#
#   tests/bare.sh [--here LOG] [--root DIR] [REGEX]
#
# debootstrap makes the root (variant minbase), in a mount and a process namespace, so that the tests can have
# network namespaces and mounts of their own there and nothing of it stays. The last commit is tested, without uncommitted
# changes. Packages come from the mirrors of this machine's apt (COLLCTL_MIRROR names another). REGEX: only these suites.
#
# Prints TAP: the demo; each suite that ran there, of both runs. --here LOG: what `make check` and `make check-more` have
# printed on this machine, one after the other; a suite that has passed or skipped other numbers of tests there fails. --root DIR: keep the root in DIR, and use it again.
set -euo pipefail
cd "$(dirname "$0")/.."

here='' root=''
while [[ ${1-} == --* ]]; do
	case $1 in
	--here) here=$(realpath "$2") && shift ;;
	--root) root=$2 && shift ;;
	*)
		echo "tests/bare.sh: no option '$1'" >&2
		exit 2
		;;
	esac
	shift
done
only=${1-}

skip() {
	echo "1..0 # skip $1"
	exit 0
}
((EUID == 0)) || skip 'only root can make an empty root'
unshare --mount --pid --fork true 2>/dev/null || skip 'no mount and process namespace can be made here'
command -v debootstrap >/dev/null || {
	apt-get -qq install -y --no-install-recommends debootstrap >/dev/null 2>&1 </dev/null ||
		skip 'debootstrap is not installed, and cannot be'
}
[[ -z $(git status --porcelain) ]] || echo '# not committed, and so not tested:' "$(git status --porcelain | head -5)"

work=$(mktemp -d "${TMPDIR:-/tmp}/collctl-bare.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
root=${root:-$work/root}

if [[ ! -x $root/usr/bin/make ]]; then
	# The mirror of the first Debian archive that apt uses here.
	mirror=${COLLCTL_MIRROR-}
	# shellcheck disable=SC2016 # for apt
	[[ -n $mirror ]] ||
		mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN)' 2>/dev/null | awk '$2 == "Debian" { print $1; exit }' || true)
	mirror=${mirror:-http://deb.debian.org/debian}
	debootstrap --variant=minbase --include=git,make bookworm "$root" "$mirror" >"$work/log" 2>&1 || {
		echo '1..1'
		echo "not ok 1 debootstrap bookworm from $mirror"
		tail -n 20 "$work/log" | sed 's/^/# /'
		exit 1
	}
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
printf '127.0.0.1 localhost %s\n::1 localhost\n' "$(hostname)" >"$root/etc/hosts" # as every installation has it
cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
rm -rf "$root/root/collctl"
git clone -q --no-hardlinks . "$root/root/collctl"

# inside COMMAND...: as root of that root, with an environment of nothing
inside() {
	# shellcheck disable=SC2016 # for that shell
	unshare --mount --pid --fork --kill-child --propagation private bash -ec '
		root=$1
		shift
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || true
		mount -t tmpfs -o mode=755 tmpfs "$root/run"
		mkdir -p "$root/old"
		cd "$root"
		pivot_root . old # in a chroot the kernel allows no user namespaces
		umount -l old
		exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			"$@"' - "$root" "$@" </dev/null
}

rc=0
inside bash -c 'cd /root/collctl && make demo' >"$work/demo" 2>&1 || rc=1
result=ok
((rc == 0)) || result='not ok'
echo "$result 1 make demo"
((rc == 0)) || tail -n 40 "$work/demo" | sed 's/^/# /'

commands=('make check' 'make check-more')
[[ -z $only ]] || commands=("make deps-test && tests/run.sh $(printf %q "$only")" "make deps-more && tests/run.sh --more $(printf %q "$only")")
for run in 1 2; do
	inside bash -c "cd /root/collctl && ${commands[run - 1]}" >"$work/check.$run" 2>&1 || rc=1
done

# A line for each suite of each run, and what it said of failures and skips. In LOG a run begins with the version.
awk -v here="$here" '
	function key(line, parts) { # "NAME P,F,S"
		split(line, parts, " ")
		p = line; sub(/ passed.*/, "", p); sub(/.* /, "", p)
		f = line; if (!sub(/ failed.*/, "", f)) f = 0; else sub(/.* /, "", f)
		s = line; if (!sub(/ skipped.*/, "", s)) s = 0; else sub(/.* /, "", s)
		name = command[run] ": " parts[2]
	}
	BEGIN {
		n = 1
		command[1] = "make check"
		command[2] = "make check-more"
		while (here && (getline line < here) > 0) {
			run += line ~ /^collctl: .* at once$/
			if (line ~ /^(ok|FAILED) .* passed/) { key(line); P[name] = p; S[name] = s; known[name] = 1 }
		}
	}
	FNR == 1 { run = FILENAME ~ /1$/ ? 1 : 2 }
	/^(ok|FAILED) .* passed/ {
		key($0)
		why = $1 == "ok" ? "" : ", failed"
		if (here && !(name in known)) why = why ", did not run here"
		else if (here && (P[name] != p || S[name] != s)) why = why ", here " P[name] " passed, " S[name] " skipped"
		delete known[name]
		printf "%s %d %s: %d passed, %d failed, %d skipped%s\n", why == "" ? "ok" : "not ok", ++n, name, p, f, s, why
		if (why != "") bad = 1
		show = 1
		next
	}
	/^[0-9]+ passed, [0-9]+ failed/ { total[run] = $0 }
	show && /^    / { print "#" $0; next }
	{ show = 0; rest[run, lines[run] = FNR] = $0 }
	END {
		for (name in known) { printf "not ok %d %s: ran here, but not there\n", ++n, name; bad = 1 }
		for (run = 1; run <= 2; run++) {
			printf "%s %d %s: %s\n", run in total ? "ok" : "not ok", ++n, command[run], run in total ? total[run] : "did not end"
			if (run in total) continue
			bad = 1
			for (i = lines[run] - 40; i <= lines[run]; i++) if ((run, i) in rest) print "# " rest[run, i]
		}
		printf "1..%d\n", n
		exit bad
	}' "$work/check.1" "$work/check.2" || rc=1
exit "$rc"
