#!/usr/bin/env bats
# torchrun: python3-torch of Debian, with an agent on each of two nodes.

# shellcheck disable=SC2016,SC2034 # shells of ranks; for mpi.bash
load mpi

setup() {
	common_setup
	need_torchrun
	nodes_open 2
	make_torchrun
	LAUNCH=(torchrun --standalone --nproc_per_node 4 --no_python)
}
teardown() { nodes_close; }

@test "the example: two hosts with two ranks each" {
	example key | sh -e
	example torchrun-store >commands
	daemon 0 7700 sh ./commands
	example torchrun >commands
	node 0 sh -e ./commands 2>0.err &
	node 1 sh -e ./commands 2>1.err
	wait $!
	check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
}

@test "rank, size and the job's name come from torchrun; two at the same time do not mix" {
	open_store
	make_secret
	launch 0 collctl allreduce --op max 'in.{rank}.npy' -o 'max.{rank}.npy' 3>&- &
	launch 0 collctl allreduce -v 'in.{rank}.npy' -o 'sum.{rank}.npy'
	wait $!
	assert_says 'rank 3 (RANK) of 4 (WORLD_SIZE), job ' '(TORCHELASTIC_RUN_ID), started by torchrun'
	check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
	check_numpy max max.{0..3}.npy --in in.{0..3}.npy
}

@test "torchrun prints the exit code of a failure and ends with 1; the next job succeeds" {
	open_store
	make_secret
	mv in.2.npy away.npy
	launch 1 collctl allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_says 'rank 2: in.2.npy: cannot open' 'exitcode: 3'
	mv away.npy in.2.npy
	launch 0 collctl allreduce 'in.{rank}.npy' -o 'after.{rank}.npy'
	check_numpy sum after.{0..3}.npy --in in.{0..3}.npy
	assert_not_exist out.0.npy
}

@test "what torchrun starts again after a failure is the same job, and succeeds" {
	open_store
	make_secret
	LAUNCH=(torchrun --max_restarts 1 "${LAUNCH[@]:1}")
	launch 0 sh -c 'in=in.$RANK.npy; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || in=none.npy; exec collctl allreduce $in -o out.$RANK.npy'
	assert_says 'none.npy: cannot open'
	check_numpy sum out.{0..3}.npy --in in.{0..3}.npy
}
