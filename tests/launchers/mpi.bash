# What the tests of Open MPI and MPICH share: $LAUNCH starts a rank on each of four nodes, RANK_VARIABLE is
# the launcher's.
# shellcheck shell=bash

load nodes

# open_store: on n0. Sets STORE.
open_store() {
	daemon 0 7700 collctl serve --listen 10.77.0.1:7700
	STORE=http://10.77.0.1:7700
}

# launch RC COMMAND...: by the launcher, on n0, with the store at $STORE
launch() {
	run "-$1" --separate-stderr node 0 env "COLLCTL_RENDEZVOUS=${STORE-}" "COLLCTL_SECRET_FILE=${SECRET-}" \
		"${LAUNCH[@]}" "${@:2}"
}

# assert_says TEXT...: facts that stderr has
# shellcheck disable=SC2154 # set by bats
assert_says() {
	local text
	for text; do
		[[ $stderr == *"$text"* ]] || fail "no '$text' in: $stderr"
	done
}

what_is_missing() {
	launch 2 collctl barrier
	assert_says 'no way to find the other ranks: give --rendezvous URL or --hostfile FILE'
	open_store
	launch 6 collctl barrier
	assert_says 'no job secret: make one with '
}

another_size() {
	open_store
	make_secret
	launch 2 collctl barrier -n 3 --join-timeout 1
	assert_says "$RANK_VARIABLE=3: a job of 3 ranks has ranks 0 to 2"
	launch 5 collctl barrier -n 5 --join-timeout 1
	assert_says 'rank 4: did not join'
}

failure_then_success() {
	open_store
	make_secret
	mv in.2.npy away.npy
	launch 3 collctl allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_says 'rank 2 (n2): in.2.npy: cannot open'
	mv away.npy in.2.npy
	launch 0 collctl allreduce 'in.{rank}.npy' -o 'after.{rank}.npy'
	check_numpy sum after.{0..3}.npy --in in.{0..3}.npy
	assert_not_exist out.0.npy
}
