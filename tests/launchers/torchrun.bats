#!/usr/bin/env bats
load nodes
setup() {
	common_setup
	nodes_open 2
	STORE=http://n0:7700
	collctl keygen job.key
	# Debian 12's torch 1.13 with its Python 3.11 reads 0, the default of these options, as None.
	printf '#!/bin/sh\nexec /usr/bin/torchrun --redirects 9:1 --tee 9:1 "$@"\n' >bin/torchrun
	chmod +x bin/torchrun
}
teardown() { nodes_close; }
@test "example" {
	daemon 0 7700 collctl serve --listen 0.0.0.0:7700
	example torchrun >commands
	node 0 sh ./commands &
	node 1 sh ./commands
	wait $!
	check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
}
