#!/usr/bin/env python3
"""Checkpoints in the formats of torch, their pieces, and joint operations: collctl against torch, numpy and cat.

  tests/bench/formats.py [--mib 1024] [--rounds 5] [--dir DIR] [--only info|mean|consolidate|joint]

info: the headers of a .pt of --mib MiB (`info --no-digest`), and all of it; target: headers in 0.1 s.
mean: the average of four of them on one rank (`allreduce -n 1 --op avg --no-sync`), from .pt and from .safetensors,
  target: 1.1 times as long; against torch.load, mean, torch.save in one process (mmap=True where torch has it), if
  $PYTHON has torch, target: 0.35 of it; and against numpy over mapped .safetensors. Peaks of memory.
consolidate: a folder of 8 pieces of each tensor (DCP's .safetensors) into one file, target: 1.2 times `cat` of the
  same bytes; against torch's script for it (_consolidate_hf_safetensors.py), if $PYTHON has a torch with it (2.8 or newer)
  and safetensors.
joint: median of 8 files of --mib / 4 MiB of f32 against their average, target: twice as long; ties, target: 4 times.

All in the page cache, without sync, A B C A B C ..., medians of wall time after a round that is not counted.
DIR (default: build/) needs about 6 times --mib.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

from checkpoint import layout, random_values, write_safetensors
from common import COLLCTL, ROOT, forget_settings

sys.path.insert(0, f"{ROOT}/tests/cli")
from torch_oracle import integer, text  # noqa: E402

PYTHON = os.environ.get("PYTHON", sys.executable)
TORCH = """
import sys, torch
new = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 1)
files = [torch.load(f, **({"mmap": True} if new else {})) for f in sys.argv[2:]]
out = {}
for name in files[0]:
    total = files[0][name].float()
    for f in files[1:]:
        total += f[name].float()
    out[name] = (total / len(files)).to(files[0][name].dtype)
torch.save(out, sys.argv[1])
"""
NUMPY = """
import json, sys
import numpy as np
def load(path):
    data = np.memmap(path, np.uint8, "r")
    n = int(data[:8].view(np.uint64)[0])
    return json.loads(bytes(data[8:8 + n])), data[8 + n:]
heads = [load(f) for f in sys.argv[2:]]
with open(sys.argv[1], "wb") as f:
    first = np.memmap(sys.argv[2], np.uint8, "r")
    f.write(bytes(first[:8 + int(first[:8].view(np.uint64)[0])]))
    for name, t in sorted(heads[0][0].items(), key=lambda kv: kv[1].get("data_offsets", [0])[0]):
        if name == "__metadata__":
            continue
        total = 0
        for head, data in heads:
            b, e = head[name]["data_offsets"]
            total = total + (data[b:e].view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        bits = np.ascontiguousarray(total / np.float32(len(heads))).view(np.uint32)
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16).tofile(f)
"""

SCRIPT = "torch.distributed.checkpoint._consolidate_hf_safetensors"
CONSOLIDATE = f"""
import json, os, sys
import safetensors.torch
from {SCRIPT} import consolidate_safetensors_files as consolidate
folder, out = sys.argv[1:]
names = set()
for name in os.listdir(folder):
    with open(os.path.join(folder, name), "rb") as f:
        names.update(json.loads(f.read(int.from_bytes(f.read(8), "little"))))
