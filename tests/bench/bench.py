#!/usr/bin/env python3
"""Whole jobs, from the shell's point of view: collctl against Open MPI doing the same with files.

  tests/bench/bench.py [--quick] [--folder DIR]

Each case alternates A B A B ... in one run, after one round that is not counted, and compares
medians of wall time. The inputs are in the page cache (just written), the outputs go to the same
folder and are not synced (--no-sync; the peer does not either). Each command finds no old output
to replace. Before anything is timed the results are checked: with numpy for small sizes, byte for
byte between ranks for all.

The files of 1 GiB lie in /dev/shm where it has room: 4 GiB of unsynced output is more than the
kernel lets be dirty (vm.dirty_background_ratio), so on a disk both sides wait for the disk alone.
--folder DIR puts all files there.

COLLCTL_OLD=PATH runs an older collctl in the same rounds; a case that takes more than 1.05 times as
long as with the older one is a step back.
"""

import argparse
import filecmp
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from common import COLLCTL, ROOT, congestion, forget_settings, machine, output

OLD = os.environ.get("COLLCTL_OLD")
SIZE = 4
LIMIT = 300  # seconds for one command
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1",
          "--mca", "btl", "tcp,self", "-n", str(SIZE)]

# In a process of its own, so that the children's peak belongs to this command alone.
PEAK = """
import resource, subprocess, sys
rc = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(rc)
"""


# Likewise: what it takes it gives back.
TOUCH = """
import mmap
free = next(int(x.split()[1]) << 10 for x in open("/proc/meminfo") if x.startswith("MemFree:"))
m, mib = mmap.mmap(-1, max(free * 19 // 20, 1 << 20)), bytes(1 << 20)
for _ in range(len(m) >> 20):
    m.write(mib)
"""


def touch_memory():
    """Write to all free memory. A virtual machine may get a page from its host only at the first write, and then the files
    that are written first take five to ten times as long."""
    subprocess.run([sys.executable, "-c", TOUCH], check=True)


def environment():
    print(f"machine      {machine()}")
    print(f"congestion   {congestion()} (the system's; collctl takes an unpaced one between ranks of a host)")
    print(f"collctl      {output(COLLCTL, '--version')}")
    print(f"peer         {output('mpirun', '--version').splitlines()[0]}: {' '.join(MPIRUN)}")
    print(f"openssl      {output('openssl', 'version')}")
    print("files        inputs in the page cache, outputs not synced")


def run(command, cwd):
    began = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return took


def collctl(*options):
    return [COLLCTL, "run", "-n", str(SIZE), "--", "allreduce", *options, "--no-sync",
            "in.{rank}.npy", "-o", "out.{rank}.npy"]


