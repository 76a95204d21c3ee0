#!/usr/bin/env python3
"""Ranks that share a host, and hosts that share links.

  tests/bench/hosts.py [--rounds 5] [--only TEXT] [--folder DIR]

All sides of a case alternate in one run, after one round that is not counted; a figure is a ratio of
medians. Four ranks unless the case says otherwise.

  jobs    whole jobs from files to files, not synced: memory lanes, --lanes tcp --insecure and --lanes
          tcp (TLS) against cp + numpy: three cp, a sum by numpy, three cp. 4 KiB against Open MPI.
  memory  collectives in memory (`collctl bench`, mpi_coll.c) against Open MPI over TCP, and memory
          lanes against its shared memory.
  start   the barrier of many ranks.
  links   hosts as network namespaces with a link of 1 Gbit/s each, and of 100 Mbit/s (tc tbf): the
          run phase of an allreduce by `auto`, TLS, over 2S(N-1)/N at the link's rate, which is given
          as --link-rate. All hosts run on this machine's processors: at 1 Gbit/s these, not the
          links, may be the limit. Needs root and iproute2.

The files are in the folder (TMPDIR, else /var/tmp), those of 1 GiB in /dev/shm where it has room.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import bench
import memory
import predict
from common import COLLCTL, ROOT, forget_settings

KIB4, MIB, MIB64, GIB = 4 << 10, 1 << 20, 64 << 20, 1 << 30
LINKS = {  # Mbit/s: ranks a host, bytes, the most that the figure may be
    1000: ((1, 128 << 20, 1.06), (1, 32 << 20, 1.15), (4, 32 << 20, 1.15)),
    100: ((1, 32 << 20, 1.06), (4, 32 << 20, 1.15)),
}
WAYS = {"memory lanes": ("--lanes", "memory"),
        "plain TCP": ("--lanes", "tcp", "--insecure"),
        "TLS": ("--lanes", "tcp")}

NUMPY = """
import numpy as np
total = np.load('in.0.npy')
for r in 1, 2, 3: total += np.load(f'got.{r}.npy')
np.save('out.0.npy', total)
"""
# What somebody with a shell and numpy does.
CP = ["sh", "-ec", "for r in 1 2 3; do cp in.$r.npy got.$r.npy; done; " + sys.executable +
      ' -c "$0"; for r in 1 2 3; do cp out.0.npy out.$r.npy; done', NUMPY]

rows = []


def row(case, ours, theirs, target):
    ratio = ours / theirs
    met = "" if target is None else "yes" if ratio <= target else "NO"
    rows.append((case, f"{ours * 1e3:.3f} ms", f"{theirs * 1e3:.3f} ms", f"{ratio:.2f}",
                 "" if target is None else f"<= {target}", met))
    print("  " + "  ".join(rows[-1]), flush=True)


def jobs(folder, nbytes, rounds, targets, peer, name_of_peer):
    """Whole jobs against the command @peer; @targets: of each of WAYS."""
    bench.shards(folder, nbytes)
    commands = {name: bench.collctl(*options) for name, options in WAYS.items()}
    commands["peer"] = peer
    times = {name: [] for name in commands}
    for i in range(rounds + 1):
        for name, command in commands.items():
            for old in os.listdir(folder):
                if old.startswith(("out.", "mpi.", "got.")):
                    os.unlink(f"{folder}/{old}")
            took = bench.run(command, folder)
            if i == 0 and name != "peer":
                bench.check(folder, nbytes, "out")
            if i:
                times[name].append(took)
    theirs = statistics.median(times["peer"])
    for name, target in zip(WAYS, targets):
        row(f"job of {bench.text(nbytes)}, {name} / {name_of_peer}",
            statistics.median(times[name]), theirs, target)


def mpich(folder, rounds):
    """Jobs of 4 KiB against MPICH, if it is here. FI_PROVIDER: it would also try others than TCP."""
    if not (shutil.which("mpicc.mpich") and shutil.which("mpirun.mpich")):
        print("  job of 4 KiB / MPICH: not measured: no mpicc.mpich and mpirun.mpich", flush=True)
        return
    program = f"{folder}/mpich_allreduce"
    subprocess.run(["mpicc.mpich", "-O2", "-o", program, f"{ROOT}/tests/bench/mpi_allreduce.c"], check=True)
    jobs(folder, KIB4, rounds, (None, None, 0.12),
         ["env", "FI_PROVIDER=tcp", "mpirun.mpich", "-n", str(bench.SIZE), program, "in", "mpi"], "MPICH")


def collectives(peer, rounds, only):
    cases = [("allreduce", 4, KIB4, (0.8, None, 0.5)), ("allreduce", 4, MIB, (0.4, 0.8, 0.5)),
             ("allreduce", 4, MIB64, (0.4, 0.75, 0.25))]
    cases += [(c, p, b, (1.0, None, None))
              for c in ("reduce-scatter", "allgather", "broadcast", "alltoall", "scan")
              for p in (2, 4, 8) for b in (KIB4, MIB, MIB64)]
    for collective, ranks, nbytes, (plain, tls, shared) in cases:
        name = f"{collective} P={ranks} {memory.NAMES[nbytes]}"
        if only not in f"memory {name}":
            continue
        times = {side: [] for side in (*WAYS, "tcp", "shm")}
        for _ in range(rounds):
            for way, options in WAYS.items():
                times[way].append(memory.ours(collective, ranks, nbytes, "auto", *options)[0] / 1e6)
            times["tcp"].append(memory.theirs(peer, collective, ranks, nbytes, *memory.TCP) / 1e6)
            times["shm"].append(memory.theirs(peer, collective, ranks, nbytes) / 1e6)
        t = {side: statistics.median(x) for side, x in times.items()}
        row(f"{name}, plain TCP / Open MPI TCP", t["plain TCP"], t["tcp"], plain)
        row(f"{name}, TLS / Open MPI TCP", t["TLS"], t["tcp"], tls)
        row(f"{name}, memory lanes / Open MPI shared memory", t["memory lanes"], t["shm"], shared)


def start(folder):
    for ranks, most in ((256, 1.5), (1024, 10)):
        took = statistics.median(bench.run([COLLCTL, "run", "-n", str(ranks), "--", "barrier"], folder)
                                 for _ in range(3))
        rows.append((f"barrier of {ranks} ranks, with start", f"{took:.2f} s", "", "", f"<= {most} s",
                     "yes" if took <= most else "NO"))
        print("  " + "  ".join(rows[-1]), flush=True)


def linked(net, folder, each, nbytes, mbit):
    """The run phase, in seconds, of an allreduce on every host of @net with @each ranks."""
    size = net.size * each
    with open(f"{folder}/hosts", "w", encoding="utf8") as f:
        f.writelines(f"{net.address(r // each)}\n" for r in range(size))
    started = [net.start(r // each, COLLCTL, "allreduce", f"in.{r}.npy", "-o", f"out.{r}.npy", "-r", str(r),
                         "-H", "hosts", "--json", "--no-sync", "--secret-file", "key", "--link-rate", f"{mbit}Mbit",
                         cwd=folder)
               for r in range(size)]
    said = [p.communicate(timeout=predict.LIMIT) for p in started]
    for p, (_, err) in zip(started, said):
        if p.returncode:
            sys.exit(f"hosts: exit code {p.returncode}\n{err}")
    return max(json.loads(out)["seconds"]["run"] for out, _ in said)


def links(folder, rounds, only, mbit):
    net = predict.Net(4)
    try:
        net.open()
        net.shape(mbit)
        subprocess.run([COLLCTL, "keygen", f"{folder}/key", "--force"], check=True, capture_output=True)
        for each, nbytes, most in LINKS[mbit]:
            name = f"links: 4 hosts x {each}, {mbit} Mbit/s, {bench.text(nbytes)}, TLS / bound"
            if only not in name:
                continue
            for r in range(4 * each):
                np.save(f"{folder}/in.{r}.npy", np.full(nbytes // 4, r, np.float32))
            took = statistics.median(linked(net, folder, each, nbytes, mbit) for _ in range(rounds))
            row(name, took, 2 * nbytes * 3 / 4 / (mbit * 125e3), most)
    except predict.Unavailable as e:
        print(f"  links: skipped: {e}")
    finally:
        net.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", help="cases with this in their name ('jobs 64 MiB', 'memory allreduce')")
    p.add_argument("--folder")
    a = p.parse_args()
    forget_settings()
    bench.environment()
    bench.touch_memory()
    place = a.folder or os.environ.get("TMPDIR", "/var/tmp")
    folder = tempfile.mkdtemp(prefix="collctl-bench.", dir=place)
    large = folder
    try:
        for c in ("mpi_coll", "mpi_allreduce"):
            subprocess.run(["mpicc", "-O2", "-o", f"{folder}/{c}", f"{ROOT}/tests/bench/{c}.c"], check=True)
        if a.only in "jobs 4 KiB":
            jobs(folder, KIB4, 3 * a.rounds, (None, None, 0.12),
                 [*bench.MPIRUN, f"{folder}/mpi_allreduce", "in", "mpi"], "Open MPI")
            mpich(folder, rounds=3 * a.rounds)
        if a.only in "jobs 64 MiB":
            jobs(folder, MIB64, 2 * a.rounds, (0.30, 0.50, 0.85), CP, "cp + numpy")
        if a.only in "jobs 1 GiB":
            large = tempfile.mkdtemp(prefix="collctl-bench.", dir=a.folder or bench.large_folder(place))
            jobs(large, GIB, a.rounds, (0.35, 0.55, 1.0), CP, "cp + numpy")
            shutil.rmtree(large)
        collectives(f"{folder}/mpi_coll", a.rounds, a.only)
        if a.only in "start":
            start(folder)
        for mbit in LINKS:
            links(folder, a.rounds, a.only, mbit)
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(large, ignore_errors=True)
    head = ("case", "collctl", "peer", "ratio", "target", "met")
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    print()
    for r in [head, *rows]:
        print("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip())


if __name__ == "__main__":
    main()
