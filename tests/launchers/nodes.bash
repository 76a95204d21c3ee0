# Machines for launchers: nodes_open P [PREFIX] makes P hosts n0 ..., or PREFIX0 ..., in network namespaces,
# each with its host name; `node R COMMAND...` runs a command on host R. They share the files of this machine,
# and $PWD/names is their /etc/hosts. No port is in use there, so that examples may have fixed ones.
# shellcheck shell=bash

load ../cli/helpers
load ../fault/nets

nodes_open() {
	local r
	NODE=${2-n}
	net_open "$1"
	mkdir bin
	ln -s "$COLLCTL" bin/collctl
	PATH=$PWD/bin:/usr/sbin:$PATH
	echo 127.0.0.1 localhost >names
	for ((r = 0; r < $1; r++)); do echo "$(net_address "$r") $NODE$r" >>names; done
	# ip gives its child mounts of its own, so that no other process sees this /etc/hosts.
	cat >bin/at <<-END
		#!/bin/sh
		# at NODE COMMAND...: as ssh does, the words are one command of a shell
		node=\$1
		shift
		exec ip netns exec $NET-\${node#$NODE} unshare --uts sh -c \\
			'mount --bind $PWD/names /etc/hosts && hostname "\$1" && exec sh -c "\$2"' sh "\$node" "\$*"
	END
	chmod +x bin/at
	make_shards 4 f32 50,3
}

node() {
	local words=("${@:2}") IFS=' '
	at "$NODE$1" "${words[*]@Q}" 3>&-
}

# daemon NODE PORT COMMAND...: in the background; until it listens
daemon() {
	node "$1" exec "${@:3}" >"$3.$1.log" 2>&1 &
	until [[ -n $(on "$1" ss -Htln "sport = :$2") ]]; do
		kill -0 $! || fail "$3 on $NODE$1: $(<"$3.$1.log")"
	done
}

need_torchrun() { command -v torchrun >/dev/null || skip 'no torchrun: tests/setup.sh launchers'; }

# torch 1.13 with Python 3.11, as in Debian 12, takes 0, the default of these options, for None. Here they are
# for a local rank 9 that does not exist.
make_torchrun() {
	printf '#!/bin/sh\nexec %s --redirects 9:1 --tee 9:1 "$@"\n' "$(command -v torchrun)" >bin/torchrun
	chmod +x bin/torchrun
}

nodes_close() {
	local r
	for ((r = 0; r < NET_SIZE; r++)); do
		ip netns pids "$NET-$r" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
	done
	net_close
	common_teardown
}

# example NAME...: blocks of docs/launchers.md
example() { blocks docs/launchers.md "$@"; }
