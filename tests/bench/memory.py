#!/usr/bin/env python3
"""Collectives in memory: `collctl bench` against the same loop with Open MPI (mpi_coll.c).

  tests/bench/memory.py [--rounds N] [--only TEXT] [--algorithm NAME]

Each case alternates collctl --insecure, collctl (TLS), Open MPI over TCP, Open MPI over shared
memory, and again, N rounds in one run; a process measures many iterations and gives their median,
and what is compared is the median of these over the rounds. Shared memory is Open MPI's default on
one host; it stands beside the others, no target is against it. Both sides run the same loop: the
time of an iteration is the slowest rank's, and a barrier comes before each iteration of collectives
in which no rank waits for all others.

COLLCTL_OLD=PATH runs an older collctl in the same rounds; a case that takes more than 1.05 times as
long as with the older one is a step back.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from common import COLLCTL, ROOT, congestion, forget_settings, machine

OLD = os.environ.get("COLLCTL_OLD")
LIMIT = 300  # seconds for one command
KIB4, MIB, MIB64 = 4 << 10, 1 << 20, 64 << 20
ITERS = {KIB4: 400, MIB: 40, MIB64: 6}
NAMES = {KIB4: "4 KiB", MIB: "1 MiB", MIB64: "64 MiB"}
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1"]
TCP = ["--mca", "btl", "tcp,self"]
TCP_LANES = ["--lanes", "tcp"]
# Both ways of calling MPI were tried: this is the faster one of each.
INPLACE = {"allreduce", "allgather", "reduce-scatter"}
# Without a barrier some ranks would be iterations ahead of others.
BARRIER = {"broadcast", "reduce", "scan"}

# (collective, ranks, bytes, most of Open MPI over TCP: --insecure, TLS; None: only reported)
CASES = [("allreduce", p, b, plain, tls)
         for p in (2, 4, 8, 3, 5, 6)
         for b, plain, tls in ((KIB4, 1.0, None), (MIB, 1.0, 2.0), (MIB64, 0.6, 1.4))]
CASES += [(c, 4, b, plain, None)
          for c in ("allgather", "broadcast", "reduce-scatter", "alltoall", "scan")
          for b, plain in ((KIB4, None), (MIB, 1.0), (MIB64, 1.0))]


def output(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    if done.returncode:
        sys.exit(f"memory: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def ours(collective, ranks, nbytes, algorithm, *options, binary=COLLCTL):
    """Median and algorithm of one process."""
    text = output(binary, "run", "-n", str(ranks), "--", "bench", collective, "--csv",
                  "-a", algorithm, "-b", str(nbytes), "-e", str(nbytes),
                  "-w", str(ITERS[nbytes] // 4 + 1), "--iters", str(ITERS[nbytes]),
                  *(["--barrier"] if collective in BARRIER else []), *options)
    fields = text.strip().splitlines()[-1].split(",")
    return float(fields[6]), fields[4]


def theirs(peer, collective, ranks, nbytes, *btl):
    how = "inplace" if collective in INPLACE else "apart"
    text = output(*MPIRUN, *btl, "-n", str(ranks), peer, collective, how,
                  "barrier" if collective in BARRIER else "free", str(ITERS[nbytes] // 4 + 1), str(ITERS[nbytes]), str(nbytes))
    return float(text.split()[2])


def environment():
    print(f"machine      {machine()}")
    print(f"congestion   {congestion()} (the system's, and so Open MPI's); collctl takes reno between"
          " ranks of a host")
    print(f"collctl      {output(COLLCTL, '--version').strip()}, -a auto, f32, sum, root 0")
    print(f"peer         {output('mpirun', '--version').splitlines()[0]}: {' '.join(MPIRUN + TCP)};"
          " it yields when idle where ranks are more than processors (its own default)")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", help="cases whose name has this in it ('allreduce P=4')")
    p.add_argument("--algorithm", default="auto", help="of collctl")
    p.add_argument("--no-shared-memory", action="store_true")
    a = p.parse_args()
    forget_settings()
    environment()
    print(f"rounds       {a.rounds}\n")
    head = (f"{'case':30}{'algorithm':>20}{'--insecure':>12}{'TLS':>12}{'MPI, TCP':>12}"
            f"{'MPI, shm':>12}{'plain/TCP':>11}{'TLS/TCP':>9}"
            + (f"{'plain/old':>11}{'TLS/old':>9}" if OLD else "") + "  targets")
    print(head, flush=True)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="collctl-bench.") as folder:
        peer = f"{folder}/mpi_coll"
        subprocess.run(["mpicc", "-O2", "-o", peer, f"{ROOT}/tests/bench/mpi_coll.c"], check=True,
                       timeout=LIMIT)
        for collective, ranks, nbytes, most_plain, most_tls in CASES:
            name = f"{collective} P={ranks} {NAMES[nbytes]}"
            if a.only not in name:
                continue
            plain, tls, tcp, shm, algorithm = [], [], [], [], ""
            old_plain, old_tls = [], []
            for _ in range(a.rounds):
                t, algorithm = ours(collective, ranks, nbytes, a.algorithm, *TCP_LANES, "--insecure")
                plain.append(t)
                tcp.append(theirs(peer, collective, ranks, nbytes, *TCP))
                tls.append(ours(collective, ranks, nbytes, a.algorithm, *TCP_LANES)[0])
                if OLD:
                    same = (collective, ranks, nbytes, a.algorithm)
                    old_plain.append(ours(*same, *TCP_LANES, "--insecure", binary=OLD)[0])
                    old_tls.append(ours(*same, *TCP_LANES, binary=OLD)[0])
                if not a.no_shared_memory:
                    shm.append(theirs(peer, collective, ranks, nbytes))
            m = [statistics.median(x) if x else 0 for x in (plain, tls, tcp, shm)]
            ratios = (m[0] / m[2], m[1] / m[2])
            marks = []
            for ratio, most in zip(ratios, (most_plain, most_tls)):
                if most is not None:
                    marks.append(f"<= {most}: {'yes' if ratio <= most else 'NO'}")
                    missed += ratio > most
            steps = ""
            if OLD:
                steps = (f"{m[0] / statistics.median(old_plain):11.2f}"
                         f"{m[1] / statistics.median(old_tls):9.2f}")
            print(f"{name:30}{algorithm:>20}{m[0]:12.1f}{m[1]:12.1f}{m[2]:12.1f}{m[3]:12.1f}"
                  f"{ratios[0]:11.2f}{ratios[1]:9.2f}{steps}  {', '.join(marks)}", flush=True)
    print(f"\ntimes in microseconds, medians; {missed} targets missed")


if __name__ == "__main__":
    main()