def shards(folder, nbytes):
    """Small integers: their sums are exact in any order, so every algorithm must agree."""
    rng = np.random.default_rng(1)
    block = rng.integers(-100, 100, min(nbytes // 4, 1 << 22)).astype(np.float32)
    for r in range(SIZE):
        np.save(f"{folder}/in.{r}.npy", np.resize(np.roll(block, r), nbytes // 4))


def check(folder, nbytes, prefix):
    for r in range(1, SIZE):
        if not filecmp.cmp(f"{folder}/{prefix}.0.npy", f"{folder}/{prefix}.{r}.npy", shallow=False):
            sys.exit(f"bench: {prefix}.{r}.npy differs from {prefix}.0.npy")
    if nbytes <= 64 << 20:
        want = sum(np.load(f"{folder}/in.{r}.npy") for r in range(SIZE))
        if not np.array_equal(np.load(f"{folder}/{prefix}.0.npy"), want):
            sys.exit(f"bench: {prefix}.0.npy is not what numpy has")


def text(nbytes):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >> shift:
            return f"{nbytes >> shift} {unit}"
    return f"{nbytes} B"


rows = []


def row(case, ours, theirs, figure, target, met):
    rows.append((case, ours, theirs, figure, target, "yes" if met else "NO"))
    print("  " + "  ".join(str(c) for c in rows[-1]), flush=True)


def remove_outputs(folder):
    for name in os.listdir(folder):
        if name.startswith(("out.", "mpi.")):
            os.unlink(f"{folder}/{name}")


def compare(folder, peer, nbytes, rounds, cases):
    """cases: (name, options, target ratio)"""
    print(f"\n{SIZE} ranks, {text(nbytes)} of f32 each, {rounds} rounds, in {folder}", flush=True)
    shards(folder, nbytes)
    commands = {}
    for name, options, _ in cases:
        commands[name] = collctl(*options)
        if OLD:
            commands[f"{name} old"] = [OLD, *collctl(*options)[1:]]
    commands["peer"] = [*MPIRUN, peer, "in", "mpi"]
    times = {name: [] for name in commands}
    for i in range(rounds + 1):
        for name, command in commands.items():
            remove_outputs(folder)
            took = run(command, folder)
            if i == 0:  # the page cache and the dynamic linker are warm after it
                print(f"  $ {' '.join(command)}", flush=True)
                check(folder, nbytes, "mpi" if name == "peer" else "out")
            else:
                times[name].append(took)
    theirs = statistics.median(times["peer"])
    for name, _, target in cases:
        ours = statistics.median(times[name])
        row(f"{text(nbytes)}, {name}", f"{ours * 1e3:.1f} ms", f"{theirs * 1e3:.1f} ms",
            f"{ours / theirs:.2f}", f"<= {target}", ours <= target * theirs)
        if OLD:
            old = statistics.median(times[f"{name} old"])
            row(f"{text(nbytes)}, {name}, peer: old", f"{ours * 1e3:.1f} ms", f"{old * 1e3:.1f} ms",
                f"{ours / old:.2f}", "<= 1.05", ours <= 1.05 * old)


def peak(folder, options, name, limit):
    done = subprocess.run([sys.executable, "-c", PEAK, *collctl(*options)], cwd=folder,
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    kib = int(done.stdout.split()[-1])
    row(f"peak memory of a rank, {name}", f"{kib / 1024:.0f} MiB", "", "", f"<= {limit} MiB",
        kib <= limit * 1024)


def large_folder(default):
    """Where the files of 1 GiB lie: in memory, with as much again for the peer's buffers."""
    shm = "/dev/shm"
    available = next(int(line.split()[1]) << 10 for line in open("/proc/meminfo", encoding="utf8")
                     if line.startswith("MemAvailable"))
    if os.path.isdir(shm) and shutil.disk_usage(shm).free >= 9 << 30 and available >= 15 << 30:
        return shm
    print(f"bench: too little memory for {shm}: the files of 1 GiB lie in {default}")
    return default


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--quick", action="store_true", help="fewer rounds, nothing of 1 GiB")
    p.add_argument("--folder", help="where all files lie (TMPDIR, else /var/tmp; /dev/shm for 1 GiB)")
    a = p.parse_args()

    forget_settings()
    environment()
    touch_memory()
    place = a.folder or os.environ.get("TMPDIR", "/var/tmp")
    folder = tempfile.mkdtemp(prefix="collctl-bench.", dir=place)
    large = folder
    try:
        if shutil.disk_usage(folder).free < (1 if a.quick else 14) << 30:
            sys.exit(f"bench: {folder}: not enough room")
        peer = f"{folder}/mpi_allreduce"
        subprocess.run(["mpicc", "-O2", "-o", peer, f"{ROOT}/tests/bench/mpi_allreduce.c"],
                       check=True, timeout=LIMIT)
        tls, plain = ("TLS", ()), ("--insecure", ("--insecure",))
        compare(folder, peer, 4 << 10, 5 if a.quick else 15, [(*tls, 0.2), (*plain, 0.2)])
        compare(folder, peer, 64 << 20, 3 if a.quick else 9, [(*plain, 0.45), (*tls, 0.8)])
        if not a.quick:
            if not a.folder:
                large = tempfile.mkdtemp(prefix="collctl-bench.", dir=large_folder(place))
            compare(large, peer, 1 << 30, 5, [(*plain, 0.45), (*tls, 0.8)])
            remove_outputs(large)
        # --memory is 256M unless said otherwise; libraries and code come on top.
        size = "64 MiB" if a.quick else "1 GiB"
        print(f"\nlimits ({size} for memory)")
        peak(large, (), "TLS", 256 + 32)
        peak(large, ("--insecure",), "--insecure", 256 + 32)
        barrier = [COLLCTL, "run", "-n", "128", "--", "barrier", "-a", "dissemination"]
        print(f"  $ {' '.join(barrier)}")
        took = statistics.median(run(barrier, folder) for _ in range(3))
        row("barrier of 128 ranks", f"{took:.2f} s", "", "", "<= 5 s", took <= 5)
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(large, ignore_errors=True)

    head = ("case", "collctl", "peer", "ratio", "target", "met")
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]
    print()
    for r in [head, *rows]:
        print("  ".join(str(c).ljust(w) for c, w in zip(r, widths)).rstrip())


if __name__ == "__main__":
    main()
