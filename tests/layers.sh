#!/usr/bin/env bash
# The direction of dependencies (docs/ARCHITECTURE.md): prints every #include "..." of a layer's file that names a layer
# above it, or one beside it that it does not need. The linker checks the same of functions: Makefile, LAYERS.
set -euo pipefail
cd "$(dirname "$0")/.."

# may LAYER: the layers that its files may include, itself among them
may() {
	case $1 in
	lib/base) echo lib/base ;;
	lib/crypto) echo lib/base lib/crypto ;;
	lib/sched) echo lib/base lib/sched ;;
	algorithms) echo lib/base lib/sched algorithms ;;
	lib/data) echo lib/base lib/data ;;
	lib/proof) echo lib/base lib/sched algorithms lib/proof ;;
	lib/price) echo lib/base lib/sched lib/data algorithms lib/price ;;
	lib/net) echo lib/base lib/crypto lib/net ;;
	lib/exec) echo lib/base lib/sched lib/data lib/net algorithms lib/exec cuda/plugin.h ;;
	lib/store) echo lib/base lib/crypto lib/net lib/store ;;
	lib/job) echo lib/base lib/crypto lib/net lib/store lib/job ;;
	lib/links) echo lib/base lib/crypto lib/net lib/job lib/links ;;
	lib/coll) echo lib algorithms ;;
	cmd | completions) echo lib algorithms cmd completions ;;
	cuda/standin) echo cuda/kernels.h cuda/nccl_api.h cuda/standin ;;
	cuda) echo cuda lib/base lib/data lib/exec/memory_space.h ;;
	lib) echo lib algorithms ;; # lib/collctl.c
	esac
}

# layer FILE: the layer that it belongs to
layer() {
	local name
	for name in lib/{base,crypto,sched,data,proof,price,net,exec,store,job,links,coll} algorithms cmd completions cuda/standin cuda; do
		[[ $1 != "$name"/* ]] || { echo "$name" && return; }
	done
	[[ ${1%/*} == lib ]] && echo lib
}

bad=0
while IFS= read -r file; do
	allowed=" $(may "$(layer "$file")") "
	while IFS=: read -r line include; do
		ok=0 part=$include
		while [[ $part == */* ]]; do # the file itself, or a folder that it is in
			[[ $allowed != *" $part "* ]] || ok=1
			part=${part%/*}
		done
		[[ $allowed != *" $part "* ]] || ok=1
		((ok)) || { echo "$file:$line: includes $include" && bad=1; }
	done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]*)".*/\1/;T;=;p' "$file" | paste -d: - -)
done < <(git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cc' | grep -E '^(algorithms|lib|cmd|completions|cuda)/')
exit "$bad"
