#!/usr/bin/env bash
# The demonstration: four ranks, each with a shard file, find each other, average their shards over
# TLS, and each gets the result. All files are in demo/.
set -euo pipefail

cd "$(dirname "$0")/.."
bin=$(realpath "${COLLCTL:-build/collctl}")
python=$([[ -x /usr/bin/python3 ]] && echo /usr/bin/python3 || echo python3)
collctl() { "$bin" "$@"; }

show() { # print a command line as a person would type it, then run it
	printf '\n$ %s\n' "$*"
	"$@"
}

check() { # compare the files $2... with numpy's mean of the shards, and with each other
	"$python" - "$@" <<'EOF'
import sys
import numpy as np

name, files = sys.argv[1], sys.argv[2:]
want = np.mean([np.load(f"demo/shard.{r}.npy") for r in range(4)], axis=0, dtype=np.float64)
got = [np.load(f) for f in files]
same = all(g.tobytes() == got[0].tobytes() for g in got)
error = max(float(np.abs(g - want).max()) for g in got)
print(f"{name}: {len(got)} outputs {got[0].dtype} {got[0].shape}, "
      f"{'bit for bit equal' if same else 'THEY DIFFER'}, largest difference from numpy {error:.1e}")
sys.exit(not same or len(got) != 4 or not error < 1e-6)
EOF
}

pids=()
cleanup() {
	((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
	wait
	rm -f demo/ready
}
trap cleanup EXIT

rm -rf demo
mkdir demo

printf "== Four shards, as four machines might have them after a training step (collctl is %s)\n" "$bin"
"$python" - <<'EOF'
import numpy as np

for rank in range(4):
    shard = np.random.default_rng(rank).standard_normal((1024, 1024), dtype=np.float32)
    np.save(f"demo/shard.{rank}.npy", shard)
EOF
ls -l demo

printf '\n== All four ranks on this machine: run starts them with a private secret\n'
show collctl run -n 4 -- allreduce --op avg 'demo/shard.{rank}.npy' -o 'demo/avg.{rank}.npy'
echo
check 'run' demo/avg.{0..3}.npy

printf '\n== As on four machines: a job secret, a store, and one command per rank\n'
show collctl keygen demo/job.key

mkfifo demo/ready
printf '\n$ %s &\n' 'collctl serve --once --listen 127.0.0.1:0 --port-file demo/port'
collctl serve --once --listen 127.0.0.1:0 --port-file demo/port --ready-fd 9 9>demo/ready &
pids+=($!)
read -r -t 30 <demo/ready || true # a line, or the end of a server that has failed
store=http://127.0.0.1:$(cat demo/port)

for rank in 0 1 2 3; do
	line=(collctl allreduce -n 4 -r "$rank" -R "$store" --secret-file demo/job.key --op avg
		"demo/shard.$rank.npy" -o "demo/net.$rank.npy")
	printf '$ %s &\n' "${line[*]}"
	"${line[@]}" &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid"
done
pids=()
echo
check 'serve + 4 processes' demo/net.{0..3}.npy

printf '\n== Sharded checkpoints: each rank has two .safetensors files and an index, in bf16 and f32\n'
"$python" - <<'EOF'
import json
import os
import struct
import numpy as np

shapes = {"embed.weight": (512, 256), "layers.0.weight": (256, 256), "layers.1.weight": (256, 256),
          "norm.weight": (256,)}
files = {"embed.weight": 1, "layers.0.weight": 1, "layers.1.weight": 2, "norm.weight": 2}

for rank in range(4):
    folder = f"demo/ckpt.{rank}"
    os.makedirs(folder)
    rng, index = np.random.default_rng(rank), {}
    for shard in (1, 2):
        header, data = {}, b""
        for name, shape in shapes.items():
            if files[name] != shard:
                continue
            x = rng.standard_normal(shape, dtype=np.float32)
            kind = "F32" if name == "norm.weight" else "BF16"
            raw = x.tobytes() if kind == "F32" else (x.view(np.uint32) >> 16).astype("<u2").tobytes()
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
            index[name] = f"model-{shard:05}-of-00002.safetensors"
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(f"{folder}/model-{shard:05}-of-00002.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)
    with open(f"{folder}/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {}, "weight_map": index}, f)
EOF
show collctl run -n 4 -- allreduce --op avg 'demo/ckpt.{rank}' -o 'demo/mean.{rank}'
show collctl run -n 4 -- verify 'demo/mean.{rank}'
show collctl info demo/mean.0

printf '\n== Done. These are the files:\n'
ls -l demo demo/mean.0
