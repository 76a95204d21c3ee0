#!/usr/bin/env python3
"""Whole jobs on devices: how well their parts overlap, and torch doing the same from the same files.

  tests/bench/gpu.py [--plugin FILE] [--mib 1024] [--ranks 2] [--rounds 5] [--only overlap|torch] [--result FILE]

overlap: an allreduce by each of the rows cuda_*, its run phase over its longest part, which is measured in the same
rounds: reading the inputs, writing the outputs (dd), the host's algorithm in memory (bench), and the
copies. A device's link carries the input to it and from it, at the same time, so the array in each
direction, for each rank of the device, at the rate that bench measures. The target is a run phase of
at most 1.15 times its longest part. What does not overlap by its row (cuda_ring, cuda_halving_doubling)
has no target: in one window it takes about twice the longest part, in several windows these overlap.
The start is the same job of few bytes; nothing overlaps it.

torch: two inputs a rank, added on the device, reduced, written as .npy: --device cuda against torch.distributed
with gloo and, where each rank has a device of its own, NCCL. The whole command, and what comes
after the start of both (torch is imported, processes and devices are ready).

--result: FILE gets the figures of the last part, as JSON.

All runs alternate, A B A B ..., after a round that is not counted and whose results are checked; medians.
Inputs are in the page cache, outputs are not synced. Exit code 77: the plug-in has no device, or
numpy is missing. Over the stand-in, COLLCTL_STANDIN_RATE is the rate of each device's copies (make bench-device).
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from common import COLLCTL, ROOT, forget_settings

try:
    import numpy as np
except ImportError:
    np = None

LIMIT = 600  # seconds for one command
SKIPPED = 77
OVERLAP = 1.15
ROWS = (("cuda_ring_chunked", "ring_chunked", OVERLAP),
        ("cuda_halving_doubling_pipelined", "halving_doubling", OVERLAP),
        ("cuda_halving_doubling", "halving_doubling", None), ("cuda_ring", "ring", None))


# ---- running ----

def run(command, folder):
    """Wall time and stdout."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"gpu: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return took, done.stdout


def run_all(commands, folder, environments=None):
    """The same of commands that run at once."""
    began = time.perf_counter()
    started = [subprocess.Popen(c, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environments and environments[i])
               for i, c in enumerate(commands)]
    said = [p.communicate(timeout=LIMIT) for p in started]
    took = time.perf_counter() - began
    for p, command, (_, err) in zip(started, commands, said):
        if p.returncode:
            sys.exit(f"gpu: {' '.join(command)}: exit code {p.returncode}\n{err}")
    return took, [out for out, _ in said]


def collctl(a, *words):
    return [COLLCTL, "run", "-n", str(a.ranks), "--", *words]


def allreduce(a, *words):
    return collctl(a, "allreduce", "--insecure", "--no-sync", "--json", "--device", "cuda", *words)


def seconds(text, *stages):
    """The slowest rank's time for these stages."""
    return max(sum(json.loads(line)["seconds"][s] for s in stages) for line in text.splitlines())


def remove(folder):
    for name in os.listdir(folder):
        if name.startswith(("out.", "peer.")):
            os.unlink(f"{folder}/{name}")


def check(folder, a, prefix, want):
    for r in range(a.ranks):
        if not (np.load(f"{folder}/{prefix}.{r}.npy", mmap_mode="r") == want).all():
            sys.exit(f"gpu: {prefix}.{r}.npy is wrong")


def rounds(folder, a, cases, checks):
    """cases: name: a function that gives times by name. Their medians, as name: {name: seconds}."""
    found = {name: [] for name in cases}
    for i in range(a.rounds + 1):
        for name, case in cases.items():
            remove(folder)
            times = case()
            if i == 0:
                checks(name)
            else:
                found[name].append(times)
    return {name: {k: statistics.median(t[k] for t in times) for k in times[0]}
            for name, times in found.items()}


# ---- overlap ----

