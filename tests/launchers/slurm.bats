#!/usr/bin/env bats
# Slurm: slurmctld and a slurmd for each of four nodes.

# shellcheck disable=SC2016 # shells of ranks
load nodes

setup() {
	common_setup
	command -v /usr/sbin/slurmctld >/dev/null || skip 'no slurmctld: tests/setup.sh test'
}
teardown() { nodes_close; }

# start_slurm: the cluster of n0 to n3, each with 4 processors, real or not; srun's default for MPI is $1
start_slurm() {
	local r
	nodes_open 4
	mkdir state
	export SLURM_CONF=$PWD/slurm.conf
	cat >"$SLURM_CONF" <<-END
		ClusterName=test
		SlurmctldHost=n0
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/none
		CredType=cred/none
		MpiDefault=${1:-none}
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SwitchType=switch/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		SlurmdParameters=config_overrides
		SchedulerParameters=batch_sched_delay=0
		StateSaveLocation=$PWD/state
		SlurmdSpoolDir=$PWD/%n.spool
		SlurmctldPidFile=$PWD/slurmctld.pid
		SlurmdPidFile=$PWD/%n.pid
		EpilogSlurmctld=$PWD/ended
		NodeName=n[0-3] CPUs=4
		PartitionName=all Nodes=ALL Default=YES
	END
	mkfifo ends
	exec {ENDS}<>ends
	printf '#!/bin/sh\necho "$SLURM_JOB_ID $SLURM_JOB_EXIT_CODE2" >%s/ends\n' "$PWD" >ended
	chmod +x ended
	echo CgroupPlugin=cgroup/v1 >cgroup.conf # which looks for no cgroup until it is needed
	daemon 0 6817 slurmctld -D -c
	for r in 0 1 2 3; do
		mkdir "n$r.spool"
		daemon "$r" 6818 slurmd -D
	done
	node 0 srun -N 4 true # which waits until the nodes have registered
}

# batch ARGS...: a batch job to its end, which the controller's epilog tells. Its output is $output, its exit
# code $status.
batch() {
	local id ended=''
	id=$(node 0 sbatch --parsable -o batch.out "$@")
	until [[ $ended == "$id" ]]; do read -r ended status <&"$ENDS"; done
	output=$(<batch.out)
}

# batch_of LINE...: a batch job of these commands, with 4 tasks on 2 nodes and the store at $STORE
batch_of() {
	printf '%s\n' '#!/bin/bash' "$@" >commands.sbatch
	COLLCTL_RENDEZVOUS=$STORE COLLCTL_SECRET_FILE=$PWD/job.key batch -N 2 --ntasks-per-node=2 commands.sbatch
}

# open_store: on n0. Sets STORE.
open_store() {
	collctl keygen job.key
	daemon 0 7700 collctl serve --listen 10.77.0.1:7700
	STORE=http://10.77.0.1:7700
}

# assert_says TEXT...: facts of the batch job's output
assert_says() {
	local text
	for text; do
		[[ $output == *"$text"* ]] || fail "no '$text' in: $output"
	done
}

# bats test_tags=smoke
@test "the example of a batch script: one rank on each node" {
	start_slurm
	example key | sh -e
	example mean.sbatch >script
	batch script
	assert_equal "$status" 0:0
	check_numpy avg mean.{0..3}.npy --in in.{0..3}.npy
	batch script # again
	assert_equal "$status" 0:0
}

@test "the example of steps at the same time: each is a job of its own, also with Slurm's PMI" {
	local mpi
	for mpi in pmi2 none; do
		[[ $mpi == pmi2 ]] && start_slurm pmi2 && collctl keygen job.key
		example steps.sbatch >script
		SLURM_MPI_TYPE=$mpi batch script
		assert_equal "$status" 0:0
		check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
		check_numpy max max.{0..3}.npy --in in.{0..3}.npy
		rm {sum,max}.?.npy
	done
}

@test "rank, size and the job's name are those of the step" {
	start_slurm pmi2
	open_store
	batch_of 'srun --mpi=none -n 4 collctl barrier -v' 'srun -n 3 collctl barrier -v'
	assert_equal "$status" 0:0
	assert_says 'rank 3 (SLURM_PROCID) of 4 (SLURM_STEP_NUM_TASKS), job 2.0 (SLURM_JOB_ID.SLURM_STEP_ID), started by Slurm' \
		'rank 2 (PMI_RANK) of 3 (PMI_SIZE), job 2.1 (SLURM_JOB_ID.SLURM_STEP_ID), started by Slurm'
}

