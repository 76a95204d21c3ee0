#!/usr/bin/env bats
# MPICH: mpiexec of Hydra, which starts its proxies on four nodes.

# shellcheck disable=SC2034 # for mpi.bash
load mpi

setup() {
	common_setup
	command -v mpiexec.hydra >/dev/null || skip 'no mpiexec.hydra: tests/setup.sh test'
	nodes_open 4
	# It looks for its proxy beside its own name, so that a link does not do.
	printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v mpiexec.hydra)" >bin/mpiexec
	chmod +x bin/mpiexec
	export HYDRA_LAUNCHER=rsh HYDRA_LAUNCHER_EXEC=at
	LAUNCH=(mpiexec -hosts 'n0,n1,n2,n3') RANK_VARIABLE=PMI_RANK
}
teardown() { nodes_close; }

# bats test_tags=smoke
@test "the example: one hostfile for mpiexec and collctl" {
	example key mpich >commands
	node 0 sh -e ./commands
	check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
}

@test "the example of two jobs at the same time: each needs a name" {
	example key mpich mpich-store >commands
	node 0 sh -e ./commands
	check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
	check_numpy max max.{0..3}.npy --in in.{0..3}.npy
}

@test "rank and size come from mpiexec" {
	open_store
	make_secret
	launch 0 collctl barrier -v
	assert_says 'rank 3 (PMI_RANK) of 4 (PMI_SIZE), job default (the default), started by Hydra'
}

@test "what is missing: a way to meet, a secret" { what_is_missing; }
@test "a size that differs from mpiexec's" { another_size; }
@test "mpiexec ends with the exit code of a failure; the next job succeeds" { failure_then_success; }