def copies(folder, a):
    """A rank's copies in one direction, at the rate of a device that one rank alone uses."""
    sides = f'[ "$COLLCTL_RANK" = 0 ] && d=cuda:0 || d=cpu; exec {COLLCTL} bench allreduce --insecure ' \
            '-b 4K -e 4K -w 0 --iters 2 --tuning-out tuning --device "$d"'
    run([COLLCTL, "run", "-n", "2", "--", "sh", "-c", sides], folder)
    with open(f"{folder}/tuning", encoding="utf8") as f:
        rate = json.load(f)["rates"]["device_copy"]
    return {"time": (a.mib << 20) * rate * a.sharers}


def overlap(folder, a):
    nbytes = a.mib << 20
    for r in range(a.ranks):
        np.save(f"{folder}/in.{r}.npy", np.full(nbytes // 4, r + 1, np.float32))
        np.save(f"{folder}/few.{r}.npy", np.full(256, r + 1, np.float32))

    def job(row, inputs="in.{rank}.npy"):
        took, said = run(allreduce(a, "-a", row, "--allow-divergent", inputs, "-o", "out.{rank}.npy"), folder)
        return {"time": took, "run": seconds(said, "run")}

    def files(one):
        return {"time": run_all([["dd", "bs=4M", "status=none", *one(r)] for r in range(a.ranks)], folder)[0]}

    def in_memory(algorithm):
        said = run(collctl(a, "bench", "allreduce", "--insecure", "--json", "--allow-divergent", "-a", algorithm,
                           "-b", str(nbytes), "-e", str(nbytes), "-w", "1", "--iters", "3"), folder)[1]
        return {"time": max(json.loads(line)["rows"][0]["seconds"]["p50"] for line in said.splitlines())}

    parts = {"reading the inputs": lambda: files(lambda r: (f"if=in.{r}.npy", "of=/dev/null")),
             "writing the outputs": lambda: files(lambda r: (f"if=in.{r}.npy", f"of=out.{r}.npy")),
             "copies to and from the device": lambda: copies(folder, a)}
    parts.update({f"{h} in memory": lambda h=h: in_memory(h) for h in sorted({h for _, h, _ in ROWS})})
    cases = {**parts, "the start": lambda: job(ROWS[0][0], "few.{rank}.npy"),
             **{row: lambda row=row: job(row) for row, _, _ in ROWS}}

    def checks(name):
        if name.startswith("cuda"):
            check(folder, a, "out", a.ranks * (a.ranks + 1) / 2)

    t = rounds(folder, a, cases, checks)
    print(f"\noverlap: {a.mib} MiB of f32 a rank")
    for name in (*parts, "the start"):
        print(f"  {name:34}{t[name]['time']:8.3f} s")
    print(f"  {'row':34}{'job':>8}  {'run':>8}  {'longest':>8}  {'run/longest':>11}")
    rows = []
    for row, host, most in ROWS:
        longest = max(t[p]["time"] for p in parts if not p.endswith(" in memory") or p == f"{host} in memory")
        ratio = t[row]["run"] / longest # the rest of the job is its start and its end
        met = "" if most is None else f"  <= {most}: {'yes' if ratio <= most else 'NO'}"
        print(f"  {row:34}{t[row]['time']:8.3f}  {t[row]['run']:8.3f}  {longest:8.3f}  {ratio:11.2f}{met}")
        rows.append({"row": row, "job": t[row]["time"], "run": t[row]["run"], "longest": longest, "ratio": ratio, "most": most})
    return {"mib": a.mib, "ranks": a.ranks, "parts": {name: t[name]["time"] for name in (*parts, "the start")}, "rows": rows}


# ---- torch ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def peer(folder, a, backend, inputs):
    common = {**os.environ, "WORLD_SIZE": str(a.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
              "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // a.ranks))}
    program = f"{ROOT}/tests/bench/torch_allreduce.py"
    took, said = run_all([[sys.executable, program, backend, a.torch_device, f"peer.{r}.npy",
                           *(name.replace("{rank}", str(r)) for name in inputs)] for r in range(a.ranks)],
                         folder, [{**common, "RANK": str(r)} for r in range(a.ranks)])
    return {"whole": took, "after": max(float(text.split()[-1]) for text in said)}


def torch(folder, a):
    ask = ("import torch, torch.distributed as d; "
           "print(torch.__version__, torch.cuda.device_count(), d.is_nccl_available())")
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"\ntorch: skipped: {sys.executable} has no torch ({done.stderr.strip().splitlines()[-1]}); make PYTHON= names another Python")
        return None
    version, devices, has_nccl = done.stdout.split()
    if a.torch_device == "cuda" and devices == "0":
        print(f"\ntorch: skipped: torch {version} sees no GPU")
        return None
    inputs = [f"in.{{rank}}.{k}.npy" for k in range(2)]
    for r in range(a.ranks):
        for k in range(2):
            np.save(f"{folder}/in.{r}.{k}.npy", np.full((a.mib << 20) // 4, 2 * r + k, np.float32))
    nccl = has_nccl == "True" and a.torch_device == "cuda" and int(devices) >= a.ranks

    def ours():
        took, said = run(allreduce(a, *inputs, "-o", "out.{rank}.npy"), folder)
        return {"whole": took, "after": seconds(said, "run", "commit")}

    cases = {"collctl": ours, "gloo": lambda: peer(folder, a, "gloo", inputs)}
    if nccl:
        cases["nccl"] = lambda: peer(folder, a, "nccl", inputs)
    t = rounds(folder, a, cases,
               lambda name: check(folder, a, "out" if name == "collctl" else "peer", a.ranks * (2 * a.ranks - 1)))
    print(f"\ntorch {version} on {a.torch_device}: two inputs of {a.mib} MiB of f32 a rank")
    print(f"  {'peer':24}{'collctl':>10}{'torch':>10}{'ratio':>8}")
    rows = []
    for name in list(cases)[1:]:
        for part, words in (("whole", "whole command"), ("after", "after the start")):
            mine, theirs = t["collctl"][part], t[name][part]
            print(f"  {name + ', ' + words:24}{mine:8.3f} s{theirs:8.3f} s{mine / theirs:8.2f}")
            rows.append({"peer": name, "part": words, "collctl": mine, "torch": theirs})
    if not nccl:
        print("  nccl: skipped: it needs a device for each rank")
    return {"version": version, "mib": a.mib, "rows": rows}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plugin", default=os.path.join(os.path.dirname(COLLCTL), "collctl-cuda.so"))
    p.add_argument("--mib", type=int, default=1024, help="of an input")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", choices=("overlap", "torch"))
    p.add_argument("--result", help="a file for the figures of the last part")
    p.add_argument("--torch-device", choices=("cuda", "cpu"), default="cuda", help="cpu: to test this script")
    p.add_argument("--folder", help="for the files (default: the one for temporary files)")
    a = p.parse_args()
    forget_settings("COLLCTL_STANDIN")
    plugin = os.environ["COLLCTL_PLUGIN_PATH"] = os.path.abspath(a.plugin)
    asked = subprocess.run([f"{ROOT}/tests/gpu/devices.sh", COLLCTL, plugin], capture_output=True, text=True,
                           check=False)
    if asked.returncode:
        print(f"whole jobs: {asked.stdout.strip()}{asked.stderr.strip()}")
        sys.exit(asked.returncode)
    if not np:
        print(f"whole jobs: skipped: {sys.executable} has no numpy (make PYTHON= names another Python)")
        sys.exit(SKIPPED)
    devices = int(asked.stdout)
    # Each process has the stand-in's devices for itself.
    stand_in = json.loads(run([COLLCTL, "version", "--json"], ROOT)[1])["gpu_plugin"]["name"] == "stand-in"
    a.sharers = 1 if stand_in else -(-a.ranks // devices)
    print(f"whole jobs: {a.ranks} ranks of one host, {devices} device{'s' * (devices > 1)} of {plugin}, --insecure, --no-sync",
          flush=True)
    for part in (overlap, torch):
        if a.only in (None, part.__name__):
            with tempfile.TemporaryDirectory(prefix="collctl-bench.", dir=a.folder) as folder:
                found = part(folder, a)
            if a.result and found:
                with open(a.result, "w", encoding="utf8") as f:
                    json.dump(found, f)


if __name__ == "__main__":
    main()
