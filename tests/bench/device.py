#!/usr/bin/env python3
"""Overlap with devices: whole jobs over the stand-in, whose copies and arithmetic have a set rate.

  tests/bench/device.py [--mib 64] [--rate 100] [--rounds 5]

An allreduce of 2 ranks by each of the rows cuda_*. Each device copies --rate MB a second in each
direction, at the same time: the input and the sum go to the device, and both leave it, so twice the
array passes each direction. That is the longest part of the job; the target is a job that takes at
most 1.15 times as long. What does not overlap by its row (cuda_ring, cuda_halving_doubling) has no
target: in one window it takes about twice the longest part, in several windows these overlap.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLLCTL = os.path.abspath(os.environ.get("COLLCTL", f"{ROOT}/build/collctl"))
PLUGIN = os.path.join(os.path.dirname(COLLCTL), "collctl-standin.so")
LIMIT = 300
ROWS = (("cuda_ring_chunked", 1.15), ("cuda_halving_doubling_pipelined", 1.15),
        ("cuda_halving_doubling", None), ("cuda_ring", None))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--mib", type=int, default=64)
    p.add_argument("--rate", type=int, default=100, help="MB/s of each direction")
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    for v in list(os.environ):
        if v.startswith("COLLCTL"):
            del os.environ[v]
    os.environ.update(COLLCTL_PLUGIN_PATH=PLUGIN, COLLCTL_STANDIN_RATE=str(a.rate * 10**6))
    longest = 2 * (a.mib << 20) / (a.rate * 1e6)
    print(f"{a.mib} MiB of f32, 2 ranks, --insecure, --no-sync; longest part {longest:.2f} s")
    with tempfile.TemporaryDirectory(prefix="collctl-bench.") as folder:
        for r in range(2):
            np.save(f"{folder}/in.{r}.npy", np.full(a.mib << 18, r + 1, np.float32))
        times = {row: [] for row, _ in ROWS}
        for _ in range(a.rounds):
            for row, _ in ROWS:
                began = time.perf_counter()
                done = subprocess.run(
                    [COLLCTL, "run", "-n", "2", "--", "allreduce", "--insecure", "--no-sync",
                     "--device", "cuda", "-a", row, "--allow-divergent", "in.{rank}.npy", "-o",
                     "out.{rank}.npy"], cwd=folder, capture_output=True, text=True, timeout=LIMIT,
                    check=False)
                times[row].append(time.perf_counter() - began)
                if done.returncode or not (np.load(f"{folder}/out.1.npy") == 3).all():
                    sys.exit(f"device: {row}: {done.stderr}")
        for row, most in ROWS:
            seconds = statistics.median(times[row])
            ratio = seconds / longest
            met = "" if most is None else f"  <= {most}: {'yes' if ratio <= most else 'NO'}"
            print(f"{row:34}{seconds:6.2f} s{ratio:6.2f}{met}")


if __name__ == "__main__":
    main()
