#!/usr/bin/env bash
# The direction of dependencies (CONTRIBUTING.md): prints every #include "..." that goes against it.
set -euo pipefail
cd "$(dirname "$0")/.."

# may LAYER: what its files may include, as extended regular expression
may() {
	case $1 in
	algorithms) echo 'algorithms/[^/]+\.h' ;;
	lib) echo '(lib/[a-z]+|algorithms)/[^/]+\.h|lib/collctl\.h' ;;
	lib/base) echo 'lib/base/[^/]+\.h' ;;
	lib/data) echo 'lib/(base|data)/[^/]+\.h' ;;
	lib/net) echo 'lib/(base|net)/[^/]+\.h' ;;
	lib/job) echo 'lib/(base|net|data|job)/[^/]+\.h' ;;
	lib/exec) echo 'lib/(base|data|net|job|exec)/[^/]+\.h|algorithms/(sched|price|placement)\.h|cuda/plugin\.h' ;;
	cuda/standin) echo 'cuda/(kernels|nccl_api|standin/standin)\.h' ;;
	cuda) echo 'cuda/[^/]+\.(h|cuh)|lib/(base|data)/[^/]+\.h|lib/exec/memory_space\.h' ;;
	lib/coll) echo '(lib/[a-z]+|algorithms)/[^/]+\.h' ;;
	cmd | completions) echo '(lib/[a-z]+|algorithms|cmd|completions)/[^/]+\.h' ;;
	*) echo 'nothing' ;;
	esac
}

bad=0
while IFS= read -r file; do
	while IFS=: read -r line include; do
		[[ $include =~ ^($(may "$(dirname "$file")"))$ ]] && continue
		echo "$file:$line: includes $include"
		bad=1
	done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]*)".*/\1/;T;=;p' "$file" | paste -d: - -)
done < <(git ls-files 'algorithms/*.[ch]' 'lib/*.[ch]' 'cmd/*.[ch]' 'completions/*.[ch]' 'cuda/*.[ch]' 'cuda/*.cu' 'cuda/*.cuh' 'cuda/*.cc')
exit "$bad"
