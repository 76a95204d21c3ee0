#!/usr/bin/env bats
# Open MPI: mpirun, which starts its daemons on four nodes.

# shellcheck disable=SC2016,SC2034 # shells of ranks; for mpi.bash
load mpi

setup() {
	common_setup
	command -v mpirun.openmpi >/dev/null || skip 'no mpirun.openmpi: tests/setup.sh test'
	nodes_open 4
	ln -s "$(command -v mpirun.openmpi)" bin/mpirun
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=at
	# mpirun creates and removes a folder there, which two of them that share it may do at the same time.
	mkdir one other
	export OMPI_MCA_orte_tmpdir_base=$PWD/one
	LAUNCH=(mpirun --host 'n0,n1,n2,n3') RANK_VARIABLE=OMPI_COMM_WORLD_RANK
}
teardown() { nodes_close; }

# bats test_tags=smoke
@test "the example: one hostfile for mpirun and collctl, several ranks on a host" {
	example key openmpi >commands
	node 0 sh -e ./commands
	check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
}

@test "rank, size and the job's name come from mpirun; two at the same time do not mix" {
	open_store
	make_secret
	OMPI_MCA_orte_tmpdir_base=$PWD/other launch 0 collctl allreduce --op max 'in.{rank}.npy' -o 'max.{rank}.npy' 3>&- &
	launch 0 collctl allreduce -v 'in.{rank}.npy' -o 'sum.{rank}.npy'
	wait $!
	assert_says 'rank 3 (OMPI_COMM_WORLD_RANK) of 4 (OMPI_COMM_WORLD_SIZE), job ' \
		'(PMIX_NAMESPACE), started by Open MPI'
	check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
	check_numpy max max.{0..3}.npy --in in.{0..3}.npy
}

@test "what is missing: a way to meet, a secret" { what_is_missing; }
@test "a size that differs from mpirun's" { another_size; }
@test "mpirun ends with the exit code of a failure; the next job succeeds" { failure_then_success; }

@test "a rank that is killed before it joins: mpirun ends the others" {
	open_store
	make_secret
	launch 137 sh -c '[ $OMPI_COMM_WORLD_RANK != 2 ] || kill -KILL $$; exec collctl barrier --join-timeout 500'
}
