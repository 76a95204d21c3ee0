#!/usr/bin/env python3
"""What a file costs as a difference to its old version: each coding of lib/data/coding, and what zstd --patch-from and
xdelta3 make of the same files, if they are installed.

    delta.py [--mib N] [--width N] [OLD NEW]

Without files: Gaussian weights in bf16, before and after a step like Adam's, of four sizes, from a fixed seed; then checkpoints
of a model that train.py trains, before and after a step of training and one as in fine-tuning. DELTA_BENCH names the program
of delta_bench.c, which draws the first, encodes and decodes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

BENCH = os.environ.get("DELTA_BENCH", "build/bench/delta_bench")
STEPS = ["5.8e-7", "1.75e-6", "5.65e-6", "1.77e-5"]  # 2.1, 5.3, 13 and 29 % of the weights change
RATES = ["3e-4", "3e-6"]
PEERS = {
    "zstd -1 --patch-from": lambda old, new, out: ["zstd", "-q", "-f", "-1", "--long=31", f"--patch-from={old}", new, "-o", out],
    "xdelta3 -1": lambda old, new, out: ["xdelta3", "-q", "-f", "-1", "-e", "-B", str(max(os.path.getsize(old), 1 << 20)), "-s", old, new, out],
}


def compare(old, new, width, folder):
    sys.stdout.flush()
    subprocess.run([BENCH, str(width), old, new], check=True)
    for name, command in PEERS.items():
        out = os.path.join(folder, "peer")
        argv = command(old, new, out)
        if not shutil.which(argv[0]):
            print(f"{name:36s}  not installed")
            continue
        start = os.times()
        subprocess.run(argv, check=True)
        took = os.times()
        seconds = took.children_user + took.children_system - start.children_user - start.children_system
        size = os.path.getsize(new)
        print(f"{name:36s} {100 * os.path.getsize(out) / size:8.3f} {size / max(seconds, 1e-9) / 1e9:8.2f}")
    print()


def main():
    parser = argparse.ArgumentParser(usage="delta.py [--mib N] [--width N] [OLD NEW]")
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--width", type=int, default=2, choices=[1, 2, 4, 8])
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    if len(args.files) not in (0, 2):
        parser.error("either both files, or none")
    with tempfile.TemporaryDirectory(prefix="collctl-bench-") as folder:
        if args.files:
            compare(*args.files, args.width, folder)
            return
        for step in STEPS:
            old, new = os.path.join(folder, "old"), os.path.join(folder, "new")
            subprocess.run([BENCH, "draw", step, str(args.mib), old, new], check=True)
            print(f"a step of {step}")
            compare(old, new, args.width, folder)
        train = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py")
        subprocess.run([sys.executable, train, "--out", folder, "--rates", ",".join(RATES)], check=True)
        for rate in RATES:
            print(f"a step of Adam with rate {rate}")
            compare(os.path.join(folder, "old"), os.path.join(folder, rate), 2, folder)


if __name__ == "__main__":
    main()