@test "mpirun and mpiexec in a batch script start their ranks with srun" {
	start_slurm pmi2
	open_store
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$PWD
	batch_of "mpirun.openmpi collctl allreduce -v in.{rank}.npy -o mpirun.{rank}.npy" \
		"mpiexec.hydra collctl allreduce -v in.{rank}.npy -o mpiexec.{rank}.npy"
	assert_equal "$status" 0:0
	check_numpy sum mpirun.{0..3}.npy --in in.{0..3}.npy
	check_numpy sum mpiexec.{0..3}.npy --in in.{0..3}.npy
	assert_says 'rank 3 (OMPI_COMM_WORLD_RANK) of 4' 'started by Open MPI' \
		'rank 3 (PMI_RANK) of 4 (PMI_SIZE), job 2.1 (SLURM_JOB_ID.SLURM_STEP_ID), started by Hydra'
}

@test "srun starts torchrun on each node, which starts the ranks" {
	need_torchrun
	start_slurm pmi2
	open_store
	make_torchrun
	batch_of "srun --ntasks-per-node=1 -n 2 torchrun --nnodes 2 --nproc_per_node 2 --rdzv_id a --rdzv_backend c10d \\
		--rdzv_endpoint n0:29500 --no_python collctl allreduce -v in.{rank}.npy -o sum.{rank}.npy"
	assert_equal "$status" 0:0
	assert_says 'rank 3 (RANK) of 4 (WORLD_SIZE), job a (TORCHELASTIC_RUN_ID), started by torchrun'
	check_numpy sum sum.{0..3}.npy --in in.{0..3}.npy
}

@test "what is missing: a rank, a way to meet, a secret" {
	start_slurm
	open_store
	batch_of 'collctl barrier'
	assert_equal "$status" 2:0
	assert_says 'no rank: give --rank (or COLLCTL_RANK, or use a launcher)'
	batch_of 'COLLCTL_RENDEZVOUS= srun collctl barrier'
	assert_equal "$status" 2:0
	assert_says 'no way to find the other ranks: give --rendezvous URL or --hostfile FILE'
	batch_of 'COLLCTL_SECRET_FILE= srun collctl barrier'
	assert_equal "$status" 6:0
	assert_says 'no job secret: make one with '
	echo n0,n1 >hosts
	batch_of 'COLLCTL_RENDEZVOUS= collctl barrier -H hosts --join-timeout 1' # without srun
	assert_equal "$status" 5:0
	assert_says 'rank 1 (n1): did not join'
}

@test "a size that differs from the step's" {
	start_slurm
	open_store
	batch_of 'srun collctl barrier -n 3'
	assert_equal "$status" 2:0
	assert_says 'SLURM_PROCID=3: a job of 3 ranks has ranks 0 to 2'
	batch_of 'srun collctl barrier -n 5 --join-timeout 1'
	assert_equal "$status" 5:0
	assert_says 'rank 4: did not join'
}

@test "a rank that fails ends the step with its exit code; the next step of the job succeeds" {
	start_slurm
	open_store
	mv in.2.npy away.npy
	batch_of 'srun collctl allreduce in.{rank}.npy -o out.{rank}.npy || echo "exit code $?"' 'mv away.npy in.2.npy' \
		'srun collctl allreduce in.{rank}.npy -o after.{rank}.npy'
	assert_equal "$status" 0:0
	assert_says 'rank 2 (n1): in.2.npy: cannot open' 'exit code 3'
	check_numpy sum after.{0..3}.npy --in in.{0..3}.npy
	assert_not_exist out.0.npy
}

@test "a task that ends before it joins: with srun -K the others end, too" {
	start_slurm
	open_store
	batch_of 'srun -K sh -c '\''[ $SLURM_PROCID != 2 ] || exit 5; exec collctl barrier --join-timeout 500'\'
	assert_equal "$status" 143:0
	assert_says 'task 2: Exited with exit code 5'
}
