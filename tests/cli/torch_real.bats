#!/usr/bin/env bats
# Files that a real torch writes, and what it reads of ours. COLLCTL_TORCH_PYTHON names the Pythons with a torch, separated by
# blanks; else Debian's counts, which tests/setup.sh installs for the long runs. The small files of torch 2.15 are in
# tests/golden/torch. Tried with 1.6.0, 1.8.1, 1.13.0, 2.0.1, 2.1.2, 2.2.2, 2.4.1, 2.6.0, 2.9.1, 2.11.0, 2.12.1, 2.14.1 and 2.15.0, each of which has
# some of the kinds.

load helpers

setup_file() {
	local python pythons n=0
	read -ra pythons <<<"${COLLCTL_TORCH_PYTHON-}"
	if ((${#pythons[@]} == 0)) && "${PYTHON:?}" -c 'import torch' 2>/dev/null; then
		pythons=("$PYTHON")
	fi
	mkdir "$BATS_FILE_TMPDIR/torch"
	for python in "${pythons[@]}"; do
		"$python" "$HELPERS_DIR/torch_real.py" save "$BATS_FILE_TMPDIR/torch/$((++n))" >"$BATS_FILE_TMPDIR/said" 2>&1 || {
			cat "$BATS_FILE_TMPDIR/said"
			echo "$python: cannot write the files of its torch"
			return 1
		}
		echo "$python" >"$BATS_FILE_TMPDIR/torch/$n/python"
	done
}

setup() {
	common_setup
	local versions=("$BATS_FILE_TMPDIR"/torch/*/version)
	[[ -e ${versions[0]} ]] || skip 'no torch: tests/setup.sh launchers, or COLLCTL_TORCH_PYTHON'
	TORCHES=("${versions[@]%/version}") # the folders with the files of each
	VERSIONS=$(cat "${versions[@]}" | xargs)
}

@test "every tensor of every kind of file, by every pickle protocol, bit for bit; as any name, in small memory" {
	local files kind file command
	for files in "${TORCHES[@]}"; do
		for kind in types carried views state_dict training parameters list; do
			[[ -e $files/$kind.pt ]] || continue # not every version has types of this kind
			echo "torch $(<"$files/version"): $kind"
			command=(allreduce)
			# These have every bit pattern, and a NaN that is reduced becomes the canonical one.
			[[ $kind != types && $kind != carried ]] || command=(gather --consolidate)
			for file in "$kind.pt" "$kind.3.pt" "$kind.4.pt"; do
				collctl "${command[@]}" -n 1 -q --no-sync "$files/$file" -o out.safetensors
				oracle torch_oracle described "$files/$kind.json" out.safetensors
			done
			cp "$files/$kind.pt" "$kind.bin"
			collctl "${command[@]}" -n 1 -q --no-sync --memory 1K "$kind.bin" -o out.safetensors
			oracle torch_oracle described "$files/$kind.json" out.safetensors
		done
	done
}

@test "whole modules, and what is not read, are refused; nothing is run" {
	local files file
	for files in "${TORCHES[@]}"; do
		for file in "$files"/refused/*.pt; do
			echo "torch $(<"$files/version"): $file"
			run -3 --separate-stderr collctl allreduce -n 1 "$file" -o out.safetensors
			[[ $stderr == *"$file: "* ]] || fail "$stderr"
		done
		assert_not_exists run
		assert_not_exists out.safetensors
	done
}

@test "distributed checkpoints, and the files of FSDP ranks: whole tensors, from one folder and from those of two ranks" {
	local files folder want found=0 r
	for files in "${TORCHES[@]}"; do
		for folder in "$files"/{sharded,dcp,safetensors,fsdp}{2,4} "$files"/fully_shard{,_training}; do
			[[ -n $(compgen -G "$folder/*") ]] || continue # each version has some of them
			echo "torch $(<"$files/version"): ${folder##*/}"
			found=1
			case $folder in
			*/safetensors?) want=stored ;;
			*/fully_shard*) want=${folder##*/} ;;
			*) want=whole ;;
			esac
			collctl gather -n 1 --consolidate --check-replicas -q --no-sync "$folder" -o out.safetensors
			oracle torch_oracle described "$files/$want.json" out.safetensors
			rm -rf half.*
			for r in 0 1; do # each has the files of ranks r and r + 2
				cp -r "$folder" "half.$r"
				rm -f "half.$r"/__{$((1 - r)),$((3 - r))}_* "half.$r"/shard-0000{$((2 - r)),$((4 - r))}-* \
					"half.$r"/model_world_size_*_rank_{$((1 - r)),$((3 - r))}.pt
			done
			collctl run -n 2 -- gather --consolidate -q --no-sync --insecure 'half.{rank}' -o two.safetensors
			cmp out.safetensors two.safetensors
		done
	done
	((found)) || skip "no distributed checkpoints: torch $VERSIONS"
}

# has_reader FILES: does this torch read DCP with safetensors?
has_reader() { [[ -e $1/stored.json ]]; }

@test "shards that scatter --shard-dim writes are loaded by torch, whole and on two ranks that cut them otherwise" {
	local files found=0 p d
	for files in "${TORCHES[@]}"; do
		has_reader "$files" || continue
		echo "torch $(<"$files/version")"
		found=1
		collctl gather -n 1 --consolidate -q "$files/safetensors2" -o whole.safetensors
		for p in 1 3; do
			for d in 0 1; do
				rm -rf "shards.$p.$d"
				collctl run -n "$p" -- scatter --shard-dim "$d" -q --no-sync --insecure whole.safetensors -o "shards.$p.$d/"
			done
		done
		"$(<"$files/python")" "$HELPERS_DIR/torch_real.py" load whole.safetensors shards.*
	done
	((found)) || skip "no HuggingFaceStorageReader, or no package safetensors: torch $VERSIONS"
}

@test "torch's own script makes of shards, its own and ours, the tensors that gather --consolidate makes" {
	local files found=0 folder
	for files in "${TORCHES[@]}"; do
		has_reader "$files" || continue
		echo "torch $(<"$files/version")"
		found=1
		# The script takes floats alone, and leaves a tensor without axes at zero.
		collctl gather -n 1 --consolidate -q --include 'type.*float*' "$files/safetensors4" -o floats.safetensors
		rm -rf shards theirs.*
		collctl run -n 3 -- scatter --shard-dim 1 -q --no-sync --insecure floats.safetensors -o shards/
		"$(<"$files/python")" "$HELPERS_DIR/torch_real.py" consolidate shards theirs.ours
		"$(<"$files/python")" "$HELPERS_DIR/torch_real.py" consolidate "$files/floats" theirs.torch
		collctl gather -n 1 --consolidate -q shards -o ours.safetensors
		collctl verify -n 1 -q --same ours.safetensors floats.safetensors theirs.ours/model-00001-of-00001.safetensors
		collctl gather -n 1 --consolidate -q "$files/floats" -o again.safetensors
		collctl verify -n 1 -q --same again.safetensors theirs.torch/model-00001-of-00001.safetensors
	done
	((found)) || skip "no HuggingFaceStorageReader, or no package safetensors: torch $VERSIONS"
}
