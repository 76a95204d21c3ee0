#!/usr/bin/env python3
"""The result of four ranks of one host on XFS, in a file on a loop device: written once and cloned, against the same job on an
XFS without clones, where all four write it.

  tests/bench/clones.py [--rounds 3] [--mib 2048] [--folder DIR]

Four files of bf16 are averaged; the outputs are synced. Both sides alternate in one run, after one round that is not counted; a
figure is a ratio of medians. Needs root, loop devices, mkfs.xfs and room for ten files; without them it says so.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from bench import run, touch_memory
from common import COLLCTL, forget_settings

RANKS = 4


class Unavailable(Exception):
    pass


class Image:
    """An XFS of its own in DIR/NAME, made anew by each use, so that both sides begin with an empty one."""

    def __init__(self, folder, name, mib, *options):
        self.at, self.file, self.mib, self.options = f"{folder}/{name}", f"{folder}/{name}.img", mib, options
        os.mkdir(self.at)

    def __enter__(self):
        with open(self.file, "wb") as f:
            f.truncate((RANKS * self.mib + 1024) << 20)
        for command in (["mkfs.xfs", "-q", *self.options, self.file], ["mount", "-o", "loop", self.file, self.at]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Unavailable(done.stderr.strip().splitlines()[0])
        self.before = self.used()
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.at], check=False)
        os.unlink(self.file)

    def used(self):
        os.sync()
        s = os.statvfs(self.at)
        return (s.f_blocks - s.f_bfree) * s.f_frsize


def row(what, value, target):
    print(f"{what:72s} {value:6.3f}   target {target}: {'met' if value <= target else 'missed'}", flush=True)


def measure(folder, a):
    for r in range(RANKS):
        with open(f"{folder}/in.{r}.bin", "wb") as f:
            for _ in range(a.mib):
                f.write((b"\x80\x3f" + bytes([r, 0x40])) * (1 << 18))
    bytes_of_one = a.mib << 20
    times, blocks = {"clones": [], "writes": []}, []
    for i in range(a.rounds + 1):
        for side, option in (("clones", "reflink=1"), ("writes", "reflink=0")):
            with Image(folder, f"{side}.{i}", a.mib, "-m", option) as image:
                took = run([COLLCTL, "run", "-n", str(RANKS), "--", "allreduce", "--op", "avg", "-q", "--dtype", "bf16", "--shape", str(a.mib << 19),
                            "in.{rank}.bin", "-o", f"{image.at}/out.{{rank}}.bin"], folder)
                used = image.used() - image.before
                for r in range(1, RANKS):
                    subprocess.run(["cmp", f"{image.at}/out.0.bin", f"{image.at}/out.{r}.bin"], check=True)
            if i:
                times[side].append(took)
                blocks += [used] if side == "clones" else []
    t = {side: statistics.median(x) for side, x in times.items()}
    print(f"  average of {RANKS} x {a.mib} MiB of bf16: cloned {t['clones']:.2f} s, written by all {t['writes']:.2f} s")
    row("clones: blocks used / one output", statistics.median(blocks) / bytes_of_one, 1.1)
    row("clones: written once and cloned / written by all four", t["clones"] / t["writes"], 0.5)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--mib", type=int, default=2048)
    p.add_argument("--folder")
    a = p.parse_args()
    forget_settings()
    place = tempfile.mkdtemp(prefix="collctl-bench.", dir=a.folder or os.environ.get("TMPDIR", "/var/tmp"))
    try:
        if os.geteuid() or not shutil.which("mkfs.xfs"):
            raise Unavailable("needs root and mkfs.xfs")
        if shutil.disk_usage(place).free < (10 * a.mib) << 20:
            raise Unavailable(f"{place} has no room for ten files of {a.mib} MiB")
        touch_memory()
        measure(place, a)
    except Unavailable as e:
        print(f"clones: skipped: {e}")
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
