#!/usr/bin/env bats
# mergekit is the oracle of merges: linear, task arithmetic, TIES, DARE. The first Python of COLLCTL_TORCH_PYTHON that has mergekit runs
# it; `tests/setup.sh torch` installs one. Part of the long runs, and of others where that variable is given.

load helpers

PYTHONS=${COLLCTL_TORCH_PYTHON:-$PYTHON}
GIVEN=${COLLCTL_TORCH_PYTHON-}

setup() {
	common_setup
	((LONG)) || [[ -n $GIVEN ]] || skip 'only in the long runs, or with COLLCTL_TORCH_PYTHON'
	local python pythons
	read -ra pythons <<<"$PYTHONS"
	for python in "${pythons[@]}"; do
		"$python" -c 'import mergekit.merge_methods, safetensors' 2>/dev/null || continue
		MERGEKIT=$python
		return 0
	done
	skip 'no mergekit: TORCH_VENV=FOLDER tests/setup.sh torch, and COLLCTL_TORCH_PYTHON=FOLDER/bin/python'
}

mergekit() { "$MERGEKIT" "$HELPERS_DIR/mergekit_oracle.py" "$@"; }

# merge OUT OPTIONS...: of all models, in the folder OUT
merge() { collctl allreduce -n 1 -q --no-sync "${@:2}" x.* -o "$1"; }

@test "linear, task arithmetic and TIES are mergekit's, within rounding; models in f32, bf16 and f16" {
	local type origin=(--origin base/model.safetensors)
	for type in float32 bfloat16 float16; do
		echo "$type"
		rm -rf ./*
		mergekit make "$type" 3
		merge linear --op avg --weight 1,2,3.5
		merge same --op avg
		merge sum --op sum --scale 0.6 "${origin[@]}"
		merge avg --op avg --weight 1,2,3.5 --scale -0.7 "${origin[@]}"
		# mergekit adds the contributions without a division, unless `normalize` says so, but divides those of TIES.
		set -- 'linear=linear:{"weights": [1, 2, 3.5]}' 'same=linear:{}' 'sum=task_arithmetic:{"lambda": 0.6}' \
			'avg=task_arithmetic:{"weights": [1, 2, 3.5], "normalize": true, "lambda": -0.7}'
		# Differences of bf16 and f16 have often the same magnitude, of which mergekit keeps any: so these only in f32, and with
		# parts of a quarter, which is a whole number of each tensor's elements.
		if [[ $type == float32 ]]; then
			merge ties --op ties:0.25 --scale 1.5 "${origin[@]}"
			set -- "$@" 'ties=ties:{"density": 0.25, "lambda": 1.5}'
		fi
		merge all --op ties:1 "${origin[@]}"
		mergekit check "$@" 'all=ties:{"density": 1}'
	done
}

@test "TIES with a part that is no whole number of elements: as mergekit with the next larger number of them" {
	mergekit make float32 3
	merge ties --op ties:0.3 --origin base/model.safetensors
	mergekit ties 0.3 3
}

@test "DARE: the mean of many draws, and how far they spread, are what they are by definition, as mergekit's" {
	local seed
	mergekit make float32 2
	for seed in {1..60}; do
		merge "dare.$seed" --op "dare:0.4,$seed" --origin base/model.safetensors
	done
	mergekit dare 0.4 2 60
}

@test "slerp is mergekit's, within rounding; nearly parallel and nearly opposite tensors are those of a line in both" {
	local type t
	for type in float32 bfloat16 float16; do
		rm -rf ./*
		mergekit make "$type" 2
		mergekit parallel
		set --
		for t in 0 0.25 0.6 1; do
			merge "slerp.$t" --op "slerp:$t"
			set -- "$@" "slerp.$t=slerp:{\"t\": $t}"
		done
		mergekit check "$@"
	done
}
