#!/usr/bin/env bats
# What the torch of this machine writes, which tests/setup.sh installs for the long runs. The small files of the newest
# torch are in tests/golden/torch.

load helpers

setup() {
	common_setup
	"$PYTHON" -c 'import torch' 2>/dev/null || skip 'no torch: tests/setup.sh launchers'
	"$PYTHON" "$HELPERS_DIR/torch_real.py" save
}

@test "every tensor of every kind of file, by every pickle protocol, bit for bit; as any name, in small memory" {
	local kind file
	for kind in types views state_dict training parameters list; do
		for file in "$kind.pt" "$kind.3.pt" "$kind.4.pt"; do
			# Tensors that are reduced need no operation that complex numbers or bools lack: one input stays as it is.
			collctl allreduce -n 1 -q --no-sync "$file" -o out.safetensors
			"$PYTHON" "$HELPERS_DIR/torch_real.py" check "$kind" out.safetensors
		done
		cp "$kind.pt" "$kind.bin"
		collctl allreduce -n 1 -q --no-sync --memory 1K "$kind.bin" -o out.safetensors
		"$PYTHON" "$HELPERS_DIR/torch_real.py" check "$kind" out.safetensors
	done
}

@test "whole modules, and what is not read, are refused; nothing is run" {
	"$PYTHON" - <<-'END'
		import torch
		class Evil:
		    def __reduce__(self): return (open, ("run", "w"))
		torch.save({"w": torch.zeros(3), "evil": Evil()}, "evil.pt")
		torch.save(torch.nn.Linear(2, 2), "module.pt")
		torch.save({"w": torch.zeros(3).to_sparse()}, "sparse.pt")
		torch.save({"w": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}, "quantised.pt")
		torch.save({"w": torch.zeros(3)}, "old.pt", _use_new_zipfile_serialization=False)
	END
	for f in evil module sparse quantised old; do
		run -3 --separate-stderr collctl allreduce -n 1 "$f.pt" -o out.safetensors
		[[ $stderr == *"$f.pt: "* ]] || fail "$stderr"
	done
	assert_not_exists run
	assert_not_exists out.safetensors
}
