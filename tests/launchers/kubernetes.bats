#!/usr/bin/env bats
# An indexed Job of Kubernetes: the commands of docs/kubernetes.yaml, with the variables, volumes and names that
# Kubernetes would give them (kubernetes.py), each pod in a network namespace.

load nodes

setup() {
	common_setup
	"$PYTHON" -c 'import yaml' 2>/dev/null || skip 'no python3-yaml: tests/setup.sh test'
	nodes_open 4 sum-
	mkdir -p secrets claims/data
	mv in.?.npy claims/data
	# kubectl create secret generic NAME --from-file=FILE, kubectl apply -f FILE
	cat >bin/kubectl <<-'END'
		#!/bin/sh
		case "$1 $2 $3" in
		'create secret generic') mkdir "secrets/$4" && cp "${5#--from-file=}" "secrets/$4" ;;
		'apply -f '*) cp "$3" applied.yaml ;;
		esac
	END
	chmod +x bin/kubectl
	cp "$ROOT/docs/kubernetes.yaml" .
}
teardown() { nodes_close; }

pods_of() { "$PYTHON" "$BATS_TEST_DIRNAME/kubernetes.py" "$1" secrets claims; }

start_pod() { spawn_rank "$1" node "$1" sh "pod.$1.sh"; }

# bats test_tags=smoke
@test "the example: each pod is the rank of its index; the name of pod 0 is known late" {
	example kubernetes | sh -e
	pods_of applied.yaml
	start_pod 3
	start_pod 1
	start_pod 2
	echo "$(net_address 0) sum-0.sum" >>names
	start_pod 0
	wait_ranks
	assert_ranks 4 0
	check_numpy sum claims/data/sum.{0..3}.npy --in claims/data/in.{0..3}.npy
}

@test "a name that never resolves: 5, when the time to join is over" {
	example kubernetes | sh -e
	pods_of applied.yaml
	sed -i 's/exec env -i/& COLLCTL_JOIN_TIMEOUT=1s/' pod.1.sh
	start_pod 1
	wait_ranks
	assert_rank 1 5 'rank 0: not found within 1 s (--join-timeout): sum-0.sum: '
}

@test "a pod that fails: all pods have its exit code, no output exists" {
	example kubernetes | sh -e
	pods_of applied.yaml
	rm claims/data/in.2.npy
	echo "$(net_address 0) sum-0.sum" >>names
	for r in 0 1 2 3; do start_pod "$r"; done
	wait_ranks
	assert_ranks 4 3 'rank 2 (sum-2): /mnt/data/in.2.npy: cannot open'
	assert_not_exist claims/data/sum.0.npy
}

@test "a secret that its group may read: 6, and the mode" {
	sed 's/defaultMode: 0400/defaultMode: 0440/' kubernetes.yaml >loose.yaml
	example kubernetes | sh -e
	pods_of loose.yaml
	start_pod 0
	wait_ranks
	assert_rank 0 6 '/mnt/secret/job.key'
}

@test "a manifest that does not fit together is noticed" {
	example kubernetes | sh -e
	local change
	for change in 's/clusterIP: None/clusterIP: 10.0.0.1/' 's/parallelism: 4/parallelism: 2/' \
		's/job-name: sum/job-name: other/' 's/subdomain: sum/subdomain: other/' 's/backoffLimit/backOffLimit/'; do
		sed "$change" kubernetes.yaml >changed.yaml
		! cmp -s kubernetes.yaml changed.yaml
		rm -rf volumes
		run ! pods_of changed.yaml
	done
}
