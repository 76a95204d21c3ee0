#!/usr/bin/env bats
# docs/tutorial.md on four hosts: network namespaces, each with its own home folder. ssh and scp are stand-ins,
# which enter a namespace; tests/cli/ssh.bats has a real sshd.

# shellcheck disable=SC2034 # for nodes.bash
load nodes

setup() {
	local r
	common_setup
	nodes_open 4
	ln -s "$(command -v "$PYTHON")" bin/python3
	mkdir home
	for r in 0 1 2 3; do mkdir -p "disks/n$r"; done
	cat >bin/ssh <<-END
		#!/bin/sh
		# ssh [OPTION...] HOST COMMAND...: in the home folder of that host
		while :; do
			case \$1 in -o) shift 2 ;; -*) shift ;; *) break ;; esac
		done
		host=\$1
		shift
		export HOME='$PWD/home' SSH_CONNECTION="10.77.0.1 1 10.77.0.\$((\${host#n} + 1)) 22"
		exec at "\$host" "mount --bind '$PWD/disks/\$host' '$PWD/home' && cd '$PWD/home' && \$*"
	END
	cat >bin/scp <<-END
		#!/bin/bash
		# scp -pq FILE... HOST:
		host=\${*: -1}
		exec cp -p "\${@:2:\$# - 2}" '$PWD/disks/'"\${host%:}"
	END
	chmod +x bin/ssh bin/scp
}
teardown() { nodes_close; }

# on_n0 BLOCK...: as somebody types them there
on_n0() {
	blocks docs/tutorial.md "$@" >"disks/n0/commands"
	run -0 --separate-stderr ssh n0 sh -e ./commands 3>&-
}

@test "four hosts: links, a scattered array, its average, weights, a hostfile, a missing rank, certificates" {
	local host
	on_n0 reach
	# shellcheck disable=SC2154 # set by bats
	assert_equal "$(sort -u <<<"$output")" "$(collctl --version)"
	on_n0 check
	assert_line --regexp '^# 4 ranks, TLS'
	on_n0 scatter hosts numpy
	assert_line --partial '(1000, 3)'
	on_n0 weights
	for host in n1 n2 n3; do cmp "disks/$host/weighted.npy" disks/n0/weighted.npy; done
	on_n0 hostfile by-hand
	on_n0 three
	# shellcheck disable=SC2154 # set by bats
	assert_equal "$(grep -cF "$(blocks docs/tutorial.md three-says)" <<<"$stderr")" 3
	for host in n0 n1 n2 n3; do cmp "disks/$host/mean.npy" "disks/n0/byhand.npy"; done
	on_n0 certificates tls
	for host in n1 n2 n3; do cmp "disks/$host/certified.npy" disks/n0/mean.npy; done
}