os.mkdir(out)
consolidate(folder, out, dict.fromkeys(sorted(names - {{"__metadata__"}}), 1))
"""


def write_pt(path, tensors, values):
    """bf16, as torch.save writes them."""
    pickle = b"\x80\x02}("
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for key, (name, shape) in enumerate(tensors):
            count = int(np.prod(shape))
            strides = [int(np.prod(shape[i + 1:])) for i in range(len(shape))]
            pickle += (text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nBFloat16Storage\n" +
                       text(str(key)) + text("cpu") + integer(count) + b"tQK\x00(" + b"".join(map(integer, shape)) + b"t(" +
                       b"".join(map(integer, strides)) + b"t\x89}tR")
            with z.open(f"m/data/{key}", "w", force_zip64=True) as f:
                f.write(values(count).tobytes())
        z.writestr("m/data.pkl", pickle + b"u.")
        z.writestr("m/byteorder", "little")
        z.writestr("m/version", "3\n")


def write_pieces(folder, tensors, n, values):
    """Each tensor in @n pieces along axis 0, piece k of each in shard k."""
    os.mkdir(folder)
    for k in range(n):
        info, entries, at, parts = {}, {}, 0, []
        for name, shape in sorted(tensors):
            rows = -(-shape[0] // n)
            first, last = min(k * rows, shape[0]), min((k + 1) * rows, shape[0])
            if first == last:
                continue
            own = [last - first, *shape[1:]]
            end = at + 2 * int(np.prod(own))
            entries[name] = {"dtype": "BF16", "shape": own, "data_offsets": [at, end]}
            info[name] = {"saved_offsets": [first] + [0] * (len(shape) - 1)}
            parts.append(int(np.prod(own)))
            at = end
        meta = {"DCP_VERSION": "1.0", "format": "pt", "DCP_SHARDING_INFO": json.dumps(info)}
        head = json.dumps({"__metadata__": meta, **entries}).encode()
        with open(f"{folder}/shard-{k:05}-model-00001-of-00001.safetensors", "wb") as f:
            f.write(len(head).to_bytes(8, "little") + head)
            for count in parts:
                values(count).tofile(f)


# A command's peak of memory counts from that of the process that starts it: so a small one does.
STARTER = """
import json, os, sys, time
began = time.perf_counter()
_, status, usage = os.wait4(os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0)
print(json.dumps([os.waitstatus_to_exitcode(status), time.perf_counter() - began, usage.ru_maxrss / 1024]))
"""


def run(command, folder):
    """Seconds, and the peak in MiB."""
    command = ["sh", "-c", command] if isinstance(command, str) else command
    done = subprocess.run([sys.executable, "-S", "-c", STARTER, *command], cwd=folder, capture_output=True, text=True,
                          check=True)
    code, seconds, peak = json.loads(done.stdout.splitlines()[-1])
    if code:
        sys.exit(f"formats: {command}: exit code {code}\n{done.stderr}")
    return seconds, peak


def compare(cases, folder, rounds):
    """cases: {name: command, or text for a shell}. {name: (median seconds, peak MiB)}."""
    runs = {name: [] for name in cases}
    for i in range(rounds + 1):
        for name, command in cases.items():
            for old in os.listdir(folder):
                if old.startswith("out"):
                    path = f"{folder}/{old}"
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            done = run(command, folder)
            if i:
                runs[name].append(done)
    return {name: (statistics.median(t for t, _ in r), max(m for _, m in r)) for name, r in runs.items()}


def show(title, results, *targets):
    """@targets: (name, at most this, times name or None: seconds)."""
    print(f"\n{title}")
    for name, (seconds, peak) in results.items():
        print(f"  {name:28} {seconds:8.3f} s  peak {peak:6.0f} MiB")
    for name, most, of in targets:
        if name not in results or (of and of not in results):
            continue
        got = results[name][0] / (results[of][0] if of else 1)
        what = f"of {of}" if of else "s"
        print(f"  {name}: {got:.2f} {what}  <= {most}: {'yes' if got <= most else 'NO'}")


def can_import(modules):
    return subprocess.run([PYTHON, "-c", f"import {modules}"], capture_output=True, check=False).returncode == 0


def allreduce(op, inputs, out, *options):
    return [COLLCTL, "allreduce", "-n", "1", "-q", "--no-sync", "--op", op, *options, *inputs, "-o", out]


def info(folder, a):
    write_pt(f"{folder}/in.pt", layout(a.mib), random_values("BF16", 0))
    results = compare({"headers": [COLLCTL, "info", "--no-digest", "in.pt"], "all": [COLLCTL, "info", "in.pt"]},
                      folder, a.rounds)
    show(f"info: a .pt of {a.mib} MiB", results, ("headers", 0.1, None))


def mean(folder, a):
    tensors = layout(a.mib)
    for k in range(4):
        write_pt(f"{folder}/in.{k}.pt", tensors, random_values("BF16", k))
        write_safetensors(f"{folder}/in.{k}.safetensors", "BF16", tensors, random_values("BF16", k))
    pt, st = ([f"in.{k}.{kind}" for k in range(4)] for kind in ("pt", "safetensors"))
    cases = {"from .pt": allreduce("avg", pt, "out.safetensors"),
             "from .safetensors": allreduce("avg", st, "out.safetensors"),
             "numpy, mapped": [PYTHON, "-c", NUMPY, "out.numpy", *st]}
    if can_import("torch"):
        cases["torch"] = [PYTHON, "-c", TORCH, "out.torch", *pt]
    else:
        print(f"formats: {PYTHON} has no torch: not compared with it")
    show(f"mean: four files of {a.mib} MiB of bf16", compare(cases, folder, a.rounds),
         ("from .pt", 1.1, "from .safetensors"), ("from .pt", 0.35, "torch"), ("from .pt", 1, "numpy, mapped"))


def consolidate(folder, a):
    write_pieces(f"{folder}/in", layout(2 * a.mib), 8, random_values("BF16", 0))
    cases = {"consolidate": [COLLCTL, "gather", "--consolidate", "-n", "1", "-q", "--no-sync", "in", "-o", "out.safetensors"],
             "cat": "cat in/* >out.cat"}
    if can_import(f"safetensors.torch, {SCRIPT}"):
        cases["torch's script"] = [PYTHON, "-c", CONSOLIDATE, "in", "out.torch"]
        cases["its imports alone"] = [PYTHON, "-c", f"import safetensors.torch, {SCRIPT}"]
    else:
        print(f"formats: {PYTHON} has no torch with {SCRIPT}, or no safetensors: not compared with it")
    show(f"consolidate: 8 pieces of {a.mib // 4} MiB", compare(cases, folder, a.rounds),
         ("consolidate", 1.2, "cat"), ("consolidate", 1, "torch's script"))


def joint(folder, a):
    n = a.mib // 4 << 18
    for k in range(8):
        np.save(f"{folder}/in.{k}.npy", np.random.default_rng(k).standard_normal(n, np.float32))
    files = [f"in.{k}.npy" for k in range(8)]
    cases = {op: allreduce(op, files, "out.npy") for op in ("avg", "median", "trimmed:0.25")}
    cases["ties:0.2"] = allreduce("ties:0.2", files, "out.npy", "--origin", files[0])
    show(f"joint: 8 files of {a.mib // 4} MiB of f32", compare(cases, folder, a.rounds),
         ("median", 2, "avg"), ("trimmed:0.25", 2, "avg"), ("ties:0.2", 4, "avg"))


PARTS = {"info": info, "mean": mean, "consolidate": consolidate, "joint": joint}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--mib", type=int, default=1024)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--dir", help="where the files lie (build/)")
    p.add_argument("--only", choices=PARTS)
    a = p.parse_args()
    forget_settings()
    for name, part in PARTS.items():
        if a.only in (None, name):
            with tempfile.TemporaryDirectory(dir=a.dir or f"{ROOT}/build") as folder:
                part(folder, a)


if __name__ == "__main__":
    main()
